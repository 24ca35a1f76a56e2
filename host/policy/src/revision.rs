//! One loaded version of a policy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::descriptor::{Descriptor, Settings};
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::health::{Health, Pulse};
use crate::instances::{Berth, Instances};
use crate::lane::{Cost, Lane};
use crate::pace::Paces;
use crate::record::Record;
use crate::session::{Live, Session, Standing, Start};
use crate::slots::{Slot, Slots};
use crate::wasm::{Asker, Guest, Owner, Runtime, Seat, Shared, Template};

/// A component that was compiled, checked and rehearsed, named by its digest.
///
/// Sessions hold it, so that a journey keeps the revision it began with however often the policy is replaced.
pub struct Revision {
    digest: Digest,
    descriptor: Descriptor,
    template: Template,
    runtime: Arc<Runtime>,
    slots: Arc<Slots>,
    instances: Instances,
    pulse: Pulse,
    paces: Paces,
}

impl Revision {
    pub(crate) fn new(
        digest: Digest,
        descriptor: Descriptor,
        template: Template,
        runtime: &Arc<Runtime>,
        (slots, idle): (&Arc<Slots>, &Arc<Slots>),
    ) -> Self {
        let limits = runtime.limits.clone();
        Self {
            digest,
            descriptor,
            template,
            runtime: Arc::clone(runtime),
            slots: Arc::clone(slots),
            pulse: Pulse::new(limits.breaker.clone(), Instant::now()),
            paces: Paces::new(limits.lane.clone(), Instant::now()),
            instances: Instances::new(limits, Arc::clone(idle)),
        }
    }

    /// The name of this version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What the policy is and needs.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// How it does.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = Instant::now();
        self.pulse.health(now, self.instances.counts(now), self.paces.health(now))
    }

    /// Where a session of this tenant is to be begun.
    #[must_use]
    pub fn lane(&self, tenant: u64) -> Lane {
        self.paces.lane(tenant)
    }

    /// A journey that was to have a session goes on without one.
    pub fn fell_back(&self) {
        self.pulse.fell_back();
    }

    /// Checks parameter values and fills in the defaults.
    ///
    /// # Errors
    /// [`PolicyError::UnknownSetting`] or [`PolicyError::Setting`], naming the key and what is allowed.
    pub fn settings(&self, given: &BTreeMap<String, f64>) -> Result<Settings, PolicyError> {
        self.descriptor.settings(self.digest, given)
    }

    /// Begins a journey's session.
    ///
    /// # Errors
    /// [`PolicyError::SessionsExhausted`] when there is no room, [`PolicyError::BreakerOpen`] while this revision fails
    /// too often, a caller's error when `start` does not fit the descriptor, otherwise what the guest's constructor did
    /// wrong.
    pub fn session(self: &Arc<Self>, start: Start) -> Result<Session, PolicyError> {
        self.check(&start)?;
        let slot = self.slots.take()?;
        let standing = self.pulse.admit(self.digest, Instant::now())?;
        self.begin(start, standing, Some(slot))
    }

    /// Begins a session that decides for no journey: in an instance of its own, without a place among the journeys, and
    /// what it does wrong does not count for the revision's health.
    ///
    /// # Errors
    /// A caller's error when `start` does not fit the descriptor, otherwise what the guest's constructor did wrong.
    pub fn shadow(self: &Arc<Self>, start: Start) -> Result<Session, PolicyError> {
        self.rehearsal(start)
    }

    /// Begins a session that takes no place among the journeys, in an instance of its own.
    pub(crate) fn rehearsal(self: &Arc<Self>, start: Start) -> Result<Session, PolicyError> {
        self.check(&start)?;
        self.begin(start, Standing::Rehearsal, None)
    }

    fn begin(
        self: &Arc<Self>,
        start: Start,
        standing: Standing,
        slot: Option<Slot>,
    ) -> Result<Session, PolicyError> {
        let (at, tenant) = (Instant::now(), start.tenant);
        let begun = self.seat(&start, standing == Standing::Rehearsal);
        // Lost while it was waiting for its turn: the second place is its own.
        let begun = match begun {
            Err(PolicyError::InstanceLost { .. }) => self.seat(&start, true),
            other => other,
        };
        if standing != Standing::Rehearsal {
            self.took(tenant, (at, begun.as_ref().map_or(u64::MAX, |(guest, _)| guest.instance.fuel())));
        }
        let (guest, berth) = begun.inspect_err(|error| self.pulse.failed(standing, error, Instant::now()))?;
        let record = self.record();
        Ok(Session::new(Arc::clone(self), Live { guest, berth, start, record, standing, _slot: slot }))
    }

    /// Finds an instance and calls the constructor in it.
    pub(crate) fn seat(&self, start: &Start, own: bool) -> Result<(Guest, Berth), PolicyError> {
        let open = || Ok(Shared::new(self.runtime.instantiate(&self.template, self.owner(start))?));
        let berth = self.instances.enter(start.tenant, own, Instant::now(), open)?;
        match self.begin_in(&berth, start) {
            Ok(guest) => Ok((guest, berth)),
            Err(error) => {
                self.note_loss(start.tenant, &berth, &error);
                self.instances.leave(start.tenant, &berth);
                Err(error)
            }
        }
    }

    /// Calls the constructor.
    pub(crate) fn begin_in(&self, berth: &Berth, start: &Start) -> Result<Guest, PolicyError> {
        let asker = Asker::new(self.owner(start));
        Guest::start(Seat::new(Arc::clone(&berth.shared), asker), start.clone())
    }

    /// An empty one.
    pub(crate) fn record(&self) -> Record {
        Record::new(self.runtime.limits.record_bytes)
    }

    pub(crate) fn paces(&self) -> &Paces {
        &self.paces
    }

    /// What the calls of a rehearsal took. The median judges: the first calls of a new instance take long by themselves.
    pub(crate) fn rehearsed(&self, times: &mut [Duration]) {
        times.sort_unstable();
        if let Some(median) = times.get(times.len() / 2) {
            self.paces.rehearsed(*median, Instant::now());
        }
    }

    /// A constructor or destructor was called: when it began, and its fuel.
    pub(crate) fn took(&self, tenant: u64, (at, fuel): (Instant, u64)) {
        let now = Instant::now();
        let cost = Cost { time: now.saturating_duration_since(at), fuel, grown: 0 };
        self.paces.note(tenant, (self.paces.lane(tenant), &cost), now);
    }

    pub(crate) fn instances(&self) -> &Instances {
        &self.instances
    }

    pub(crate) fn succeeded(&self, standing: Standing) -> Standing {
        self.pulse.succeeded(standing)
    }

    /// A session has failed.
    pub(crate) fn failed(&self, tenant: u64, standing: Standing, berth: &Berth, error: &PolicyError) {
        self.pulse.failed(standing, error, Instant::now());
        self.note_loss(tenant, berth, error);
    }

    pub(crate) fn probe_ended(&self, standing: Standing) {
        self.pulse.probe_ended(standing, Instant::now());
    }

    pub(crate) fn restored(&self, exact: bool) {
        self.pulse.restored(exact);
    }

    /// Fuel that making a session's calls again may take in all.
    pub(crate) fn replay_fuel_most(&self) -> u64 {
        self.runtime.limits.fuel_per_call.saturating_mul(REPLAY_CALLS)
    }

    /// A failure that cost other sessions of this tenant their instance.
    fn note_loss(&self, tenant: u64, berth: &Berth, error: &PolicyError) {
        let first = !matches!(error, PolicyError::InstanceLost { .. });
        if first && !berth.own && berth.shared.is_lost() {
            self.instances.failed(tenant, Instant::now());
        }
    }

    fn owner(&self, start: &Start) -> Owner {
        Owner { revision: self.digest, journey: Some(start.journey), seed: start.seed }
    }

    fn check(&self, start: &Start) -> Result<(), PolicyError> {
        let settings = start.settings.revision;
        if settings != self.digest {
            return Err(PolicyError::ForeignSettings { revision: self.digest, settings });
        }
        let models = start.models.len();
        if !self.descriptor.models.contains(&models) {
            return Err(PolicyError::Models {
                policy: self.descriptor.name.clone(),
                models,
                least: *self.descriptor.models.start(),
                most: *self.descriptor.models.end(),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({} {})", self.descriptor.name, self.digest)
    }
}

/// A restoration may take the fuel of this many calls: 15 ms of a tight loop.
const REPLAY_CALLS: u64 = 10;
