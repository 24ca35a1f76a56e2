//! Guards: whether the policy is asked about a token at all.

use super::Journey;
use crate::step::Sampled;
use crate::watch::{Trigger, completes};

impl Journey {
    /// Whether `route` is asked about a token, and which guard fired, if the model has any.
    pub(super) fn asks(&self, sampled: &Sampled) -> Option<Option<u32>> {
        let mut guards = self.request.rules()?.guards_of(self.here).peekable();
        if guards.peek().is_none() {
            return Some(None);
        }
        guards.find(|(_, trigger)| self.fires(trigger, sampled)).map(|(index, _)| Some(index))
    }

    fn fires(&self, trigger: &Trigger, sampled: &Sampled) -> bool {
        let vocabulary = self.request.vocabulary.len();
        match trigger {
            Trigger::Above(signal, value) => signal.of(sampled, vocabulary) > *value,
            Trigger::Below(signal, value) => signal.of(sampled, vocabulary) < *value,
            Trigger::Text(text) => {
                let held = self.request.vocabulary.bytes(sampled.token);
                let mut end = self.end_of_answer(text.len().saturating_sub(1));
                end.extend_from_slice(held);
                completes(&end, held.len(), text)
            }
            Trigger::AfterText(text) => {
                let Some(&last) = self.answer().last() else { return true };
                let last = self.request.vocabulary.bytes(last).len();
                completes(&self.end_of_answer(text.len().saturating_sub(1) + last), last, text)
            }
            Trigger::Start => self.answer().is_empty(),
            Trigger::End => self.request.ends.tokens.contains(&sampled.token),
        }
    }
}
