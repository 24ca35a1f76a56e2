//! An answer in one piece.

use serde_json::Value;

use super::{Piece, Report};
use crate::http::error::ApiError;
use crate::runtime::{Answer, Event};

/// Waits for the end of an answer and gives its object.
///
/// # Errors
/// The answer failed, or was cut off.
pub(in crate::http) async fn collect(mut answer: Answer, mut report: Report) -> Result<Value, ApiError> {
    let mut sum = Piece::default();
    while let Some(event) = answer.events.recv().await {
        match event {
            Event::Made(made) => sum.absorb(report.made(&made)),
            Event::FellBack { fault } => report.fell_back(fault),
            Event::Finished(reason) => {
                sum.absorb(report.finished());
                report.log_end(Some(reason));
                return Ok(report.whole(sum, reason));
            }
            Event::Failed { message } => {
                report.log_end(None);
                return Err(ApiError::server(message));
            }
        }
    }
    report.log_end(None);
    Err(ApiError::server(CUT_OFF))
}

/// What a client is told when an answer ends without a last word.
pub(super) const CUT_OFF: &str = "the answer was cut off; the server is probably shutting down";
