//! `POST /v1/feedback`: how good an answer was, said by whoever asked for it, or by a program that judges afterwards.
//!
//! One score, or a list of them, of which all are taken or none. An answer can be scored for a day, once, by its tenant, if an
//! experiment counted it; any other is the same 404, whatever the reason.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::error::{ApiError, Fault, shortened};
use super::parse::Fields;
use super::{App, body};
use crate::access::Caller;
use crate::experiments::{Score, Scored};

/// `POST /v1/feedback`
pub(super) async fn feedback(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = body::read(&app, &headers, body).await?;
    let value: Value = serde_json::from_slice(&body)
        .map_err(|error| ApiError::general(Fault::Json, format!("the body must be JSON; {error}")))?;
    let (items, is_list) = match value {
        Value::Array(items) => (items, true),
        other => (vec![other], false),
    };
    let path = |place: usize| if is_list { format!("[{place}]") } else { String::new() };
    let scores = items.into_iter().enumerate().map(|(place, item)| score(item, &path(place)));
    let scores: Vec<(String, Score)> = scores.collect::<Result<_, _>>()?;
    let told = take(&app, &caller, &scores).await?.map_err(|place| {
        let (id, at) = (&scores[place].0, path(place));
        let param = if is_list { format!("{at}.id") } else { "id".to_owned() };
        let message = format!(
            "there is no answer {:?} that you can score: only answers of a running experiment, for a day",
            shortened(id)
        );
        ApiError::field(Fault::Absent, param, message)
    })?;
    let mut items: Vec<Value> = scores.iter().zip(told).map(|((id, _), scored)| shown(id, scored)).collect();
    Ok(Json(if is_list { json!({"object": "list", "data": items}) } else { items.remove(0) }))
}

async fn take(
    app: &App,
    caller: &Caller,
    scores: &[(String, Score)],
) -> Result<Result<Vec<Scored>, usize>, ApiError> {
    let scores: Vec<Score> = scores.iter().map(|(_, score)| *score).collect();
    let (control, owner) = (std::sync::Arc::clone(&app.control), caller.lasting_number());
    // The store is asked for answers of before a restart.
    let taken = tokio::task::spawn_blocking(move || control.experiments().score(&control, &scores, owner));
    match taken.await {
        Ok(Ok(taken)) => Ok(taken),
        Ok(Err(error)) => {
            tracing::error!(%error, "scores cannot be taken");
            Err(ApiError::server("the server failed at this request; its log says more"))
        }
        Err(error) => {
            tracing::error!(%error, "taking scores panicked; please report this");
            Err(ApiError::server("the server failed at this request; its log says more"))
        }
    }
}

fn score(value: Value, path: &str) -> Result<(String, Score), ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(id) = fields.string("id")? else { return Err(fields.missing("id", "the id of an answer")) };
    let Some(score) = fields.number("score", 0.0..=1.0)? else {
        return Err(fields.missing("score", "a number from 0 to 1"));
    };
    fields.finish()?;
    // What is no id of ours is of no answer.
    let number = id.strip_prefix("chatcmpl-").or_else(|| id.strip_prefix("cmpl-"));
    let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
    Ok((id, Score { id: number.unwrap_or_default(), score }))
}

fn shown(id: &str, scored: Scored) -> Value {
    let why = match scored {
        Scored::Counted => None,
        Scored::Before => Some("the answer has a score already"),
        Scored::Late => Some("the experiment has other weights by now, or is gone"),
    };
    json!({"id": id, "counted": scored == Scored::Counted, "why": why})
}
