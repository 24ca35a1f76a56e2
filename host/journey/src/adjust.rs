//! What a client, or a grammar, changes in the logits of a position before a token is chosen.
//!
//! Separate from [`request`](crate::request) because it is arithmetic: one definition for every engine. Signals and
//! log-probabilities are of the model's own logits and never see any of it.

use crate::history::{Seen, Tally};

/// A client's wishes about the logits of the whole answer. The default changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustments {
    /// Taken from the logit of every token that the answer already has; OpenAI's `presence_penalty`.
    pub presence: f32,
    /// Taken from a token's logit for each time that the answer has it; OpenAI's `frequency_penalty`.
    pub frequency: f32,
    /// Above 0. Divides the positive and multiplies the negative logits of tokens of the prompt and the answer; 1
    /// changes nothing. The `repetition_penalty` of vLLM and Hugging Face.
    pub repetition: f32,
    /// Added to the logits of these tokens, each of which is named once, in ascending order; OpenAI's `logit_bias`.
    pub bias: Vec<(u32, f32)>,
}

impl Default for Adjustments {
    fn default() -> Self {
        Self { presence: 0.0, frequency: 0.0, repetition: 1.0, bias: Vec::new() }
    }
}

impl Adjustments {
    /// Whether they depend on the tokens so far.
    #[must_use]
    pub fn penalise(&self) -> bool {
        self.presence != 0.0 || self.frequency != 0.0 || self.repetition != 1.0
    }

    /// Whether they change anything.
    #[must_use]
    pub fn change(&self) -> bool {
        self.penalise() || !self.bias.is_empty()
    }

    fn penalised(&self, logit: f32, seen: Seen) -> f32 {
        let repeated = if logit > 0.0 { logit / self.repetition } else { logit * self.repetition };
        let frequency = self.frequency * seen.answer as f32;
        let presence = if seen.answer > 0 { self.presence } else { 0.0 };
        finite(repeated - frequency - presence)
    }
}

/// Tokens that may be chosen: a bit for each id, from bit 0 of the first word on. Ids beyond the last are not allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// A mask from its words, as grammar libraries give it.
    #[must_use]
    pub fn from_words(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// Allows these tokens and no others.
    #[must_use]
    pub fn of(tokens: &[u32]) -> Self {
        let len = tokens.iter().max().map_or(0, |&most| most as usize / 32 + 1);
        let mut words = vec![0; len];
        for &token in tokens {
            words[token as usize / 32] |= 1 << (token % 32);
        }
        Self { words }
    }

    /// Allows nothing any more; the memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Allows what these words say and nothing else, in the memory that is there.
    pub fn set_words(&mut self, words: &[u32]) {
        self.words.clear();
        self.words.extend_from_slice(words);
    }

    /// Allows a token too.
    pub fn allow(&mut self, token: u32) {
        let word = token as usize / 32;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (token % 32);
    }

    /// Allows a token no more.
    pub fn forbid(&mut self, token: u32) {
        if let Some(word) = self.words.get_mut(token as usize / 32) {
            *word &= !(1 << (token % 32));
        }
    }

    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether the token may be chosen.
    #[must_use]
    pub fn allows(&self, token: u32) -> bool {
        self.words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// The allowed tokens below `vocabulary`, in ascending order.
    pub fn allowed(&self, vocabulary: usize) -> impl Iterator<Item = u32> + '_ {
        let words = (0u32..).step_by(32).zip(&self.words).filter(|(_, word)| **word != 0);
        let bits = words.flat_map(|(first, word)| {
            (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        });
        bits.take_while(move |&token| (token as usize) < vocabulary)
    }
}

/// Everything that changes the logits of one position.
///
/// In this order: the bias, the repetition penalty, the frequency and presence penalties, as vLLM does; then only what
/// the mask allows and nothing bars is left. [`Sampling`](crate::Sampling) comes after it.
#[derive(Clone, Copy, Debug)]
pub struct Adjust<'a> {
    /// The client's wishes.
    pub wishes: &'a Adjustments,
    /// The tokens before the position; needed by penalties alone.
    pub tally: Option<&'a Tally>,
    /// Tokens of the answer between those that `tally` counts and the position: a draft that is being verified.
    pub drafted: &'a [u32],
    /// Tokens that may not be chosen: end tokens while the answer is too short.
    pub barred: &'a [u32],
    /// Tokens that may be chosen; `None`: all.
    pub mask: Option<&'a TokenMask>,
}

impl<'a> Adjust<'a> {
    /// A client's wishes that need no history, and nothing else.
    #[must_use]
    pub fn new(wishes: &'a Adjustments) -> Self {
        Self { wishes, tally: None, drafted: &[], barred: &[], mask: None }
    }

    /// Bias and penalties. Finite logits stay finite.
    pub fn apply(&self, logits: &mut [f32]) {
        for &(token, bias) in &self.wishes.bias {
            change(logits, token, |logit| finite(logit + bias));
        }
        let (true, Some(tally)) = (self.wishes.penalise(), self.tally) else { return };
        for (token, seen) in tally.iter() {
            let seen = seen.with_answer(self.times_drafted(token));
            change(logits, token, |logit| self.wishes.penalised(logit, seen));
        }
        for (ix, &token) in self.drafted.iter().enumerate() {
            if tally.seen(token) == Seen::default() && !self.drafted[..ix].contains(&token) {
                let seen = Seen::default().with_answer(self.times_drafted(token));
                change(logits, token, |logit| self.wishes.penalised(logit, seen));
            }
        }
    }

    /// Whether a token may be chosen.
    #[must_use]
    pub fn allows(&self, token: u32) -> bool {
        self.mask.is_none_or(|mask| mask.allows(token)) && !self.barred.contains(&token)
    }

    /// Whether some tokens may not be chosen.
    #[must_use]
    pub fn restricts(&self) -> bool {
        self.mask.is_some() || !self.barred.is_empty()
    }

    /// The tokens that may be chosen, in ascending order.
    pub fn allowed(&self, vocabulary: usize) -> impl Iterator<Item = u32> + use<'a> {
        let (mask, barred) = (self.mask, self.barred);
        let masked = mask.into_iter().flat_map(move |mask| mask.allowed(vocabulary));
        let all = 0..if mask.is_some() { 0 } else { vocabulary as u32 };
        masked.chain(all).filter(move |token| !barred.contains(token))
    }

    fn times_drafted(&self, token: u32) -> u32 {
        self.drafted.iter().filter(|drafted| **drafted == token).count() as u32
    }
}

/// Tokens that the model does not have are passed over.
fn change(logits: &mut [f32], token: u32, to: impl FnOnce(f32) -> f32) {
    if let Some(logit) = logits.get_mut(token as usize) {
        *logit = to(*logit);
    }
}

/// Strong wishes may leave the range of a number; what is chosen is the same at its end.
fn finite(logit: f32) -> f32 {
    logit.clamp(f32::MIN, f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(adjust: Adjust<'_>, logits: [f32; 4]) -> [f32; 4] {
        let mut logits = logits;
        adjust.apply(&mut logits);
        logits
    }

    fn tally(prompt: &[u32], answer: &[u32]) -> Tally {
        let mut tally = Tally::of_prompt(prompt);
        answer.iter().for_each(|&token| tally.add(token));
        tally
    }

    #[test]
    fn penalties_are_those_of_openai_and_vllm() {
        let tally = tally(&[0], &[1, 1, 2]);
        let with = |wishes: Adjustments| {
            applied(Adjust { tally: Some(&tally), ..Adjust::new(&wishes) }, [2.0, 2.0, -2.0, 2.0])
        };
        assert_eq!(with(Adjustments { presence: 0.5, ..Default::default() }), [2.0, 1.5, -2.5, 2.0]);
        assert_eq!(with(Adjustments { frequency: 0.5, ..Default::default() }), [2.0, 1.0, -2.5, 2.0]);
        assert_eq!(with(Adjustments { repetition: 2.0, ..Default::default() }), [1.0, 1.0, -4.0, 2.0]);
        assert_eq!(
            with(Adjustments { bias: vec![(3, -4.0), (9, 1.0)], ..Default::default() }),
            [2.0, 2.0, -2.0, -2.0]
        );
        let all = Adjustments { presence: 1.0, frequency: 0.5, repetition: 2.0, bias: vec![(1, 2.0)] };
        // (2 + 2) / 2 - 2 * 0.5 - 1
        assert_eq!(with(all)[1], 0.0);
    }

    #[test]
    fn a_draft_counts_as_if_it_were_in_the_tally() {
        let wishes = Adjustments { presence: 0.25, frequency: 0.5, repetition: 1.5, bias: Vec::new() };
        let (early, late) = (tally(&[0, 3], &[1]), tally(&[0, 3], &[1, 3, 1, 2, 3]));
        let logits = [1.0, 2.0, 3.0, -4.0];
        let drafted = Adjust { tally: Some(&early), drafted: &[3, 1, 2, 3], ..Adjust::new(&wishes) };
        let counted = Adjust { tally: Some(&late), ..Adjust::new(&wishes) };
        assert_eq!(applied(drafted, logits), applied(counted, logits));
    }

    #[test]
    fn masks_name_what_is_allowed() {
        let mask = TokenMask::of(&[0, 31, 32, 70]);
        assert_eq!(mask, TokenMask::from_words(vec![1 << 31 | 1, 1, 1 << 6]));
        assert_eq!(mask.allowed(70).collect::<Vec<_>>(), [0, 31, 32]);
        assert!(mask.allows(70) && !mask.allows(1) && !mask.allows(4000));
        let wishes = Adjustments::default();
        let adjust = Adjust { mask: Some(&mask), barred: &[31], ..Adjust::new(&wishes) };
        assert!(adjust.restricts() && !Adjust::new(&wishes).restricts());
        assert_eq!(adjust.allowed(100).collect::<Vec<_>>(), [0, 32, 70]);
        assert_eq!(Adjust { barred: &[1], ..Adjust::new(&wishes) }.allowed(3).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn what_is_added_to_the_largest_number_stays_a_number() {
        let wishes = Adjustments { repetition: 0.01, bias: vec![(0, 100.0)], ..Default::default() };
        let tally = tally(&[0, 1], &[]);
        let logits = applied(Adjust { tally: Some(&tally), ..Adjust::new(&wishes) }, [3e38, -3e38, 0.0, 0.0]);
        assert_eq!(logits[0], f32::MAX);
        assert!(logits.iter().all(|logit| logit.is_finite()));
    }
}
