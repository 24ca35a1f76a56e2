//! Visits: bounded runs at another model, and what `receive` makes of them.

use super::Journey;
use crate::decision::{Accept, Handoff, Offer};
use crate::grammar::Standing;
use crate::ids::Role;
use crate::outcome::{Consult, Effect, Refused};
use crate::question::Ended;
use crate::step::Sampled;
use crate::watch::Watch;

/// A bounded run at another model.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    back_to: Role,
    watch: Watch,
}

impl Visit {
    pub(super) fn left(&self) -> Option<u32> {
        self.watch.left()
    }
}

impl Journey {
    /// What `receive` must be shown before the journey decodes on, if a visit brought tokens that wait for it.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        let draft = &self.output.draft;
        let first = draft.first().filter(|_| self.visit.is_none() && self.verification.is_none())?;
        let tokens: Vec<u32> = draft.iter().map(|made| made.sampled.token).collect();
        let text = String::from_utf8_lossy(&self.request.vocabulary.bytes_of(&tokens)).into_owned();
        Some(Offer {
            from: first.by,
            logprobs: draft.iter().map(|made| made.sampled.logprob).collect(),
            tokens,
            text,
            why: self.output.draft_why,
            answers: self.answers.clone(),
        })
    }

    /// `receive` has judged the offer: commits what it takes and drops the rest in every model's KV, or goes to find out
    /// more first.
    ///
    /// # Errors
    /// [`Refused`] when it cannot be followed; the offer then still stands.
    pub fn accept(&mut self, accept: Accept) -> Result<Consult, Refused> {
        match accept {
            Accept::Take(take) => {
                let offered = self.output.draft.len();
                if take > offered {
                    return Err(Refused::TakesTooMany(take, offered));
                }
                Ok(Consult::Settled(self.take_draft(take)))
            }
            Accept::Verify(check) => self.verify(check).map(Consult::Settled),
            Accept::Consult(question) => self.consult(question),
        }
    }

    pub(super) fn check_handoff(&self, handoff: &Handoff) -> Result<(), Refused> {
        if handoff.to.index() >= self.request.roles {
            return Err(Refused::UnknownRole(handoff.to, self.request.roles));
        }
        if handoff.to == self.here {
            return Err(Refused::SameModel(handoff.to));
        }
        Ok(())
    }

    /// To another model, as a handoff says.
    pub(super) fn depart(&mut self, handoff: Handoff) -> Effect {
        self.note_leaving();
        let back_to = self.here;
        let is_visit = handoff.is_visit();
        let watch = Watch::new(handoff.run.map(std::num::NonZeroU32::get), handoff.until);
        self.visit = is_visit.then_some(Visit { back_to, watch });
        self.leave(handoff.to)
    }

    pub(super) fn advance_visit(&mut self, sampled: Sampled) -> Effect {
        let Some(mut visit) = self.visit.take() else { return Effect::Decode };
        let vocabulary = &self.request.vocabulary;
        let why = visit.watch.push(&sampled, vocabulary.bytes(sampled.token), vocabulary.len());
        let next = why.map_or(Effect::Decode, |_| Effect::Leave { to: visit.back_to });
        let back_to = visit.back_to;
        if why.is_none() {
            self.visit = Some(visit);
        }
        let effect = if self.rules_need(|rules| rules.holds_visits) {
            self.output.draft_why = why.unwrap_or(Ended::Length);
            self.draft(sampled, next, back_to)
        } else {
            self.commit_and(next, sampled)
        };
        match effect {
            Effect::Leave { to } => self.leave(to),
            other => other,
        }
    }

    /// Adds a token beyond S. A visit ends early where the answer would end if everything were accepted.
    fn draft(&mut self, sampled: Sampled, next: Effect, back_to: Role) -> Effect {
        let ends = self.request.ends.tokens.contains(&sampled.token);
        self.history.push(sampled.token);
        let made = self.made(sampled);
        self.output.draft.push(made);
        let ends = ends || matches!(self.standing(self.length()), Standing::Complete | Standing::Failed);
        if ends || self.out_of_room(self.length()) {
            self.visit = None;
            self.output.draft_why = Ended::Answer;
            return Effect::Leave { to: back_to };
        }
        next
    }

    /// Commits the first so many tokens of an offer; the rest is dropped.
    pub(super) fn take_draft(&mut self, take: usize) -> Effect {
        let draft = std::mem::take(&mut self.output.draft);
        self.answers.clear();
        let mut effect = Effect::Decode;
        for made in draft.into_iter().take(take) {
            effect = self.commit_made(made, Effect::Decode);
            if effect != Effect::Decode {
                break;
            }
        }
        self.cut(self.committed);
        self.run = 0;
        effect
    }
}
