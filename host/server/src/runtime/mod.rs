//! The running system: models, routes, and one subserver per model.
//!
//! A [`Runtime`] is all of the server but HTTP: `serve`, `run` and `bench` use the same one. [`Runtime::submit`] puts a
//! request in line at the entry subserver of its route and gives back the stream of its [`Event`]s; dropping that
//! stream cancels the request wherever it is.

mod answer;
mod bill;
mod binding;
mod builtin;
mod catalog;
mod gate;
mod group;
mod heads;
mod lane;
mod library;
mod live;
mod load;
mod own;
mod places;
mod policies;
mod pulled;
mod share;
mod split;
mod submit;
mod subserver;
mod traveller;
mod witness;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use policy::Revision;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use answer::{Answer, Ask, Event, SubmitError};
pub use bill::Bill;
pub use binding::policy_host;
pub use builtin::builtin_policies;
pub use catalog::{Catalog, Model, ModelIx, NoSuchRoute, Route, Selected};
pub use gate::GateError;
pub(crate) use gate::check as check_gate;
pub(crate) use lane::yield_to_everybody;
pub use library::{Library, LibraryError};
pub use live::Draft;
use live::Live;
pub use load::{LoadProgress, StartError};
pub use own::{Broken, Own, Uploaded, plain};
pub use pulled::{Pulled, PulledError};
pub(crate) use split::can_shadow;
pub use split::{Split, SplitArm, SplitError};
pub use submit::{Choice, NotTaken};
pub use witness::{Course, Witness};

use crate::config::{Config, Scheduling};
use crate::registry::Pinned;
use crate::telemetry::{Metrics, Traces};
use group::Group;
use lane::LaneThreads;
use places::Places;
use subserver::Fleet;

/// Models and routes being served.
pub struct Runtime {
    live: Arc<Live>,
    fleet: Arc<Fleet>,
    /// The tasks that make plans and let go of what is no longer served; they end with `stop`.
    planning: TaskTracker,
    group: Arc<Group>,
    lanes: Arc<LaneThreads>,
    metrics: Arc<Metrics>,
    traces: Arc<Traces>,
    accepted: TaskTracker,
    next_id: AtomicU64,
    draining: AtomicBool,
    stop: CancellationToken,
}

impl Runtime {
    /// Loads every model and policy of the configuration and starts the subservers.
    ///
    /// Blocks while weights are read; must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`], naming the model, route or policy.
    pub fn start(config: &Config, progress: &mut dyn LoadProgress) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::default());
        let traces = Arc::new(Traces::start(&config.tracing).map_err(StartError::Thread)?);
        let journeys_max = config.server.journeys_max.get();
        let stop = CancellationToken::new();
        let bounds = subserver::Bounds { journeys_max, queue_max: config.server.queue_max.get() };
        let group = Arc::new(Group::new(&config.scheduler));
        let lanes = LaneThreads::start(config.sandbox.lane_threads.get()).map_err(StartError::Thread)?;
        let shared = subserver::Shared {
            group: Arc::clone(&group),
            places: Arc::new(Places::new(journeys_max)),
            metrics: Arc::clone(&metrics),
            lane: lanes.handle().clone(),
        };
        let fleet = Arc::new(Fleet::new(bounds, shared, stop.clone()));
        let live = Arc::new(Live::new(config, Arc::clone(&fleet)));
        live.change(|draft| {
            draft.set_models(config, progress)?;
            draft.set_routes(&config.routes, progress)
        })?;
        let planning = TaskTracker::new();
        planning.spawn(stop.clone().run_until_cancelled_owned(Arc::clone(&group).make_plans()));
        planning.spawn(stop.clone().run_until_cancelled_owned(Arc::clone(&live).let_go()));
        planning.spawn(stop.clone().run_until_cancelled_owned(lanes.handle().clone().let_go()));
        planning.close();
        Ok(Self {
            live,
            fleet,
            group,
            lanes: Arc::new(lanes),
            planning,
            metrics,
            traces,
            accepted: TaskTracker::new(),
            next_id: AtomicU64::new(1),
            draining: AtomicBool::new(false),
            stop,
        })
    }

    /// The models and routes that can be asked for now.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.live.catalog()
    }

    /// Changes what is served: all of the change at once, or, where it fails, nothing. Requests that run keep what they began
    /// with. Changes wait for each other, and compile policies: not for async threads.
    ///
    /// # Errors
    /// What `change` says.
    pub fn change<T, E>(&self, change: impl FnOnce(&mut Draft<'_>) -> Result<T, E>) -> Result<T, E> {
        self.live.change(change)
    }

    /// The policy of a registry that a key names. It may have to be pulled, which delays nobody else: to be called before the
    /// change that needs it, which then has it at once as long as this one is held. Not for async threads.
    ///
    /// # Errors
    /// [`StartError::Pulled`], naming the key.
    pub fn pull(
        &self,
        (key, pinned): &(String, Pinned),
        config: &Config,
    ) -> Result<Arc<Revision>, StartError> {
        self.live.pulled()?.revision(pinned, config).map_err(|source| StartError::Pulled {
            key: key.clone(),
            policy: pinned.to_string(),
            source: Box::new(source),
        })
    }

    /// Counters and gauges.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Where journeys are traced.
    #[must_use]
    pub fn traces(&self) -> &Arc<Traces> {
        &self.traces
    }

    /// All metrics in Prometheus' text format.
    #[must_use]
    pub fn metrics_page(&self) -> String {
        let catalog = self.catalog();
        self.metrics.render(&catalog, &self.group.gauges(), &policies::gauges(&catalog), &self.traces)
    }

    /// When models run: what is believed of them, and the plan in force.
    #[must_use]
    pub fn scheduling(&self) -> serde_json::Value {
        self.group.report()
    }

    /// The policy of every route, and how it does.
    #[must_use]
    pub fn policies(&self) -> serde_json::Value {
        policies::report(&self.catalog())
    }

    /// Whether requests are accepted: every subserver runs, and nobody has asked to shut down.
    #[must_use]
    pub fn ready(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
            && self.catalog().models.values().all(|model| model.subserver.alive())
    }

    /// Has the models run by other rules from now on.
    pub fn reschedule(&self, scheduling: &Scheduling) {
        self.group.reschedule(scheduling);
    }

    /// Refuses new requests, waits for those that were accepted until `deadline` has passed, then ends what is left.
    pub async fn shut_down(&self, deadline: Duration) {
        self.draining.store(true, Ordering::Release);
        self.accepted.close();
        let late = tokio::time::timeout(deadline, self.accepted.wait()).await.is_err();
        // Without a deadline nobody meant to wait, and an answer that has just ended may not be out of the books yet.
        if late && !deadline.is_zero() {
            tracing::warn!(seconds = deadline.as_secs(), "answers still running at the deadline are ended");
        }
        self.stop.cancel();
        self.fleet.join().await;
        self.planning.wait().await;
        let (lanes, traces) = (Arc::clone(&self.lanes), Arc::clone(&self.traces));
        let joining = tokio::task::spawn_blocking(move || {
            lanes.join();
            // Last: what ends until here is traced.
            traces.join();
        });
        if let Err(error) = joining.await {
            tracing::error!(%error, "the threads of slow policies and of traces could not be joined");
        }
    }
}
