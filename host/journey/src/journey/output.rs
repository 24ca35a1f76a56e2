//! What has been made: tokens that the client may see, tokens that are held back, tokens that are not committed yet.

use std::collections::VecDeque;

use crate::outcome::{FinishReason, Made, Proposal};
use crate::question::Ended;
use crate::text::TextStream;

/// What has been made and not yet been collected.
#[derive(Debug)]
pub(super) struct Output {
    text: TextStream,
    ready: Vec<Made>,
    /// Committed tokens that the client has not seen, and their bytes.
    unseen: VecDeque<(Made, Box<[u8]>)>,
    /// How many of them there may be.
    holdback: usize,
    /// Tokens of a visit, beyond S, that wait for `receive`.
    pub(super) draft: Vec<Made>,
    /// Why that visit ended.
    pub(super) draft_why: Ended,
    pub(super) proposal: Option<Proposal>,
}

impl Output {
    pub(super) fn new(stops: Vec<String>, holdback: usize) -> Self {
        Self {
            text: TextStream::new(stops),
            ready: Vec::new(),
            unseen: VecDeque::new(),
            holdback,
            draft: Vec::new(),
            draft_why: Ended::Length,
            proposal: None,
        }
    }

    /// A committed token. Whether a stop string has come into sight.
    pub(super) fn commit(&mut self, made: Made, bytes: &[u8]) -> bool {
        if self.holdback == 0 {
            return self.show(made, bytes);
        }
        self.unseen.push_back((made, bytes.into()));
        while self.unseen.len() > self.holdback {
            let Some((made, bytes)) = self.unseen.pop_front() else { break };
            if self.show(made, &bytes) {
                self.unseen.clear();
                return true;
            }
        }
        false
    }

    /// Nothing is held back any more. The reason to end, if a stop string is among it.
    pub(super) fn show_all(&mut self) -> Option<FinishReason> {
        self.holdback = 0;
        while let Some((made, bytes)) = self.unseen.pop_front() {
            if self.show(made, &bytes) {
                self.unseen.clear();
                return Some(FinishReason::Stop);
            }
        }
        None
    }

    /// Shows text that was withheld in case a stop string came.
    pub(super) fn finish(&mut self) {
        let rest = self.text.finish();
        if let Some(last) = self.ready.last_mut() {
            last.text.push_str(&rest);
        }
    }

    /// Committed tokens that can still be dropped.
    pub(super) fn unseen(&self) -> usize {
        self.unseen.len()
    }

    /// Forgets the last so many of them.
    pub(super) fn drop_unseen(&mut self, count: usize) {
        self.unseen.truncate(self.unseen.len() - count);
    }

    pub(super) fn take(&mut self) -> Vec<Made> {
        std::mem::take(&mut self.ready)
    }

    /// The text as it would go on from here, for a draft.
    pub(super) fn preview(&self) -> TextStream {
        let mut text = self.text.clone();
        for (_, bytes) in &self.unseen {
            text.push(bytes);
        }
        text
    }

    fn show(&mut self, mut made: Made, bytes: &[u8]) -> bool {
        made.text = self.text.push(bytes);
        self.ready.push(made);
        self.text.stopped()
    }
}
