//! The small model calls the large one by a tag that it writes: RelayLLM.
//!
//! Algorithm: the small model has learned to write `<call>n</call>` where it wants help. The tag is dropped from the
//! answer and the large model writes the next n tokens, at least 1 and at most `tokens`; then the small model goes on.
//! Neither the client nor the large model sees the tag. A tag with more than four digits is text like any other.
//!
//! Tokens can be dropped, not characters. Guards fire where a token brings a `<`, so that the policy knows where a tag
//! begins, and 16 tokens are held back from the client, more than a tag can have. What stands before the `<` in the
//! same token, at most a space with the usual tokenizers, is dropped with it.
//!
//! Every call commits at least one token. A model that only calls would still drop far more than it commits: after
//! dropping three times as many tokens as the answer may have, tags are left where they are.
//!
//! Source: RelayLLM (arXiv 2601.05167). There the small model goes on seeing its tags; here there is one answer for
//! all.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `tokens` | tokens | 512 | longest help that a call gets |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Handoff, Next, Parameter, Policy, Rewrite, Session, Start, Step, Trigger,
    export_policy,
};

/// The policy; for a journey it holds the parameter and where tags may have begun.
pub struct Relay {
    tokens: u32,
    /// Indices of the last two tokens that brought a `<`, the later one first.
    angles: [Option<u32>; 2],
    /// How many more tokens may be dropped.
    droppable: u32,
}

impl Policy for Relay {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("relay", "The large model writes as many tokens as a tag of the small one asks for.")
            .parameter(Parameter::count("tokens", 512, 1..=9999, "Longest help that a call gets, in tokens."))
            .guard(SMALL, Trigger::text(CLOSE))
            .guard(SMALL, Trigger::text("<"))
            .tail(TAIL_BYTES)
            .holdback(TAG_TOKENS_MOST)
    }

    fn start(start: Start) -> Self {
        let droppable = start.max_tokens.saturating_mul(3);
        Self { tokens: start.count("tokens"), angles: [None; 2], droppable }
    }
}

impl Session for Relay {
    fn route(&mut self, step: &Step) -> Decision {
        if step.role != SMALL {
            return Decision::Stay;
        }
        if step.fired != Some(CLOSES) {
            self.angles = [Some(step.index), self.angles[0]];
            return Decision::Stay;
        }
        self.call(step).unwrap_or(Decision::Stay)
    }
}

impl Relay {
    /// The handoff that a tag asks for, if what the held token completes is one.
    fn call(&mut self, step: &Step) -> Option<Decision> {
        let (_, inside) = step.tail.rsplit_once(OPEN)?;
        let digits = inside.find(|character: char| !character.is_ascii_digit()).unwrap_or(inside.len());
        let (count, closing) = inside.split_at(digits);
        if !(1..=DIGITS_MOST).contains(&count.len()) || !CLOSE.starts_with(closing) {
            return None;
        }
        // Where the closing tag began before the held token, the last `<` is its own and the one before it the tag's.
        let [last, before] = core::mem::take(&mut self.angles);
        let opened = if closing.is_empty() { last? } else { before? };
        let drop = step.index.checked_sub(opened).filter(|drop| *drop <= TAG_TOKENS_MOST)?;
        self.droppable = self.droppable.checked_sub(drop)?;
        let tokens = count.parse::<u32>().ok()?.clamp(1, self.tokens);
        let then = Next::HandOff(Handoff::new(LARGE, tokens));
        Some(Decision::Rewrite(Rewrite::drop_last(drop, then)))
    }
}

export_policy!(Relay);

const SMALL: u32 = 0;
const LARGE: u32 = 1;
const OPEN: &str = "<call>";
const CLOSE: &str = "</call>";
/// Place of the guard for the closing tag. It stands before the other one, so a token that does both is a closing one.
const CLOSES: u32 = 0;
const DIGITS_MOST: usize = 4;
/// Bytes of a tag but the last, each of which could be a token.
const TAG_TOKENS_MOST: u32 = (OPEN.len() + DIGITS_MOST + CLOSE.len() - 1) as u32;
const TAIL_BYTES: u32 = 64;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    /// Writes the answer in these tokens, with the guards as the host has them; the last decision.
    fn written(journey: &mut Journey<Relay>, tokens: &[&str]) -> Decision {
        let mut tail = String::new();
        let mut last = Decision::Stay;
        for (index, token) in (0u32..).zip(tokens) {
            let whole = tail.clone() + token;
            let completes = whole.find(CLOSE).is_some_and(|at| at + CLOSE.len() > tail.len());
            let angle = token.contains('<').then_some(1);
            let fired = if completes { Some(CLOSES) } else { angle };
            last = journey.route(&Step { fired, tail: tail.clone(), ..step(index) });
            tail = whole;
        }
        last
    }

    fn call(tokens: &[&str]) -> Decision {
        written(&mut Journey::<Relay>::begin(&[]), tokens)
    }

    fn helped(drop: u32, tokens: u32) -> Decision {
        Decision::Rewrite(Rewrite::drop_last(drop, Next::HandOff(Handoff::new(LARGE, tokens))))
    }

    #[test]
    fn a_tag_is_dropped_and_the_large_model_writes_what_it_asks_for() {
        assert_eq!(call(&["So", " <", "call", ">", "1", "2", "</", "call", ">"]), helped(7, 12));
        assert_eq!(call(&["x", "<call>", "40", "</call>"]), helped(2, 40));
        assert_eq!(call(&["a", "<", "b", " <", "call", ">", "7", "</", "call", ">\n"]), helped(6, 7));
    }

    #[test]
    fn help_is_bounded_from_both_sides() {
        assert_eq!(call(&["<call>", "0", "</call>"]), helped(2, 1));
        assert_eq!(call(&["<call>", "9999", "</call>"]), helped(2, 512));
    }

    #[test]
    fn what_is_no_tag_stays() {
        for tokens in
            [&["<call>", "</call>"][..], &["<call>", "many", "</call>"], &["<call>", "12345", "</call>"]]
        {
            assert_eq!(call(tokens), Decision::Stay, "{tokens:?}");
        }
        assert_eq!(call(&["</call>"]), Decision::Stay);
        assert_eq!(call(&["<call>", "5", "<b>", "</call>"]), Decision::Stay);
    }

    #[test]
    fn a_model_that_only_calls_is_not_followed_for_ever() {
        let mut journey = Journey::<Relay>::begin(&[]);
        // 256 tokens allow for 768 dropped ones.
        for _ in 0..384 {
            assert_eq!(written(&mut journey, &["<call>", "1", "</call>"]), helped(2, 1));
        }
        assert_eq!(written(&mut journey, &["<call>", "1", "</call>"]), Decision::Stay);
    }
}
