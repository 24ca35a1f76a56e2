//! Changing the answer so far: dropping what the client has not seen, forcing tokens or text, taking a draft.

use super::Journey;
use crate::decision::{Adoption, Next, Rewrite};
use crate::ids::Role;
use crate::outcome::{Effect, FinishReason, Made, Refused};
use crate::question::Found;
use crate::step::Sampled;

impl Journey {
    /// Changes the answer.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn rewrite(&mut self, rewrite: Rewrite) -> Result<Effect, Refused> {
        let Rewrite { keep_held, drop, tokens, text, then } = rewrite;
        self.check_next(&then)?;
        self.check_tokens(&tokens)?;
        let can_drop = self.can_drop(keep_held);
        if drop > can_drop {
            return Err(Refused::DropsSeen(drop, can_drop));
        }
        let most = self.request.max_tokens.saturating_mul(COMMITS_PER_TOKEN) + COMMITS_FREE;
        if self.commits > most {
            return Err(Refused::NoEnd(self.commits));
        }
        let forced: Vec<u32> = tokens.into_iter().chain(self.request.encoder.encode(&text)).collect();
        let kept = self.held.as_ref().map(|held| held.token).filter(|_| keep_held);
        // The held token is the first to be dropped.
        let kept_after = kept.filter(|_| drop == 0);
        let dropped = drop.saturating_sub(usize::from(kept.is_some()));
        let behind: Vec<u32> = kept_after.into_iter().chain(forced.iter().copied()).collect();
        if !self.may_force(dropped, &behind, matches!(then, Next::Finish)) {
            return Err(Refused::AgainstGrammar);
        }
        if keep_held && let end @ Effect::Finish(_) = self.commit_held(Effect::Decode) {
            return Ok(end);
        }
        self.held = None;
        self.answers.clear();
        self.output.drop_unseen(drop);
        self.committed -= drop;
        self.cut(self.committed);
        let forced: Vec<Sampled> =
            forced.into_iter().map(|token| Sampled { token, ..Sampled::default() }).collect();
        let here = self.here;
        Ok(self.append(here, forced, then))
    }

    /// Takes a draft of the last question.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn adopt(&mut self, adoption: Adoption) -> Result<Effect, Refused> {
        let Adoption { answer, draft, tokens, then } = adoption;
        self.check_next(&then)?;
        let unknown = Refused::NoSuchDraft { answer, draft };
        let Some(answer) = self.answers.get(answer) else { return Err(unknown) };
        let Found::Drafts(drafts) = &answer.found else { return Err(unknown) };
        let Some(draft) = drafts.get(draft) else { return Err(unknown) };
        let sampled = |(&token, &logprob): (&u32, &f32)| Sampled { token, logprob, ..Sampled::default() };
        let taken: Vec<Sampled> =
            draft.tokens.iter().zip(&draft.logprobs).take(tokens).map(sampled).collect();
        let by = answer.role;
        let kept = self.held.iter().filter(|_| self.asked_with_held).map(|held| held.token);
        let behind: Vec<u32> = kept.chain(taken.iter().map(|sampled| sampled.token)).collect();
        if !self.may_force(0, &behind, matches!(then, Next::Finish)) {
            return Err(Refused::AgainstGrammar);
        }
        if self.asked_with_held
            && let end @ Effect::Finish(_) = self.commit_held(Effect::Decode)
        {
            return Ok(end);
        }
        self.held = None;
        self.answers.clear();
        Ok(self.append(by, taken, then))
    }

    /// Commits tokens as made by a model, then goes on.
    fn append(&mut self, by: Role, tokens: Vec<Sampled>, then: Next) -> Effect {
        for sampled in tokens {
            self.history.push(sampled.token);
            let made = Made { by, sampled, text: String::new(), proposal: None };
            if let end @ Effect::Finish(_) = self.commit_made(made, Effect::Decode) {
                return end;
            }
        }
        match then {
            Next::Stay => Effect::Decode,
            Next::Handoff(handoff) => self.depart(handoff),
            Next::Finish => self.end(FinishReason::Stop),
        }
    }

    /// How many tokens a rewrite may drop: those that the client will not have seen when it gets to that.
    fn can_drop(&self, keep_held: bool) -> usize {
        let holdback = self.request.rules().map_or(0, |rules| rules.holdback);
        let kept = usize::from(keep_held && self.held.is_some());
        (self.output.unseen() + kept).min(holdback)
    }

    fn check_next(&self, next: &Next) -> Result<(), Refused> {
        match next {
            Next::Handoff(handoff) => self.check_handoff(handoff),
            Next::Stay | Next::Finish => Ok(()),
        }
    }

    pub(super) fn check_tokens(&self, tokens: &[u32]) -> Result<(), Refused> {
        let vocabulary = self.request.vocabulary.len();
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(Refused::UnknownToken(token, vocabulary)),
            None => Ok(()),
        }
    }
}

/// A journey that drops what it commits over and over ends here: so many commits for each token that the answer may
/// have.
const COMMITS_PER_TOKEN: usize = 4;
/// And so many more.
const COMMITS_FREE: usize = 256;
