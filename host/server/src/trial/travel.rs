//! One journey over toy models, step by step, with everything that its policy said.
//!
//! The order of calls is the one of the server's loops, because the same [`Journey`] gives it.

use journey::{
    Accept, Consult, Decision, Effect, Handoff, Journey, JourneyId, Offer, Parcel, Refused, Role, Rules, Step,
};
use policy::{PolicyError, Revision, Session};

use super::{Given, toy};

/// Who decides for a journey.
pub trait Decider {
    /// See [`Session::enter`].
    ///
    /// # Errors
    /// What the policy did wrong.
    fn enter(&mut self, position: u64) -> Result<Role, PolicyError>;

    /// See [`Session::route`].
    ///
    /// # Errors
    /// What the policy did wrong.
    fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError>;

    /// See [`Session::send`].
    ///
    /// # Errors
    /// What the policy did wrong.
    fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError>;

    /// See [`Session::receive`].
    ///
    /// # Errors
    /// What the policy did wrong.
    fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError>;
}

impl Decider for Session {
    fn enter(&mut self, position: u64) -> Result<Role, PolicyError> {
        Self::enter(self, position)
    }

    fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        Self::route(self, position, step)
    }

    fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        Self::send(self, position, handoff)
    }

    fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        Self::receive(self, position, offer)
    }
}

/// What was said about a position.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The position being decided, the prompt included.
    pub position: u64,
    /// Tokens committed so far.
    pub committed: usize,
    /// The model where the journey was.
    pub here: Role,
    /// The answer.
    pub said: Said,
}

/// An answer of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Of `enter`.
    Enter(Role),
    /// Of `route`.
    Route(Decision),
    /// Of `send`.
    Send(Parcel),
    /// Of `receive`.
    Receive(Accept),
}

/// Why a journey would have fallen back.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] PolicyError),
    /// An answer could not be followed.
    #[error("the answer cannot be followed: {0}")]
    Answer(#[from] Refused),
}

/// A journey under way.
pub struct Trip<D> {
    journey: Journey,
    /// By role.
    held: Vec<toy::Kv>,
    /// By role: scores that each step shows.
    heads: Vec<usize>,
    decider: D,
    /// Whether the policy is still to be asked where the journey begins.
    enters: bool,
    /// All that was said, in order.
    pub heard: Vec<Heard>,
}

impl<D: Decider> Trip<D> {
    /// A journey at its beginning.
    ///
    /// # Errors
    /// Settings that the policy does not allow.
    pub fn new(revision: &Revision, given: &Given<'_>, decider: D) -> Result<Self, PolicyError> {
        let descriptor = revision.descriptor();
        let roles = given.models;
        let heads = |role: usize| descriptor.needs.get(role).map_or(0, |need| need.heads.len());
        // A toy model has the heads that its role needs, in that order.
        let scores = (0..roles).map(|role| (0..heads(role)).collect()).collect();
        let rules = Rules { scores, ..descriptor.rules(&revision.settings(given.settings)?) };
        let request = toy::request(rules, descriptor.candidates, roles, given.seed);
        Ok(Self {
            journey: Journey::new(JourneyId(given.seed), request),
            held: vec![toy::Kv::default(); roles],
            heads: (0..roles).map(heads).collect(),
            decider,
            enters: descriptor.enters,
            heard: Vec::new(),
        })
    }

    /// One step of the model here; `false` when the answer is at its end.
    ///
    /// # Errors
    /// [`Fault`], after which the journey must not be advanced again.
    pub fn advance(&mut self) -> Result<bool, Fault> {
        if std::mem::take(&mut self.enters) {
            let role = self.decider.enter(self.journey.position())?;
            self.journey.enter(role)?;
            self.note(Said::Enter(role));
        }
        let here = self.journey.here().index();
        let drawn = self.held[here].step(&mut self.journey, self.heads[here]);
        let mut effect = Effect::Decode;
        for sampled in drawn {
            let consult = self.journey.hold(sampled);
            if !matches!(consult, Consult::More) {
                effect = self.follow(consult)?;
                break;
            }
        }
        self.journey.take_output();
        loop {
            match effect {
                Effect::Decode => return Ok(true),
                Effect::Finish(_) => return Ok(false),
                Effect::Leave { .. } => {
                    let consult = self.journey.arrive();
                    effect = self.follow(consult)?;
                }
            }
        }
    }

    /// To the end of the answer.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn finish(mut self) -> Result<Vec<Heard>, Fault> {
        while self.advance()? {}
        Ok(self.heard)
    }

    /// Tokens of the answer so far.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.journey.committed() - toy::PROMPT.len()
    }

    /// Handoffs so far.
    #[must_use]
    pub fn handoffs(&self) -> usize {
        self.heard.iter().filter(|heard| matches!(heard.said, Said::Route(Decision::Handoff(_)))).count()
    }

    /// Who decided.
    #[must_use]
    pub fn into_decider(self) -> D {
        self.decider
    }

    fn follow(&mut self, mut consult: Consult) -> Result<Effect, Fault> {
        loop {
            consult = match consult {
                Consult::Settled(effect) => return Ok(effect),
                Consult::More => return Ok(Effect::Decode),
                Consult::Route(step) => self.route(&step)?,
                Consult::Receive(offer) => {
                    let accept = self.decider.receive(self.journey.position(), &offer)?;
                    self.note(Said::Receive(accept.clone()));
                    self.journey.accept(accept)?
                }
            };
        }
    }

    fn route(&mut self, step: &Step) -> Result<Consult, Fault> {
        let position = self.journey.position();
        let decision = self.decider.route(position, step)?;
        self.note(Said::Route(decision.clone()));
        let (decider, heard) = (&mut self.decider, &mut self.heard);
        let (committed, here) = (self.journey.committed(), self.journey.here());
        self.journey.decide(decision, |handoff| {
            let parcel = decider.send(position, handoff)?;
            heard.push(Heard { position, committed, here, said: Said::Send(parcel) });
            Ok(parcel)
        })
    }

    fn note(&mut self, said: Said) {
        let (position, committed) = (self.journey.position(), self.journey.committed());
        self.heard.push(Heard { position, committed, here: self.journey.here(), said });
    }
}
