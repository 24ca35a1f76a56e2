//! From a body to what the runtime takes: the route is found, the prompt becomes tokens.
//!
//! Pure computation, so that the handler can move it off the async threads when a body is large.

use axum::http::HeaderMap;
use engine::{EngineError, Tokenizer};
use journey::Adjustments;

use super::draw::{Asked, draw};
use super::error::{ApiError, Fault};
use super::parse::{Dialect, Prompt, Shape, Wanted, parse};
use super::random::unguessable;
use crate::access::Caller;
use crate::experiments::Assigned;
use crate::runtime::{Ask, Catalog, NoSuchRoute, Route, Selected, SubmitError};

/// A request ready to be submitted.
pub(super) struct Prepared {
    /// What the client calls the model.
    pub(super) model: String,
    /// The route and the request's settings.
    pub(super) selected: Selected,
    /// The arm that serves it, where there is an experiment on the route.
    pub(super) assigned: Option<Assigned>,
    /// The number in the answer's id.
    pub(super) id: u64,
    /// The request in tokens.
    pub(super) ask: Ask,
    /// How the answer is shown.
    pub(super) shape: Shape,
    /// Which fields its refusals name.
    pub(super) names: Names,
}

/// The fields that a refusal by the runtime is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    prompt: &'static str,
    limit: Option<&'static str>,
}

/// Parses a body, finds its route among those that the caller may see, draws its arm, and tokenises its prompt.
///
/// # Errors
/// What is wrong with the request.
pub(super) fn prepare(
    catalog: &Catalog,
    caller: &Caller,
    dialect: Dialect,
    (headers, body): (&HeaderMap, &[u8]),
) -> Result<Prepared, ApiError> {
    let wanted = parse(dialect, body)?;
    let mut selected = Selected::find(&wanted.model, |name| caller.find(catalog, name))
        .map_err(|error| no_route(caller, catalog, (&wanted.model, &error)))?;
    let id = unguessable();
    let assigned = draw(catalog, &Asked { caller, headers, wanted: &wanted, id }, &mut selected);
    let Wanted { model, prompt, sampling, adjustments, seed, stop, limit, shape, .. } = wanted;
    let names = Names { prompt: dialect.prompt_field(), limit: limit.map(|(_, name)| name) };
    let (prompt, prompts) = tokens(&selected.route, prompt, names.prompt)?;
    let ask = Ask {
        prompt,
        prompts,
        sampling,
        adjustments: Adjustments { bias: known_bias(&selected.route, &wanted.bias)?, ..adjustments },
        seed: seed.unwrap_or_else(unguessable),
        stop,
        stop_tokens: known_tokens(&selected.route, &wanted.stop_tokens, "stop_token_ids")?,
        ignore_eos: wanted.ignore_eos,
        tokens_min: wanted.tokens_min,
        max_tokens: limit.map(|(most, _)| most),
        candidates: shape.logprobs.unwrap_or(0),
        behalf: caller.behalf(),
    };
    Ok(Prepared { model, selected, assigned, id, ask, shape, names })
}

impl Names {
    /// What the client is told when the runtime does not take the request.
    pub(super) fn refusal(self, error: &SubmitError) -> ApiError {
        let message = error.to_string();
        match error {
            SubmitError::EmptyPrompt => ApiError::field(Fault::Value, self.prompt, message),
            SubmitError::ContextExceeded { prompt, context, .. } => {
                let param = self.limit.filter(|_| prompt < context).unwrap_or(self.prompt);
                ApiError::field(Fault::Context, param, message)
            }
            SubmitError::Setting(_) => ApiError::field(Fault::Value, "model", message),
            SubmitError::QueueFull { .. } => ApiError::general(Fault::QueueFull, message),
            SubmitError::Draining => ApiError::general(Fault::Draining, message),
        }
    }
}

/// What a caller is told of a name that nothing is served under.
pub(super) fn no_model(caller: &Caller, catalog: &Catalog, name: &str) -> ApiError {
    match caller.broken(catalog, name) {
        Some(why) => ApiError::broken(name, &why),
        None => ApiError::no_model(name),
    }
}

fn no_route(caller: &Caller, catalog: &Catalog, (name, error): (&str, &NoSuchRoute)) -> ApiError {
    match error {
        NoSuchRoute::Unknown(route) if caller.broken(catalog, route).is_some() => {
            no_model(caller, catalog, route)
        }
        NoSuchRoute::Unknown(_) => ApiError::no_model(name),
        NoSuchRoute::Malformed(_) => ApiError::field(Fault::Value, "model", error.to_string()),
    }
}

/// A prompt in the route's tokens, and as models with others read it: each by its own template, and what is given in tokens
/// by its text.
fn tokens(route: &Route, prompt: Prompt, field: &str) -> Result<(Vec<u32>, OwnPrompts), ApiError> {
    let read = |tokenizer: &Tokenizer| match &prompt {
        Prompt::Chat(messages) => tokenizer.encode_chat(messages),
        Prompt::Text(text) => tokenizer.encode(text),
        Prompt::Tokens(ids) => {
            let ids: Vec<u32> = ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect();
            tokenizer.encode(&route.tokenizer.decode(&ids))
        }
    };
    let refused = |error: &EngineError, message: String| match error {
        EngineError::Template { .. } | EngineError::NoTemplate | EngineError::Encode { .. } => {
            ApiError::field(Fault::Value, field, message)
        }
        _ => ApiError::server(message),
    };
    let of_route = match &prompt {
        Prompt::Tokens(ids) => known_tokens(route, ids, field)?,
        _ => read(&route.tokenizer).map_err(|error| refused(&error, error.to_string()))?,
    };
    let of_others = route
        .prompts(read)
        .map_err(|(model, error)| refused(&error, format!("for the model {model:?}: {error}")))?;
    Ok((of_route, of_others))
}

/// By role.
type OwnPrompts = Vec<Option<Vec<u32>>>;

fn known_tokens(route: &Route, ids: &[u64], field: &str) -> Result<Vec<u32>, ApiError> {
    ids.iter().enumerate().map(|(ix, id)| known_token(route, *id, || format!("{field}[{ix}]"))).collect()
}

fn known_bias(route: &Route, bias: &[(u64, f32)]) -> Result<Vec<(u32, f32)>, ApiError> {
    let known = |&(id, by): &(u64, f32)| Ok((known_token(route, id, || format!("logit_bias.{id}"))?, by));
    bias.iter().map(known).collect()
}

/// An id that every model of the route has.
fn known_token(route: &Route, id: u64, path: impl FnOnce() -> String) -> Result<u32, ApiError> {
    let vocabulary = route.model_infos.iter().map(|model| model.vocabulary).min().unwrap_or(0);
    u32::try_from(id).ok().filter(|id| *id < vocabulary).ok_or_else(|| {
        let message =
            format!("the token id {id} does not exist; the route's models have {vocabulary} tokens");
        ApiError::field(Fault::Value, path(), message)
    })
}
