//! One journey's conversation with its policy.

use std::fmt;
use std::sync::Arc;

use journey::{Accept, Decision, Handoff, JourneyId, Offer, Parcel, Step};

use crate::descriptor::Settings;
use crate::error::{Call, PolicyError};
use crate::revision::Revision;
use crate::slots::Slot;
use crate::wasm::Guest;

/// A model of the route, as a policy knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Name in the server's configuration.
    pub name: String,
    /// Number of token ids that its output distinguishes.
    pub vocabulary: u32,
    /// Most tokens, prompt included, that it can hold.
    pub context: u32,
}

/// Fixed for one journey.
#[derive(Clone, Debug)]
pub struct Start {
    /// Names the journey in log lines.
    pub journey: JourneyId,
    /// The route's models by role.
    pub models: Arc<[ModelInfo]>,
    /// Values for the policy's parameters, from [`Revision::settings`] of the same revision.
    pub settings: Settings,
    /// Number of tokens of the prompt.
    pub prompt_tokens: u32,
    /// Most tokens that the answer may have.
    pub max_tokens: u32,
    /// The end of the prompt's text, as long as the policy asked for.
    pub prompt: String,
    /// Key of the policy's random numbers.
    pub seed: u64,
}

/// The policy's side of one journey, in a Wasm instance of its own.
///
/// A call that fails ends the session: every later call answers [`PolicyError::SessionEnded`] and the guest is never
/// entered again. `position` is [`journey::Journey::position`]; it keys the numbers of `host.uniform`.
pub struct Session {
    revision: Arc<Revision>,
    life: Life,
}

/// Whether the guest can still be asked.
enum Life {
    /// Boxed: a session is moved from loop to loop with its journey.
    Live { guest: Box<Guest>, _slot: Option<Slot> },
    /// The guest is gone, and its place is given back.
    Ended { by: Call },
}

impl Session {
    pub(crate) fn new(revision: Arc<Revision>, guest: Guest, slot: Option<Slot>) -> Self {
        Self { revision, life: Life::Live { guest: Box::new(guest), _slot: slot } }
    }

    /// Where the journey goes after this step.
    ///
    /// # Errors
    /// What the guest did wrong; also [`PolicyError::BadAnswer`] for a handoff to a model that the route does not
    /// have or where the journey already is.
    pub fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        self.ask(Call::Route, |guest| guest.route(position, step))
    }

    /// What crosses with the handoff that `route` just asked for. A guest that does not want to be asked is not.
    ///
    /// # Errors
    /// What the guest did wrong.
    pub fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        if !self.revision.descriptor().sends {
            return Ok(Parcel::default());
        }
        self.ask(Call::Send, |guest| guest.send(position, handoff))
    }

    /// What is kept of a bounded visit. Asked only if the descriptor says that the policy `receives`.
    ///
    /// # Errors
    /// What the guest did wrong; also [`PolicyError::BadAnswer`] when it takes more than was offered.
    pub fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        self.ask(Call::Receive, |guest| guest.receive(position, offer))
    }

    /// The revision that this journey began with.
    #[must_use]
    pub fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    fn ask<T>(
        &mut self,
        call: Call,
        body: impl FnOnce(&mut Guest) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let guest = match &mut self.life {
            Life::Live { guest, .. } => guest,
            Life::Ended { by } => return Err(PolicyError::SessionEnded { call, ended_by: *by }),
        };
        let answer = body(guest);
        if answer.is_err() {
            self.life = Life::Ended { by: call };
        }
        answer
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session(of {:?})", self.revision)
    }
}
