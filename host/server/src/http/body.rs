//! Reading a request's body: never more than allowed, never for longer than allowed.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;

use super::App;
use super::error::{ApiError, Fault};

/// The whole body.
///
/// # Errors
/// [`Fault::TooLarge`], [`Fault::Slow`], [`Fault::Encoding`]; [`Fault::Json`] if the client breaks off.
pub(super) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    // Of the configuration in force: it may have changed since the last request.
    let (most, settings) = (app.control.config().server.body_bytes_max.get(), &app.settings);
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|value| *value != "identity") {
        let message = format!("a body with content-encoding {encoding:?} is not read; send plain JSON");
        return Err(ApiError::general(Fault::Encoding, message));
    }
    let mut stream = body.into_data_stream();
    if declared_length(headers).is_some_and(|length| length > most as u64) {
        // A client that waits for `100 Continue` is spared the sending.
        if !headers.contains_key(header::EXPECT) {
            discard(&mut stream).await;
        }
        return Err(too_large(most));
    }
    let seconds = settings.body_timeout.as_secs();
    match tokio::time::timeout(settings.body_timeout, take(&mut stream, most)).await {
        Ok(content) => content,
        Err(_) => {
            let message = format!("the body did not arrive within {seconds} seconds");
            Err(ApiError::general(Fault::Slow, message))
        }
    }
}

/// Reads on for a while after a refusal that came before the body, unless the client waits to be asked for it.
pub(super) async fn refuse(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) {
        discard(&mut body.into_data_stream()).await;
    }
}

async fn take(stream: &mut BodyDataStream, most: usize) -> Result<Vec<u8>, ApiError> {
    let mut content = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|error| ApiError::general(Fault::Json, format!("the body broke off: {error}")))?;
        if content.len() + chunk.len() > most {
            drop(content);
            discard(stream).await;
            return Err(too_large(most));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// Reads on for a while and keeps nothing. Answering at once would close a connection on which the client still
/// sends, and many clients then never see the answer.
async fn discard(stream: &mut BodyDataStream) {
    let all = async { while let Some(Ok(_)) = stream.next().await {} };
    if tokio::time::timeout(DISCARD, all).await.is_err() {
        tracing::debug!("a body that is too large is cut off");
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(most: usize) -> ApiError {
    let message =
        format!("the body is larger than the {most} bytes that this server takes (server.body_bytes_max)");
    ApiError::general(Fault::TooLarge, message)
}

/// How long what is too large is read and thrown away.
const DISCARD: Duration = Duration::from_secs(2);
