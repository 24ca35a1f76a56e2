//! What is looked for in tokens as they are sampled: guards, which let `route` be asked, and conditions, which end a
//! visit or a draft.
//!
//! Evaluated by the host for every row of a batch, so that a policy is entered only where there is something to decide.

use crate::ids::Role;
use crate::question::Ended;
use crate::step::Sampled;

/// A number that every step gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Entropy at temperature 1, in nats.
    Entropy,
    /// Entropy divided by the logarithm of the vocabulary's size.
    EntropyNorm,
    /// Probability of the most probable token.
    Top1,
    /// That less the probability of the second.
    Margin,
    /// Log-probability of the token, in nats.
    Logprob,
    /// What a head says.
    Score(u8),
}

impl Signal {
    /// Its value at a step of a model with so many tokens; not a number where a head is not there.
    #[must_use]
    pub fn of(self, sampled: &Sampled, vocabulary: usize) -> f32 {
        match self {
            Self::Entropy => sampled.signals.entropy,
            Self::EntropyNorm => sampled.signals.entropy / (vocabulary.max(2) as f32).ln(),
            Self::Top1 => sampled.signals.top1,
            Self::Margin => sampled.signals.margin,
            Self::Logprob => sampled.logprob,
            Self::Score(head) => sampled.scores.get(usize::from(head)).copied().unwrap_or(f32::NAN),
        }
    }
}

/// Lets `route` be asked about a token of one role.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The model whose tokens it looks at.
    pub role: Role,
    /// When it fires.
    pub fires: Trigger,
}

/// When a guard fires.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// The signal is above the value.
    Above(Signal, f32),
    /// The signal is below the value.
    Below(Signal, f32),
    /// The held token completes this text.
    Text(String),
    /// The held token is the first after this text, or of the answer.
    AfterText(String),
    /// The held token is the first of the answer.
    Start,
    /// The held token ends the answer.
    End,
}

impl Trigger {
    /// The signal that it compares, if it compares one.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        match self {
            Self::Above(signal, _) | Self::Below(signal, _) => Some(*signal),
            Self::Text(_) | Self::AfterText(_) | Self::Start | Self::End => None,
        }
    }
}

/// Ends a visit or a draft; the token at which it holds is the last one.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The signal is above the value.
    Above(Signal, f32),
    /// The signal is below the value.
    Below(Signal, f32),
    /// What was made since the beginning contains this text.
    Text(String),
    /// The token is one of these.
    Token(Vec<u32>),
}

/// Looks for the end of a run of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    left: Option<u32>,
    until: Vec<Condition>,
    /// The run's last bytes, as many as the longest text needs.
    seen: Vec<u8>,
}

impl Watch {
    /// For a run of at most `most` tokens.
    #[must_use]
    pub fn new(most: Option<u32>, until: Vec<Condition>) -> Self {
        Self { left: most, until, seen: Vec::new() }
    }

    /// Tokens that are left for certain; `None` where nobody knows.
    #[must_use]
    pub fn left(&self) -> Option<u32> {
        self.left.filter(|_| self.until.is_empty())
    }

    /// Takes the next token in; whether and why it is the last.
    pub fn push(&mut self, sampled: &Sampled, bytes: &[u8], vocabulary: usize) -> Option<Ended> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        if !self.until.is_empty() {
            self.seen.extend_from_slice(bytes);
            let holds = |condition: &Condition| match condition {
                Condition::Above(signal, value) => signal.of(sampled, vocabulary) > *value,
                Condition::Below(signal, value) => signal.of(sampled, vocabulary) < *value,
                Condition::Text(text) => contains(&self.seen, text.as_bytes()),
                Condition::Token(tokens) => tokens.contains(&sampled.token),
            };
            if self.until.iter().any(holds) {
                return Some(Ended::Condition);
            }
            let texts = self.until.iter().filter_map(|condition| match condition {
                Condition::Text(text) => Some(text.len()),
                _ => None,
            });
            let needed = texts.max().unwrap_or(1) - 1;
            self.seen.drain(..self.seen.len().saturating_sub(needed));
        }
        (self.left == Some(0)).then_some(Ended::Length)
    }
}

/// Whether `text` ends within the last `last` bytes of `bytes`.
#[must_use]
pub fn completes(bytes: &[u8], last: usize, text: &str) -> bool {
    let before = bytes.len().saturating_sub(last + text.len().saturating_sub(1));
    last > 0 && contains(&bytes[before..], text.as_bytes())
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && bytes.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(until: Vec<Condition>, tokens: &[&str]) -> Option<(usize, Ended)> {
        let mut watch = Watch::new(Some(9), until);
        let push = |(index, token): (usize, &&str)| {
            let why = watch.push(&Sampled::default(), token.as_bytes(), 100)?;
            Some((index, why))
        };
        tokens.iter().enumerate().find_map(push)
    }

    #[test]
    fn a_text_is_found_across_tokens_and_ends_with_the_one_that_completes_it() {
        let text = || vec![Condition::Text("\n\n".to_owned())];
        assert_eq!(ends(text(), &["a\n", "b", "\n", "\nc", "d"]), Some((3, Ended::Condition)));
        assert_eq!(ends(text(), &["x"; 9]), Some((8, Ended::Length)));
        assert_eq!(ends(text(), &["x"; 8]), None);
    }

    #[test]
    fn completing_looks_at_the_last_token_only() {
        assert!(completes(b"so <call>", 5, "<call>"));
        assert!(completes(b"so <call>3", 7, "<call>"), "it may end before the token does");
        assert!(!completes(b"so <call>3", 1, "<call>"));
        assert!(!completes(b"so <call>", 0, "<call>"));
        assert!(!completes(b"<", 1, "<call>"));
    }

    #[test]
    fn a_head_that_is_not_there_fires_nothing() {
        let value = Signal::Score(2).of(&Sampled::default(), 10);
        assert!(value.is_nan(), "neither above nor below anything: {value}");
    }
}
