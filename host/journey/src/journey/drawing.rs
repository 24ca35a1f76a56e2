//! What the model here must be fed, after which positions it draws, and how.

use std::ops::Range;

use super::Journey;
use crate::adjust::Adjust;
use crate::random::{Purpose, uniform};
use crate::request::Request;
use crate::step::Draw;

impl Journey {
    /// What the model here must be fed before it can sample: the position of the first token, and the tokens.
    ///
    /// Never empty: a model that has seen everything, and whose proposal was dropped without a replacement, is fed
    /// the last token once more, for its logits are gone.
    #[must_use]
    pub fn pending(&self) -> (usize, &[u32]) {
        let wanted = self.wanted();
        let from = self.anchors[self.here.index()].min(wanted.start);
        (from, &self.history.tokens()[from..wanted.end])
    }

    /// The positions after which a token is drawn; they are the last that are pending. One for a decoded token, more
    /// where a draft is verified or judged, or the prompt is scored.
    #[must_use]
    pub fn wanted(&self) -> Range<usize> {
        if let Some(scoring) = &self.scoring {
            return scoring.wanted(&self.request);
        }
        let length = self.length();
        let count = match (&self.errand, &self.verification) {
            (Some(errand), _) => return errand.wanted(length),
            (None, Some(verification)) => length - self.committed + 1 - verification.drawn(),
            (None, None) => 1,
        };
        length - count..length
    }

    /// How the token after a position of [`Self::wanted`] is chosen. With a grammar, [`Self::constrain`] comes first.
    #[must_use]
    pub fn draw(&self, position: usize) -> Draw<'_> {
        if let Some(score) = self.scoring.as_ref().and_then(|scoring| scoring.draw(&self.request, position)) {
            return score;
        }
        let sample = uniform(self.request.seed, position as u64 + 1, Purpose::Sample, 0);
        let draw = Draw {
            adjust: self.adjust(position),
            candidates: self.request.candidates,
            keep: self.rules_need(|rules| rules.distributions),
            scores: self.rules_need(|rules| !rules.scores_of(self.here).is_empty()),
            ..Draw::new(self.request.sampling, sample)
        };
        match (&self.errand, &self.verification) {
            (Some(errand), _) => errand.draw(draw, position, self),
            (None, Some(verification)) => verification.draw(draw, position - (self.committed - 1)),
            (None, None) => draw,
        }
    }

    /// What changes the logits of the token after a position, which is one of the last.
    pub(super) fn adjust(&self, position: usize) -> Option<Adjust<'_>> {
        let Request { adjustments: wishes, ends, prompt, .. } = &self.request;
        let too_short = position + 1 - prompt.len() < ends.tokens_min;
        // A grammar's mask says already where the answer may end.
        let mask = self.mask(position);
        let too_short = too_short && mask.is_none();
        let barred: &[u32] = if too_short { &ends.tokens } else { &[] };
        let drafted = &self.history.tokens()[self.history.counted().min(position + 1)..position + 1];
        let adjust = Adjust { tally: self.history.tally(), drafted, barred, mask, ..Adjust::new(wishes) };
        (wishes.change() || too_short || mask.is_some()).then_some(adjust)
    }
}
