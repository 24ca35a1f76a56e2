//! An answer in one piece.

use serde_json::Value;

use super::told::Heard;
use super::{News, Piece, Report, Told};
use crate::http::error::ApiError;

/// Waits for the end of all choices of an answer and gives its object.
///
/// # Errors
/// A choice failed, or was cut off.
pub(in crate::http) async fn collect(mut told: Told, mut report: Report) -> Result<Value, ApiError> {
    let mut sums: Vec<Piece> = (0..report.choices.len()).map(|index| report.begun(index)).collect();
    while let Some((index, heard)) = told.next().await {
        let news = match heard {
            Heard::Event(event) => report.hear(index, event),
            Heard::CutOff => News::Failed(CUT_OFF.to_owned()),
        };
        match news {
            News::More(piece) | News::Ended(piece) => sums[index].absorb(piece),
            News::Failed(message) => {
                report.log_end(true);
                return Err(ApiError::server(message));
            }
        }
    }
    report.log_end(false);
    Ok(report.whole(sums))
}

/// What a client is told when an answer ends without a last word.
pub(super) const CUT_OFF: &str = "the answer was cut off; the server is probably shutting down";
