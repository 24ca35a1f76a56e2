//! What goes into the runtime and what comes out.

use std::sync::Arc;

use journey::{FinishReason, JourneyId, Made, Sampling};
use policy::Revision;
use tokio::sync::mpsc;

use super::catalog::Route;

/// A request in tokens.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Key of all randomness; the same seed gives the same answer, whatever else runs.
    pub seed: u64,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// Most tokens of the answer; `None` allows as many as the context holds.
    pub max_tokens: Option<usize>,
    /// How many candidates to report per token.
    pub candidates: usize,
}

/// What happens to a request, in order. The last event is `Finished` or `Failed`; a stream that ends without one was
/// cut off by a shutdown.
#[derive(Clone, Debug)]
pub enum Event {
    /// A token was committed.
    Made(Made),
    /// The policy failed; the answer goes on without it.
    FellBack {
        /// What the policy did.
        fault: String,
    },
    /// The answer is complete.
    Finished(FinishReason),
    /// The answer cannot be continued.
    Failed {
        /// What went wrong.
        message: String,
    },
}

/// A request being answered. Dropping it cancels the request.
pub struct Answer {
    /// The journey's name.
    pub id: JourneyId,
    /// The route it takes.
    pub route: Arc<Route>,
    /// The policy's revision, which the journey keeps to its end.
    pub revision: Option<Arc<Revision>>,
    /// What happens to it.
    pub events: mpsc::Receiver<Event>,
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Prompt and answer do not fit.
    #[error(
        "the prompt has {prompt} tokens and {wanted} more were asked for, but the route's models hold {context} in all"
    )]
    ContextExceeded {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for, at least 1.
        wanted: usize,
        /// Smallest context of the route's models.
        context: usize,
    },
    /// A setting of the policy is unknown or out of range.
    #[error("{0}")]
    Setting(String),
    /// Too many requests wait.
    #[error("{waiting} requests are waiting already; try again later")]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
}

/// Most tokens that the answer may have.
pub(super) fn room(ask: &Ask, context: usize) -> Result<usize, SubmitError> {
    let prompt = ask.prompt.len();
    if prompt == 0 {
        return Err(SubmitError::EmptyPrompt);
    }
    let wanted = ask.max_tokens.unwrap_or_else(|| context.saturating_sub(prompt).max(1));
    if prompt.saturating_add(wanted) > context {
        return Err(SubmitError::ContextExceeded { prompt, wanted, context });
    }
    Ok(wanted)
}
