//! The grammar of an answer, moved along with its tokens.
//!
//! The matcher holds the answer as far as somebody asked about it, which is beyond S while a draft is made and before
//! its end while the draft is verified. It goes back and forth by single tokens, so a step costs what it adds.

use std::ops::Range;

use super::Journey;
use crate::adjust::TokenMask;
use crate::grammar::{Grammar, Matcher, Standing};
use crate::history::History;
use crate::request::Request;

/// Where the answer stands in its grammar, and what it allows at the positions that are drawn next.
#[derive(Debug)]
pub(super) struct Constraint {
    matcher: Box<dyn Matcher>,
    /// Length of the history that the matcher has taken, prompt included.
    taken: usize,
    /// How much of that the history still has.
    agreed: usize,
    /// Position of the first mask.
    first: usize,
    /// Kept from step to step, for their memory.
    masks: Vec<TokenMask>,
    /// How many of the masks are of this step; the others are of earlier ones.
    count: usize,
}

impl Constraint {
    pub(super) fn new(grammar: &dyn Grammar, prompt: usize) -> Self {
        let matcher = grammar.begin();
        Self { matcher, taken: prompt, agreed: prompt, first: 0, masks: Vec::new(), count: 0 }
    }

    /// The history has been cut to this length.
    pub(super) fn cut(&mut self, length: usize) {
        self.agreed = self.agreed.min(length);
    }

    /// What is allowed after a position; `None` where nothing was worked out.
    pub(super) fn mask(&self, position: usize) -> Option<&TokenMask> {
        self.masks[..self.count].get(position.checked_sub(self.first)?).filter(|mask| !mask.is_empty())
    }

    /// Takes the history up to this length; where it stands then, or `None` if a token cannot follow.
    fn reach(&mut self, history: &History, length: usize) -> Option<Standing> {
        let kept = self.agreed.min(length);
        if self.taken > kept {
            self.matcher.rewind(self.taken - kept);
            self.taken = kept;
        }
        for &token in &history.tokens()[self.taken..length] {
            if !self.matcher.take(token) {
                self.agreed = self.taken;
                return None;
            }
            self.taken += 1;
        }
        self.agreed = self.taken;
        Some(self.matcher.standing())
    }

    /// Works out what may follow the first `length` tokens of the history.
    fn allow(&mut self, (history, length): (&History, usize), request: &Request) {
        if self.masks.len() == self.count {
            self.masks.push(TokenMask::default());
        }
        let mask = std::mem::take(&mut self.masks[self.count]);
        self.masks[self.count] = self.allowed(mask, (history, length), request);
        self.count += 1;
    }

    /// Empty where the grammar has nothing to say: behind the answer's end.
    fn allowed(
        &mut self,
        mut mask: TokenMask,
        (history, length): (&History, usize),
        request: &Request,
    ) -> TokenMask {
        mask.clear();
        let Some(standing) = self.reach(history, length) else { return mask };
        self.matcher.allow(&mut mask);
        let too_short = length - request.prompt.len() < request.ends.tokens_min;
        if too_short {
            let whole = mask.clone();
            request.ends.tokens.iter().for_each(|&token| mask.forbid(token));
            // A grammar that needs such a token, or ends, is not broken for the sake of a length.
            if mask.is_empty() {
                mask = whole;
            }
        }
        let may_end = matches!(standing, Standing::Accepting | Standing::Complete);
        if may_end && (!too_short || mask.is_empty()) {
            request.ends.tokens.iter().for_each(|&token| mask.allow(token));
        }
        mask
    }

    /// Whether these tokens can follow the first `length` of the history, and how it stands then.
    fn would_take(
        &mut self,
        (history, length): (&History, usize),
        tokens: &[u32],
        ends: &[u32],
    ) -> Option<Standing> {
        let mut standing = self.reach(history, length)?;
        let mut taken = 0;
        for token in tokens {
            let is_end = ends.contains(token);
            let may_end = is_end && standing != Standing::Open;
            if !may_end && !self.matcher.take(*token) {
                self.matcher.rewind(taken);
                return None;
            }
            taken += usize::from(!may_end);
            standing = self.matcher.standing();
            if is_end {
                // The answer ends with it, by itself.
                standing = Standing::Accepting;
                break;
            }
        }
        self.matcher.rewind(taken);
        Some(standing)
    }
}

impl Journey {
    /// Works out what the grammar allows after some of the positions of [`Self::wanted`]; to be called before
    /// [`Self::draw`] is asked about them. Costs nothing without a grammar.
    pub fn constrain(&mut self, positions: Range<usize>) {
        let Some(mut constraint) = self.constraint.take() else { return };
        // Where the prompt is scored, nothing is chosen within it.
        let positions = positions.start.max(self.request.prompt.len() - 1)..positions.end;
        constraint.first = positions.start;
        constraint.count = 0;
        let is_free = self.errand.as_ref().is_some_and(|errand| !errand.follows_grammar());
        if !is_free {
            for position in positions {
                constraint.allow((&self.history, position + 1), &self.request);
            }
        }
        self.constraint = Some(constraint);
    }

    /// What the grammar allows after a position, as [`Self::constrain`] found.
    pub(super) fn mask(&self, position: usize) -> Option<&TokenMask> {
        self.constraint.as_ref()?.mask(position)
    }

    /// Where the first `length` tokens of the history stand in the grammar; open without one.
    pub(super) fn standing(&mut self, length: usize) -> Standing {
        let Some(constraint) = &mut self.constraint else { return Standing::Open };
        constraint.reach(&self.history, length).unwrap_or(Standing::Failed)
    }

    /// Whether a policy may put these tokens behind S without its last `drop` tokens, and, if the answer is to end with
    /// them, whether it may end there.
    pub(super) fn may_force(&mut self, drop: usize, tokens: &[u32], ends: bool) -> bool {
        let length = self.committed - drop;
        let Some(constraint) = &mut self.constraint else { return true };
        match constraint.would_take((&self.history, length), tokens, &self.request.ends.tokens) {
            Some(standing) => !ends || standing != Standing::Open,
            None => false,
        }
    }
}
