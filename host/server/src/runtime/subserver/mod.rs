//! One model's autonomous unit: two loops, and an inbox through which journeys come from other models.
//!
//! The [`client_loop`] admits requests that enter here, the [`decode_loop`] owns the engine and steps it, and the
//! [`cross_model`] side of it puts journeys into the inboxes of peers. They only exchange messages; a loop between two
//! inboxes would be one more thread to wake at every hop, which is most of what a hop costs.

mod client_loop;
mod cross_model;
mod decode_loop;
mod fleet;
mod rows;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::{Engine, Interpreter};
use journey::{Effect, JourneyId, Request};
use policy::{Revision, Settings};
use scheduler::Behalf;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;
use tracing::Span;

use super::answer::{Event, SHUTTING_DOWN, SubmitError, Translations};
use super::bill::Bill;
use super::catalog::Route;
use super::group::{Group, Seating};
use super::lane::LaneHandle;
use super::places::Places;
use super::traveller::{Accepted, Place, Traveller};
use super::witness::Witness;
use crate::telemetry::{Meter, Metrics, Stopwatch, Waiting};
pub(super) use cross_model::Peers;
pub(super) use fleet::Fleet;

/// A request on its way into the entry subserver.
pub(super) struct Submission {
    /// Until it has a place.
    pub(super) waiting: InLine,
    pub(super) id: JourneyId,
    pub(super) behalf: Behalf,
    /// Who is told when it is over.
    pub(super) told: (Bill, Witness),
    /// Since it was accepted.
    pub(super) stopwatch: Stopwatch,
    /// Within which it was asked for: what is logged of it says so.
    pub(super) span: Span,
    pub(super) request: Request,
    /// By role, for models with tokens of their own.
    pub(super) translations: Translations,
    pub(super) route: Arc<Route>,
    /// The policy's revision and its checked settings; none for a single model.
    pub(super) decider: Option<(Arc<Revision>, Settings)>,
    pub(super) client: mpsc::Sender<Event>,
    pub(super) accepted: Accepted,
    /// Whether the prompt's tokens are counted with it.
    pub(super) counts_prompt: bool,
    /// Other answers to the same prompt, in line when it is fed.
    pub(super) followers: Vec<Submission>,
}

/// What a decode loop is told.
pub(super) enum Inbound {
    /// A journey comes: a new one, or one handed over by a peer.
    Arrive(Box<Traveller>),
    /// A journey comes back from its policy's own lane.
    Decided(Box<Traveller>, Decided),
    /// A journey that was here has ended elsewhere; its parked KV goes.
    Release(JourneyId, Place),
    /// No more steps.
    Stop,
}

/// What a policy's own lane brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    /// What follows.
    pub(super) effect: Effect,
    /// Whether the token that was drawn stays; `None` where it was not asked about one.
    pub(super) token: Option<bool>,
}

impl Inbound {
    /// Nobody takes it in any more: a journey in it ends.
    pub(super) fn give_up(self) {
        match self {
            Self::Arrive(traveller) | Self::Decided(traveller, _) => {
                traveller.end(Event::Failed { message: SHUTTING_DOWN.to_owned() });
            }
            Self::Release(..) | Self::Stop => {}
        }
    }
}

/// What all subservers share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) group: Arc<Group>,
    /// Places of journeys.
    pub(super) places: Arc<Places>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lane: LaneHandle,
}

/// Capacities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) journeys_max: usize,
    pub(super) queue_max: usize,
}

/// An engine and the bounds of its steps.
pub(super) struct Powered {
    pub(super) name: String,
    pub(super) engine: Interpreter,
    /// Models of the same number share a device.
    pub(super) device: usize,
    /// Whether its steps are computed by the cores of this machine.
    pub(super) on_cores: bool,
    pub(super) limits: scheduler::Limits,
    pub(super) meter: Arc<Meter>,
}

impl Powered {
    /// What its scheduling needs to know.
    pub(super) fn seating(&self) -> Seating<'_> {
        Seating {
            name: &self.name,
            spec: self.engine.spec(),
            device: self.device,
            on_cores: self.on_cores,
            rows_max: self.limits.rows_max.get(),
        }
    }
}

/// A request that waits for a place, counted until this is dropped.
pub(super) struct InLine {
    here: Arc<AtomicUsize>,
    /// Held for its drop.
    _everywhere: Waiting,
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.here.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Handle of one model's loops. They end once it is dropped.
pub(super) struct Subserver {
    submissions: mpsc::Sender<Submission>,
    /// Requests in line here.
    waiting: Arc<AtomicUsize>,
    queue_max: usize,
    places: Arc<Places>,
    alive: Arc<AtomicBool>,
    /// Held for its drop.
    _stop: DropGuard,
}

impl Subserver {
    /// A place in line. There are as many as the configuration says beside those who only pass through it.
    pub(super) fn wait_in_line(&self, metrics: &Metrics) -> Result<InLine, SubmitError> {
        let most = self.queue_max.saturating_add(self.places.free());
        let more = |waiting: usize| Some(waiting + 1).filter(|waiting| *waiting <= most);
        let counted = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.map_err(|_| SubmitError::QueueFull { waiting: self.queue_max })?;
        Ok(InLine { here: Arc::clone(&self.waiting), _everywhere: metrics.waiting() })
    }

    /// Puts a request in line.
    pub(super) fn submit(&self, submission: Submission) -> Result<(), SubmitError> {
        self.submissions.try_send(submission).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SubmitError::QueueFull { waiting: self.queue_max },
            mpsc::error::TrySendError::Closed(_) => SubmitError::Draining,
        })
    }

    /// Whether the decode loop runs.
    pub(super) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}
