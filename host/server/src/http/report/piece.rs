//! What a token adds to an answer.

use serde_json::Value;

use super::logprobs::Entry;
use crate::http::calls::Said;

/// A part of an answer, or all of it.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Text that became visible.
    pub(super) text: String,
    /// The same where some of it may be calls of tools.
    pub(super) said: Vec<Said>,
    /// Ids of its tokens, if the client wants them.
    pub(super) token_ids: Vec<u32>,
    /// Log-probabilities of tokens whose text is visible, if the client wants them.
    pub(super) logprobs: Vec<Entry>,
    /// Which model made each token, if the client wants to know.
    pub(super) trace: Vec<Value>,
}

impl Piece {
    /// Adds what follows.
    pub(super) fn absorb(&mut self, next: Self) {
        self.text.push_str(&next.text);
        self.said.extend(next.said);
        self.token_ids.extend(next.token_ids);
        self.logprobs.extend(next.logprobs);
        self.trace.extend(next.trace);
    }

    /// Whether there is nothing to show yet.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.said.is_empty()
            && self.token_ids.is_empty()
            && self.logprobs.is_empty()
            && self.trace.is_empty()
    }
}
