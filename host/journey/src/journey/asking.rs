//! Questions and mixtures: a journey goes round the models with them and comes home with the answers.
//!
//! While it is on its way, what it was asked about (the held token or an offer) waits. At each model the tokens that the
//! question needs follow S in `history`; before it goes on they are cut off again, there and in the model's KV, so that
//! nothing of a question stays anywhere. One model at a time: the journey is in one place at any moment, like with every
//! other move.

mod drafting;
mod errand;

use super::Journey;
use crate::decision::Mixture;
use crate::distribution::Distribution;
use crate::ids::Role;
use crate::outcome::{Consult, Effect, Refused};
use crate::question::{Answer, Ask, Found, Question};
use crate::step::{Sampled, Signals};

pub(super) use errand::Errand;
use errand::{Job, Progress};

impl Journey {
    /// Asks models; the policy then hears of the same step, or offer, again.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn consult(&mut self, question: Question) -> Result<Consult, Refused> {
        self.check_question(&question)?;
        let Question { models, side, with_held, ask } = question;
        let held = self.held.as_ref().map(|held| held.token).filter(|_| with_held);
        let suffix: Vec<u32> = held.into_iter().chain(self.request.encoder.encode(&side)).collect();
        // What an offer brought stands in `history` already.
        let base = if with_held { self.length() } else { self.committed };
        let ask = match ask {
            Ask::Last(count) => Ask::Last(count.min(base + suffix.len() - self.request.prompt.len())),
            ask => ask,
        };
        self.asked_with_held = with_held;
        let named = self.named(&ask);
        let answered_at_once = match ask {
            _ if base + suffix.len() >= self.request.context => Some(Found::Nothing),
            Ask::Last(0) => Some(Found::Last(Vec::new())),
            _ => None,
        };
        let mut errand = Errand::new(Job::Ask { ask, named }, (self.here, self.run), models, (base, suffix));
        errand.has_side = !side.is_empty();
        if let Some(found) = answered_at_once {
            let answer = |role| Answer { role, found: found.clone() };
            errand.answers = errand.tour.drain(..).map(answer).collect();
        }
        Ok(self.set_out(errand))
    }

    /// Decides the held token's position by a mixture of several models' distributions.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn mix(&mut self, mixture: Mixture) -> Result<Consult, Refused> {
        let roles = mixture.parts.iter().map(|(role, _)| *role);
        let roles: Vec<Role> = roles.chain(mixture.plausible.map(|(role, _)| role)).collect();
        self.check_roles(&roles)?;
        if mixture.parts.is_empty() || mixture.parts.iter().any(|(_, weight)| !weight.is_finite()) {
            return Err(Refused::BadMixture);
        }
        let held = self.held.as_ref().and_then(|held| held.kept.clone());
        let Some(own) = held else { return Err(Refused::NoDistributions) };
        self.check_hops()?;
        let mut tour: Vec<Role> = Vec::new();
        for role in roles {
            if role != self.here && !tour.contains(&role) {
                tour.push(role);
            }
        }
        let mut errand =
            Errand::new(Job::Mix(mixture), (self.here, self.run), tour, (self.committed, Vec::new()));
        errand.distributions.push((self.here, own));
        Ok(self.set_out(errand))
    }

    /// Takes what a model on the tour drew.
    pub(super) fn hear(&mut self, sampled: Sampled) -> Consult {
        let Some(mut errand) = self.errand.take() else { return Consult::Settled(Effect::Decode) };
        let progress = errand.hear(sampled, self);
        self.errand = Some(errand);
        match progress {
            Progress::More => Consult::More,
            Progress::Decode => Consult::Settled(Effect::Decode),
            Progress::Answered => self.go_on(),
        }
    }

    /// The journey has come home, or somewhere on its tour.
    pub(super) fn come_home(&mut self) -> Consult {
        let at_home = self.errand.as_ref().is_some_and(|errand| errand.tour.is_empty());
        let Some(errand) = self.errand.take_if(|_| at_home) else {
            return Consult::Settled(Effect::Decode);
        };
        self.run = errand.run;
        match &errand.job {
            Job::Mix(_) => Consult::Settled(self.mixed(&errand)),
            Job::Ask { .. } => {
                self.answers = errand.answers;
                match &self.held {
                    Some(sampled) => Consult::Route(self.step(sampled, None, self.answers.clone())),
                    None => self.offer().map_or(Consult::Settled(Effect::Decode), Consult::Receive),
                }
            }
        }
    }

    /// Forgets an errand as if it had not been.
    pub(super) fn give_up_errand(&mut self) {
        if let Some(errand) = self.errand.take() {
            self.restore(&errand);
        }
    }

    fn set_out(&mut self, errand: Errand) -> Consult {
        self.answers.clear();
        self.hops += 1;
        self.errand = Some(Box::new(errand));
        self.visit_next()
    }

    /// A model has answered: on to the next, or home.
    fn go_on(&mut self) -> Consult {
        let Some(mut errand) = self.errand.take() else { return Consult::Settled(Effect::Decode) };
        self.restore(&errand);
        errand.tour.remove(0);
        self.errand = Some(errand);
        self.visit_next()
    }

    /// To the next model of the tour, with what it is to be fed, or home.
    fn visit_next(&mut self) -> Consult {
        let Some(errand) = &self.errand else { return Consult::Settled(Effect::Decode) };
        let to = errand.tour.first().copied().unwrap_or(errand.home);
        if !errand.tour.is_empty() {
            let (base, suffix) = (errand.base, errand.suffix.clone());
            self.cut(base);
            suffix.into_iter().for_each(|token| self.history.push(token));
        }
        if to == self.here {
            return self.come_home();
        }
        self.here = to;
        Consult::Settled(Effect::Leave { to })
    }

    /// Brings `history` back to S and what an offer brought.
    fn restore(&mut self, errand: &Errand) {
        self.cut(errand.base);
        let offered = self.length() - self.committed;
        let missing = self.output.draft.iter().skip(offered).map(|made| made.sampled.token);
        let missing: Vec<u32> = missing.collect();
        missing.into_iter().for_each(|token| self.history.push(token));
    }

    /// All distributions of a mixture are there: one token is drawn from it and committed.
    fn mixed(&mut self, errand: &Errand) -> Effect {
        let Job::Mix(mixture) = &errand.job else { return self.stay() };
        let of =
            |role: Role| errand.distributions.iter().find(|(at, _)| *at == role).map(|(_, kept)| &**kept);
        let parts: Option<Vec<(&Distribution, f32)>> =
            mixture.parts.iter().map(|(role, weight)| Some((of(*role)?, *weight))).collect();
        let plausible = mixture.plausible.and_then(|(role, share)| Some((of(role)?, share)));
        let mixed = parts.and_then(|parts| Distribution::mixed(&parts, mixture.space, plausible));
        self.constrain(self.length() - 1..self.length());
        let draw = self.draw(self.length() - 1);
        let token =
            mixed.as_ref().and_then(|mixed| mixed.drawn_from(&draw)).map(|drawn| drawn.sample(draw.uniform));
        let (Some(mixed), Some(token)) = (mixed, token) else {
            // Where nothing is possible in the mixture, the token that is held stands.
            return self.stay();
        };
        let Some(held) = self.held.take() else { return Effect::Decode };
        let sampled =
            Sampled { token, logprob: mixed.logprob(token) as f32, signals: signals(&mixed), ..held };
        self.answers.clear();
        self.commit_and(Effect::Decode, sampled)
    }

    /// The tokens whose log-probabilities a question is about.
    fn named(&self, ask: &Ask) -> Vec<u32> {
        match ask {
            Ask::Tokens(tokens) => tokens.clone(),
            Ask::Texts(texts) => {
                let first = |text: &String| self.request.encoder.encode(text).first().copied();
                texts.iter().map(|text| first(text).unwrap_or(0)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn check_question(&self, question: &Question) -> Result<(), Refused> {
        if question.models.is_empty() {
            return Err(Refused::AsksNobody);
        }
        self.check_roles(&question.models)?;
        self.check_hops()?;
        match &question.ask {
            Ask::Tokens(tokens) => self.check_tokens(tokens)?,
            Ask::Last(_) if !question.side.is_empty() => return Err(Refused::SideText),
            _ => {}
        }
        Ok(())
    }

    fn check_roles(&self, roles: &[Role]) -> Result<(), Refused> {
        match roles.iter().find(|role| role.index() >= self.request.roles) {
            Some(&role) => Err(Refused::UnknownRole(role, self.request.roles)),
            None => Ok(()),
        }
    }

    fn check_hops(&self) -> Result<(), Refused> {
        if self.hops < QUESTIONS_WITHOUT_PROGRESS_MAX { Ok(()) } else { Err(Refused::NoProgress(self.hops)) }
    }
}

fn signals(distribution: &Distribution) -> Signals {
    let top = distribution.top(2);
    let prob = |rank: usize| top.get(rank).map_or(0.0, |candidate| candidate.prob);
    Signals { entropy: distribution.entropy() as f32, top1: prob(0), margin: prob(0) - prob(1) }
}

/// A policy that asks this often without letting a token be committed is refused.
const QUESTIONS_WITHOUT_PROGRESS_MAX: u32 = 64;
