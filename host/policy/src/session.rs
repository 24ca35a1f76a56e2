//! One journey's conversation with its policy.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use journey::{Accept, Decision, Handoff, JourneyId, Offer, Parcel, Role, Step};

use crate::descriptor::Settings;
use crate::error::{Call, PolicyError};
use crate::instances::Berth;
use crate::lane::{Cost, Lane};
use crate::record::{Input, Record};
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
    /// On whose behalf it runs; 0 for nobody in particular. Tenants never share an instance.
    pub tenant: u64,
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

/// The policy's side of one journey.
///
/// A call that fails ends the session: every later call answers [`PolicyError::SessionEnded`] and the guest is never
/// entered again. Sessions of one tenant share instances unless [`Isolation`](crate::Isolation) says otherwise; one whose
/// instance was lost by another's failure goes on in a new one, where its calls so far are made again first.
/// `position` is [`journey::Journey::position`]; it keys the numbers of `host.uniform`.
///
/// It may be used from any thread; a call waits for other sessions' calls into the same instance.
pub struct Session {
    revision: Arc<Revision>,
    tenant: u64,
    life: Life,
}

/// A call that is being measured; see [`Session::began`].
#[derive(Clone, Copy, Debug)]
pub struct Began {
    at: Instant,
    memory_bytes: usize,
}

/// Whether the guest can still be asked.
enum Life {
    /// Boxed: a session is moved from loop to loop with its journey.
    Live(Box<Live>),
    /// The guest is gone, and its place is given back.
    Ended { by: Call },
}

/// What a session is made of.
pub(crate) struct Live {
    pub(crate) guest: Guest,
    pub(crate) berth: Berth,
    /// What the guest's constructor was shown.
    pub(crate) start: Start,
    pub(crate) record: Record,
    pub(crate) standing: Standing,
    /// Held for its drop; a rehearsal has none.
    pub(crate) _slot: Option<Slot>,
}

/// What a session's calls count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: a rehearsal.
    Rehearsal,
    /// The revision's health.
    Journey,
    /// Whether a failing revision works again; so many calls have succeeded.
    Probe { calls: u32 },
}

impl Session {
    pub(crate) fn new(revision: Arc<Revision>, live: Live) -> Self {
        Self { revision, tenant: live.start.tenant, life: Life::Live(Box::new(live)) }
    }

    /// The model at which the journey begins; the entry model unless the policy wants to be asked.
    ///
    /// # Errors
    /// What the guest did wrong; also [`PolicyError::BadAnswer`] for a model that the route does not have.
    pub fn enter(&mut self, position: u64) -> Result<Role, PolicyError> {
        if !self.revision.descriptor().enters {
            return Ok(Role::ENTRY);
        }
        self.ask(Call::Enter, || Input::Enter { position }, |guest| guest.enter(position))
    }

    /// Where the journey goes after this step.
    ///
    /// # Errors
    /// What the guest did wrong; also [`PolicyError::BadAnswer`] for a handoff to a model that the route does not
    /// have or where the journey already is.
    pub fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        let input = || Input::route(position, step);
        self.ask(Call::Route, input, |guest| guest.route(position, step))
    }

    /// What crosses with the handoff that `route` just asked for. A guest that does not want to be asked is not.
    ///
    /// # Errors
    /// What the guest did wrong.
    pub fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        if !self.revision.descriptor().sends {
            return Ok(Parcel::default());
        }
        let input = || Input::Send { position, handoff: handoff.clone() };
        self.ask(Call::Send, input, |guest| guest.send(position, handoff))
    }

    /// What is kept of a bounded visit. Asked only if the descriptor says that the policy `receives`.
    ///
    /// # Errors
    /// What the guest did wrong; also [`PolicyError::BadAnswer`] when it takes more than was offered.
    pub fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        let input = || Input::Receive { position, offer: offer.clone() };
        self.ask(Call::Receive, input, |guest| guest.receive(position, offer))
    }

    /// Where the next call is to be made: a slow policy is kept out of steps, and so is making lost calls again.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match &self.life {
            Life::Live(live) if live.berth.shared.is_lost() => Lane::Own,
            Life::Live(_) => self.revision.lane(self.tenant),
            Life::Ended { .. } => Lane::InStep,
        }
    }

    /// Begins to measure what a call takes, and what is done by its answer.
    #[must_use]
    pub fn began(&self) -> Began {
        Began { at: Instant::now(), memory_bytes: self.memory_bytes().unwrap_or(0) }
    }

    /// The call was made there; slow ones decide where the next is made.
    pub fn took(&self, began: Began, lane: Lane) {
        let now = Instant::now();
        let time = now.saturating_duration_since(began.at);
        let grown = self.memory_bytes().unwrap_or(began.memory_bytes).saturating_sub(began.memory_bytes);
        // A call that ended the session tells no fuel any more: it burned, or trapped early.
        let cost = Cost { time, fuel: self.fuel().unwrap_or(u64::MAX), grown };
        self.revision.paces().note(self.tenant, (lane, &cost), now);
    }

    /// On whose behalf it runs.
    #[must_use]
    pub fn tenant(&self) -> u64 {
        self.tenant
    }

    /// The journey goes on without this policy, for whatever reason.
    pub fn fell_back(&self) {
        self.revision.fell_back();
    }

    /// The revision that this journey began with.
    #[must_use]
    pub fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    /// Units of fuel that the last call took; that of the constructor before the first. `None` once the session has
    /// ended.
    #[must_use]
    pub fn fuel(&self) -> Option<u64> {
        match &self.life {
            Life::Live(live) => Some(live.guest.instance.fuel()),
            Life::Ended { .. } => None,
        }
    }

    /// Bytes of the linear memories of the instance that this session is in. `None` once the session has ended.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<usize> {
        match &self.life {
            Life::Live(live) => Some(live.berth.shared.memory_bytes()),
            Life::Ended { .. } => None,
        }
    }

    fn ask<T>(
        &mut self,
        call: Call,
        input: impl FnOnce() -> Input,
        body: impl Fn(&mut Guest) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let live = match &mut self.life {
            Life::Live(live) => live,
            Life::Ended { by } => return Err(PolicyError::SessionEnded { call, ended_by: *by }),
        };
        let answer = live.ask(&self.revision, body);
        match &answer {
            Ok(_) => live.succeeded(&self.revision, input),
            Err(error) => self.end(call, error),
        }
        answer
    }

    /// The end by a failure.
    fn end(&mut self, by: Call, error: &PolicyError) {
        if let Life::Live(live) = std::mem::replace(&mut self.life, Life::Ended { by }) {
            self.revision.failed(live.start.tenant, live.standing, &live.berth, error);
            live.leave(&self.revision);
        }
    }
}

impl Live {
    /// Asks the guest. If another session's failure has taken the instance, this one is restored first; if that happens
    /// again meanwhile, in an instance that nobody else can take.
    fn ask<T>(
        &mut self,
        revision: &Arc<Revision>,
        body: impl Fn(&mut Guest) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let mut answer = body(&mut self.guest);
        for own in [false, true] {
            if !matches!(answer, Err(PolicyError::InstanceLost { .. })) {
                break;
            }
            answer = self.restore(revision, own).and_then(|()| body(&mut self.guest));
        }
        answer
    }

    fn succeeded(&mut self, revision: &Revision, input: impl FnOnce() -> Input) {
        // Nobody can take an instance of one's own.
        if !self.berth.own {
            self.record.note(input);
        }
        self.standing = revision.succeeded(self.standing);
    }

    /// Begins the session again in another instance and makes its calls again.
    fn restore(&mut self, revision: &Arc<Revision>, own: bool) -> Result<(), PolicyError> {
        let (mut guest, berth) = revision.seat(&self.start, own)?;
        let left = std::mem::replace(&mut self.berth, berth);
        revision.instances().leave(self.start.tenant, &left);
        let exact = match self.record.inputs() {
            Some(inputs) => replay(inputs, &mut guest, revision.replay_fuel_most())?,
            None => false,
        };
        if !exact {
            if self.record.inputs().is_some() {
                // It has been led half way.
                guest.end()?;
                guest = revision.begin_in(&self.berth, &self.start)?;
            }
            self.record = revision.record();
        }
        self.guest = guest;
        revision.restored(exact);
        Ok(())
    }

    /// Gives everything back. Where others go on in the same memory the guest's destructor is called, under the budget
    /// of a call; what it took of it.
    fn leave(self: Box<Self>, revision: &Revision) -> u64 {
        let Self { guest, berth, start, standing, .. } = *self;
        // An instance of its own goes with it.
        let fuel = match if berth.own { Ok(0) } else { guest.end() } {
            Ok(fuel) => fuel,
            Err(PolicyError::InstanceLost { .. }) => 0,
            Err(error) => {
                revision.failed(start.tenant, standing, &berth, &error);
                u64::MAX
            }
        };
        revision.instances().leave(start.tenant, &berth);
        fuel
    }
}

/// Makes recorded calls again; `false` if they take too much fuel.
fn replay(inputs: &[Input], guest: &mut Guest, fuel_most: u64) -> Result<bool, PolicyError> {
    guest.instance.replaying();
    for input in inputs {
        input.replay(guest)?;
        if guest.instance.replayed_fuel() > fuel_most {
            return Ok(false);
        }
    }
    guest.instance.replayed();
    Ok(true)
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Life::Live(live) = std::mem::replace(&mut self.life, Life::Ended { by: Call::End }) {
            let (at, standing) = (Instant::now(), live.standing);
            self.revision.probe_ended(standing);
            let fuel = live.leave(&self.revision);
            if standing != Standing::Rehearsal {
                self.revision.took(self.tenant, (at, fuel));
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session(of {:?})", self.revision)
    }
}
