//! A journey's tokens, and how often each of them occurred.
//!
//! The counts follow the tokens one by one, so a penalty never costs a walk over the context, and they travel with the
//! journey: it makes no difference which model's turn it is, or whose KV was evicted.

use std::collections::BTreeMap;

/// How often a token occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// In the prompt.
    pub prompt: u32,
    /// In the answer so far.
    pub answer: u32,
}

impl Seen {
    /// With so many more in the answer.
    #[must_use]
    pub fn with_answer(self, more: u32) -> Self {
        Self { answer: self.answer + more, ..self }
    }
}

/// How often each token occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    seen: BTreeMap<u32, Seen>,
}

impl Tally {
    /// The tokens of a prompt, and no answer yet.
    #[must_use]
    pub fn of_prompt(prompt: &[u32]) -> Self {
        let mut seen = BTreeMap::<u32, Seen>::new();
        for &token in prompt {
            seen.entry(token).or_default().prompt += 1;
        }
        Self { seen }
    }

    /// The answer has one more token.
    pub fn add(&mut self, token: u32) {
        self.seen.entry(token).or_default().answer += 1;
    }

    /// The answer lost a token that it had.
    pub fn remove(&mut self, token: u32) {
        let Some(seen) = self.seen.get_mut(&token) else { return };
        seen.answer = seen.answer.saturating_sub(1);
        if *seen == Seen::default() {
            self.seen.remove(&token);
        }
    }

    /// How often a token occurred.
    #[must_use]
    pub fn seen(&self, token: u32) -> Seen {
        self.seen.get(&token).copied().unwrap_or_default()
    }

    /// The tokens that occurred, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Seen)> + '_ {
        self.seen.iter().map(|(&token, &seen)| (token, seen))
    }
}

/// A prompt and what follows it.
#[derive(Debug)]
pub(crate) struct History {
    tokens: Vec<u32>,
    /// How many of the tokens, from the first, `tally` counts.
    counted: usize,
    /// `None` where nothing asks for counts.
    tally: Option<Tally>,
}

impl History {
    pub(crate) fn new(prompt: &[u32], counted: bool) -> Self {
        let tally = counted.then(|| Tally::of_prompt(prompt));
        Self { tokens: prompt.to_vec(), counted: prompt.len(), tally }
    }

    pub(crate) fn push(&mut self, token: u32) {
        self.tokens.push(token);
        self.count_to(self.tokens.len());
    }

    /// Drops what follows the first `len` tokens, none of them the prompt's.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.count_to(self.counted.min(len));
        self.tokens.truncate(len);
    }

    /// From now on, until more is pushed, the counts are those of the first `len` tokens, at least the prompt.
    pub(crate) fn count_to(&mut self, len: usize) {
        if let Some(tally) = &mut self.tally {
            let (less, more) = (len.min(self.counted), len.max(self.counted));
            let between = &self.tokens[less..more];
            if len < self.counted {
                between.iter().for_each(|&token| tally.remove(token));
            } else {
                between.iter().for_each(|&token| tally.add(token));
            }
        }
        self.counted = len;
    }

    /// How many tokens are counted.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub(crate) fn tally(&self) -> Option<&Tally> {
        self.tally.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_are_those_of_a_walk_over_the_tokens(
            prompt in proptest::collection::vec(0u32..6, 1..10),
            turns in proptest::collection::vec((proptest::collection::vec(0u32..6, 0..6), 0usize..6), 0..10),
        ) {
            let mut history = History::new(&prompt, true);
            for (pushed, dropped) in turns {
                pushed.iter().for_each(|&token| history.push(token));
                history.truncate(history.tokens().len().saturating_sub(dropped).max(prompt.len()));
                let mut walked = Tally::of_prompt(&prompt);
                history.tokens()[prompt.len()..].iter().for_each(|&token| walked.add(token));
                prop_assert_eq!(history.tally(), Some(&walked));
            }
        }
    }
}
