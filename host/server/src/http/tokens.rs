//! Text to tokens and back, for programs that count or prepare prompts: vLLM's paths and shapes.
//!
//! Nothing is generated and nothing is charged. A special token's text is that token here, unless `parse_special` is false:
//! whoever asks could send its id as well. In a prompt that is answered it is plain text.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::body;
use super::error::ApiError;
use super::off_thread::off_thread;
use super::parse::{Prompt, ToTokens, to_text, to_tokens};
use super::policies::bad_query;
use super::prepare::{known_tokens, no_route, not_encoded};
use crate::access::Caller;
use crate::runtime::{Catalog, Route, Selected};

/// `POST /tokenize`
pub(super) async fn tokenize(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = body::read(&app, &headers, body).await?;
    let catalog = app.runtime.catalog();
    off_thread(body.len(), move || {
        let wanted = to_tokens(&body)?;
        let route = route(&catalog, &caller, wanted.model.as_deref())?;
        encoded(&route, wanted).map(Json)
    })
    .await
}

/// `POST /detokenize`
pub(super) async fn detokenize(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = body::read(&app, &headers, body).await?;
    let catalog = app.runtime.catalog();
    off_thread(body.len(), move || {
        let wanted = to_text(&body)?;
        let route = route(&catalog, &caller, wanted.model.as_deref())?;
        let tokens = known_tokens(&route, &wanted.tokens, "tokens")?;
        Ok(Json(json!({"prompt": route.tokenizer.decode_marked_up(&tokens)})))
    })
    .await
}

/// Whose tokenizer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    model: Option<String>,
}

/// `GET /tokenizer_info`
pub(super) async fn info(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    whose: Result<Query<Whose>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(Whose { model }) = whose.map_err(|error| bad_query(&error))?;
    let route = route(&app.runtime.catalog(), &caller, model.as_deref())?;
    let info = route.tokenizer.info();
    Ok(Json(json!({
        // What loads the same files in Python.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": info.bos,
        "eos_token": info.eos,
        "pad_token": info.pad,
        "unk_token": info.unk,
        "add_bos_token": info.adds_bos,
        "model_max_length": route.context,
        "vocab_size": route.tokenizer.vocabulary().len(),
        "chat_template": info.template,
    })))
}

fn encoded(route: &Route, wanted: ToTokens) -> Result<Value, ApiError> {
    let ToTokens { prompt, with_bos, parse_special, with_texts, .. } = wanted;
    let tokenizer = &route.tokenizer;
    let (tokens, field) = match prompt {
        Prompt::Chat(chat) => (tokenizer.encode_conversation(&chat), "messages"),
        Prompt::Text(text) => {
            let tokens = if parse_special {
                tokenizer.encode_marked_up(&text)
            } else {
                tokenizer.encode_within(&text)
            };
            let with_bos = |tokens| if with_bos { tokenizer.with_bos(tokens) } else { tokens };
            (tokens.map(with_bos), "prompt")
        }
        Prompt::Tokens(_) => unreachable!("what is to become tokens is none yet"),
    };
    let tokens = tokens.map_err(|error| not_encoded(&error, field))?;
    let texts: Option<Vec<String>> =
        with_texts.then(|| tokens.iter().map(|&token| tokenizer.decode_marked_up(&[token])).collect());
    Ok(json!({
        "count": tokens.len(),
        "max_model_len": route.context,
        "tokens": tokens,
        "token_strs": texts,
    }))
}

/// The route of a name, or any where all that the caller may see have the same tokens.
fn route(catalog: &Catalog, caller: &Caller, name: Option<&str>) -> Result<Arc<Route>, ApiError> {
    let Some(name) = name else { return only(catalog, caller) };
    let selected = Selected::find(name, |name| caller.find(catalog, name));
    selected.map(|selected| selected.route).map_err(|error| no_route(caller, catalog, (name, &error)))
}

/// Models of one route have the same tokens; so have those of routes that share one.
fn only(catalog: &Catalog, caller: &Caller) -> Result<Arc<Route>, ApiError> {
    let mut others: Vec<&Arc<Route>> = caller.all(catalog).collect();
    let Some(first) = others.first().map(|first| Arc::clone(first)) else {
        return Err(ApiError::no_model(""));
    };
    let mut alike: BTreeSet<_> = first.models.iter().copied().collect();
    loop {
        let before = others.len();
        others.retain(|route| {
            let shares = route.models.iter().any(|model| alike.contains(model));
            if shares {
                alike.extend(&route.models);
            }
            !shares
        });
        match others.len() {
            0 => return Ok(first),
            left if left == before => {
                let message = "\"model\" is missing, and not all models that are served have the same tokens";
                return Err(ApiError::field(super::error::Fault::Missing, "model", message));
            }
            _ => {}
        }
    }
}
