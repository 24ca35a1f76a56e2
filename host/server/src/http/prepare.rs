//! From a body to what the runtime takes: the route is found, the prompt becomes tokens.
//!
//! Pure computation, so that the handler can move it off the async threads when a body is large.

use axum::http::HeaderMap;
use engine::{EngineError, Tokenizer};
use journey::Adjustments;

use super::constrain::{Constraint, Reading, constrain};
use super::draw::{Asked, draw};
use super::error::{ApiError, Fault};
use super::parse::{Choice, Dialect, Prompt, Shape, Tool, Wanted, parse};
use super::random::unguessable;
use crate::access::Caller;
use crate::experiments::Assigned;
use crate::runtime::{Ask, Catalog, NoSuchRoute, NotTaken, Route, Selected, SubmitError};

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
    /// The request in tokens: by prompt, once for each answer that is wanted.
    pub(super) asks: Vec<Vec<Ask>>,
    /// The prompts that are shown with the answers.
    pub(super) shown: Vec<Shown>,
    /// How the answer is shown.
    pub(super) shape: Shape,
    /// How calls of tools are read in it, if there may be some.
    pub(super) calls: Option<Reading>,
    /// Which fields its refusals name.
    pub(super) names: Names,
}

/// A prompt as its client is told of it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Its tokens.
    pub(super) tokens: Vec<u32>,
    /// By role, for models that read it in tokens of their own.
    pub(super) own: Vec<Option<Vec<u32>>>,
    /// Its text, where it came as one.
    pub(super) text: Option<String>,
}

/// The fields that a refusal by the runtime is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    prompt: &'static str,
    /// Whether it holds several.
    several: bool,
    limit: Option<&'static str>,
}

/// Parses a body, finds its route among those that the caller may see, draws its arm, and tokenises its prompts.
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
    let route = &selected.route;
    let names = Names {
        prompt: dialect.prompt_field(),
        several: wanted.prompts.len() > 1,
        limit: wanted.limit.map(|(_, name)| name),
    };
    let Constraint { grammar, calls, opening } = constrain(route, &wanted.format, &wanted.tools)?;
    let ask = Ask { grammar, ..ask(route, &wanted, caller)? };
    let shows_tools = wanted.tools.choice != Choice::None;
    let tools: Vec<_> = wanted.tools.list.iter().filter(|_| shows_tools).map(Tool::object).collect();
    let Wanted { model, prompts, choices, shape, .. } = wanted;
    let tokens = |(ix, mut prompt)| {
        if let Prompt::Chat(chat) = &mut prompt {
            chat.tools.clone_from(&tools);
        }
        let mut shown = tokens(route, prompt, &names.prompt(ix))?;
        shown.tokens.extend(opening);
        Ok(shown)
    };
    let shown: Vec<Shown> = prompts.into_iter().enumerate().map(tokens).collect::<Result<_, ApiError>>()?;
    let each = |shown: &Shown| {
        // An answer has the seed that it would have alone, counted on from the request's.
        let seeded = |nth| Ask {
            prompt: shown.tokens.clone(),
            prompts: shown.own.clone(),
            seed: ask.seed.wrapping_add(nth),
            ..ask.clone()
        };
        (0..choices as u64).map(seeded).collect()
    };
    let asks = shown.iter().map(each).collect();
    Ok(Prepared { model, selected, assigned, id, asks, shown, shape, calls, names })
}

/// What is asked for, but for the prompt and the grammar.
fn ask(route: &Route, wanted: &Wanted, caller: &Caller) -> Result<Ask, ApiError> {
    let shape = wanted.shape;
    Ok(Ask {
        prompt: Vec::new(),
        prompts: Vec::new(),
        sampling: wanted.sampling,
        adjustments: Adjustments { bias: known_bias(route, &wanted.bias)?, ..wanted.adjustments.clone() },
        grammar: None,
        seed: wanted.seed.unwrap_or_else(unguessable),
        stop: wanted.stop.clone(),
        stop_tokens: known_tokens(route, &wanted.stop_tokens, "stop_token_ids")?,
        ignore_eos: wanted.ignore_eos,
        tokens_min: wanted.tokens_min,
        max_tokens: wanted.limit.map(|(most, _)| most),
        score_prompt: shape.echo && shape.logprobs.is_some(),
        candidates: shape.logprobs.unwrap_or(0),
        behalf: caller.behalf(),
    })
}

impl Names {
    /// What the client is told when the runtime does not take the request.
    pub(super) fn refusal(self, NotTaken { prompt: ix, error }: &NotTaken) -> ApiError {
        let message = error.to_string();
        match error {
            SubmitError::EmptyPrompt => ApiError::field(Fault::Value, self.prompt(*ix), message),
            SubmitError::ContextExceeded { prompt, context, .. } => {
                let limit = self.limit.filter(|_| prompt < context).map(str::to_owned);
                let param = limit.unwrap_or_else(|| self.prompt(*ix));
                ApiError::field(Fault::Context, param, message)
            }
            SubmitError::Setting(_) => ApiError::field(Fault::Value, "model", message),
            SubmitError::QueueFull { .. } => ApiError::general(Fault::QueueFull, message),
            SubmitError::Draining => ApiError::general(Fault::Draining, message),
        }
    }

    /// Where a prompt stands.
    fn prompt(self, ix: usize) -> String {
        if self.several { format!("{}[{ix}]", self.prompt) } else { self.prompt.to_owned() }
    }
}

/// What a caller is told of a name that nothing is served under.
pub(super) fn no_model(caller: &Caller, catalog: &Catalog, name: &str) -> ApiError {
    match caller.broken(catalog, name) {
        Some(why) => ApiError::broken(name, &why),
        None => ApiError::no_model(name),
    }
}

pub(super) fn no_route(caller: &Caller, catalog: &Catalog, (name, error): (&str, &NoSuchRoute)) -> ApiError {
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
fn tokens(route: &Route, prompt: Prompt, field: &str) -> Result<Shown, ApiError> {
    let read = |tokenizer: &Tokenizer| match &prompt {
        Prompt::Chat(chat) => tokenizer.encode_conversation(chat),
        Prompt::Text(text) => tokenizer.encode(text),
        Prompt::Tokens(ids) => {
            let ids: Vec<u32> = ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect();
            tokenizer.encode(&route.tokenizer.decode(&ids))
        }
    };
    let tokens = match &prompt {
        Prompt::Tokens(ids) => known_tokens(route, ids, field)?,
        _ => read(&route.tokenizer).map_err(|error| not_encoded(&error, field))?,
    };
    let own = route
        .prompts(read)
        .map_err(|(model, error)| refused(&error, field, format!("for the model {model:?}: {error}")))?;
    let text = if let Prompt::Text(text) = prompt { Some(text) } else { None };
    Ok(Shown { tokens, own, text })
}

/// A text that does not become tokens.
pub(super) fn not_encoded(error: &EngineError, field: &str) -> ApiError {
    refused(error, field, error.to_string())
}

fn refused(error: &EngineError, field: &str, message: String) -> ApiError {
    match error {
        EngineError::Template { .. } | EngineError::NoTemplate | EngineError::Encode { .. } => {
            ApiError::field(Fault::Value, field, message)
        }
        _ => ApiError::server(message),
    }
}

pub(super) fn known_tokens(route: &Route, ids: &[u64], field: &str) -> Result<Vec<u32>, ApiError> {
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
