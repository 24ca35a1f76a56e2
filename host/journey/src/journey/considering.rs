//! Tokens at which the route was open, kept for whoever wants to ask another policy about them afterwards.

use super::Journey;
use crate::ids::Role;
use crate::outcome::Considered;
use crate::step::Sampled;

impl Journey {
    /// The tokens of [`Rules::considered`](crate::Rules::considered) since the last call, in order.
    pub fn take_considered(&mut self) -> Vec<Considered> {
        std::mem::take(&mut self.considered)
    }

    /// The route is open at this token of the model here.
    pub(super) fn note(&mut self, sampled: &Sampled) {
        if self.here != Role::ENTRY || !self.rules_need(|rules| rules.considered) {
            return;
        }
        self.considered.push(Considered {
            position: self.position(),
            index: (self.committed - self.request.prompt.len()) as u32,
            run: self.run,
            at_eos: self.request.ends.tokens.contains(&sampled.token),
            token: sampled.token,
            logprob: sampled.logprob,
            signals: sampled.signals,
            left: false,
        });
    }

    /// The journey leaves the model here, at the token that was noted last.
    pub(super) fn note_leaving(&mut self) {
        if let Some(last) = self.considered.last_mut().filter(|_| self.here == Role::ENTRY) {
            last.left = true;
        }
    }
}
