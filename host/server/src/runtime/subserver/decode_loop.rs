//! Decode loop: owns the engine, steps the batch, and performs what follows for each journey.
//!
//! It runs on a thread of its own, because a step is pure computation. Between two steps it takes in what has arrived,
//! lets go of journeys whose client has left, and asks the scheduler for the next batch.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::{Engine, EngineError, Row};
use journey::{Draw, Effect, Journey, JourneyId, Sampled};
use scheduler::{Scheduler, Share, Turn};
use tokio::sync::{mpsc, oneshot};

use super::{Inbound, Outbound, Powered};
use crate::runtime::answer::Event;
use crate::runtime::catalog::ModelIx;
use crate::runtime::traveller::Traveller;
use crate::telemetry::Metrics;

pub(super) struct DecodeLoop {
    here: ModelIx,
    engine: Box<dyn Engine>,
    scheduler: Scheduler,
    /// Journeys whose turn it is here.
    residents: BTreeMap<JourneyId, Box<Traveller>>,
    /// Journeys that are away and whose KV is kept.
    parked: BTreeSet<JourneyId>,
    inbox: mpsc::Receiver<Inbound>,
    outbound: mpsc::Sender<Outbound>,
    metrics: Arc<Metrics>,
    stopped: bool,
}

impl DecodeLoop {
    pub(super) fn new(
        here: ModelIx,
        powered: Powered,
        inbox: mpsc::Receiver<Inbound>,
        outbound: mpsc::Sender<Outbound>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            here,
            engine: powered.engine,
            scheduler: Scheduler::new(powered.limits),
            residents: BTreeMap::new(),
            parked: BTreeSet::new(),
            inbox,
            outbound,
            metrics,
            stopped: false,
        }
    }

    fn run(&mut self) {
        while self.take_in() {
            self.drop_the_gone();
            if let Turn::Run(shares) = self.scheduler.next_turn() {
                self.step(&shares);
            }
            self.metrics.set_journeys(self.here, self.residents.len(), self.parked.len(), self.engine.kv());
        }
        for (_, traveller) in std::mem::take(&mut self.residents) {
            traveller.end(Event::Failed { message: "the server is shutting down".to_owned() });
        }
        self.metrics.set_journeys(self.here, 0, 0, self.engine.kv());
    }

    /// Takes in everything that has arrived; waits if there is nothing to decode. False when the loop must end.
    fn take_in(&mut self) -> bool {
        if self.residents.is_empty() {
            match self.inbox.blocking_recv() {
                Some(inbound) => self.handle(inbound),
                None => return false,
            }
        }
        while let Ok(inbound) = self.inbox.try_recv() {
            self.handle(inbound);
        }
        !self.stopped
    }

    fn handle(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Arrive(mut traveller) => {
                self.parked.remove(&traveller.id());
                let effect = traveller.arrive();
                self.perform(traveller, effect);
            }
            Inbound::Release(journey, place) => {
                self.parked.remove(&journey);
                self.engine.release(journey);
                drop(place);
            }
            Inbound::Stop => self.stopped = true,
        }
    }

    /// One look at an atomic per resident and step; a cancelled journey is gone before the next step.
    fn drop_the_gone(&mut self) {
        let gone: Vec<JourneyId> =
            self.residents.iter().filter(|(_, traveller)| traveller.is_gone()).map(|(&id, _)| id).collect();
        for id in gone {
            if let Some(traveller) = self.residents.remove(&id) {
                tracing::debug!(journey = %id, "the client has gone");
                self.let_go(&traveller);
                self.metrics.journey_cancelled();
            }
        }
    }

    fn step(&mut self, shares: &[Share]) {
        let journeys: Vec<&Journey> = shares.iter().map(|share| resident(&self.residents, *share)).collect();
        let both = || shares.iter().zip(&journeys);
        let draws: Vec<Option<Draw<'_>>> = both().map(|(share, journey)| draw(journey, *share)).collect();
        let rows: Vec<Row<'_>> =
            both().zip(&draws).map(|((share, journey), draw)| row(journey, *share, draw)).collect();
        self.metrics.step(self.here, rows.len(), rows.iter().map(|row| row.tokens.len()).sum());
        let engine = &mut self.engine;
        let outcome = catch_unwind(AssertUnwindSafe(|| engine.step(&rows)));
        let draws: Vec<bool> = draws.iter().map(Option::is_some).collect();
        match outcome {
            Ok(Ok(sampled)) => {
                let mut sampled = sampled.into_iter();
                for (share, draws) in shares.iter().zip(draws) {
                    let sampled = if draws { sampled.next() } else { None };
                    self.advance(*share, sampled);
                }
            }
            Ok(Err(error)) => self.step_failed(shares, &error),
            Err(panic) => {
                self.fail(shares, &format!("the engine panicked: {}", panic_message(panic.as_ref())));
            }
        }
    }

    fn advance(&mut self, share: Share, sampled: Option<Sampled>) {
        let Some(mut traveller) = self.residents.remove(&share.journey) else { return };
        traveller.journey.fed(share.tokens);
        let effect = match sampled {
            Some(sampled) => traveller.advance(sampled),
            None => Effect::Decode,
        };
        self.perform(traveller, effect);
    }

    fn perform(&mut self, mut traveller: Box<Traveller>, effect: Effect) {
        traveller.emit();
        match effect {
            Effect::Decode => {
                let id = traveller.id();
                self.scheduler.set_pending(id, traveller.journey.pending().1.len());
                self.residents.insert(id, traveller);
            }
            Effect::Leave { to } => {
                let id = traveller.id();
                self.scheduler.remove(id);
                self.parked.insert(id);
                let to = traveller.route.models[to.index()];
                self.metrics.handed_off(self.here, to);
                self.carry(Outbound::Handoff { to, traveller });
            }
            Effect::Finish(reason) => {
                self.let_go(&traveller);
                traveller.end(Event::Finished(reason));
            }
        }
    }

    /// Where the engine names the journey that it could not serve, the others of the step are fed again without it.
    fn step_failed(&mut self, shares: &[Share], error: &EngineError) {
        let at_fault = match error {
            EngineError::KvFull { journey, .. } | EngineError::NotFinite { journey } => Some(*journey),
            _ => None,
        };
        let ends = |share: &Share| at_fault.is_none_or(|journey| journey == share.journey);
        let (ended, others): (Vec<Share>, Vec<Share>) = shares.iter().partition(|share| ends(share));
        self.fail(&ended, &error.to_string());
        for share in others {
            if let Some(traveller) = self.residents.get(&share.journey) {
                self.scheduler.set_pending(share.journey, traveller.journey.pending().1.len());
            }
        }
    }

    /// The engine could not do the step: it is the end of these journeys, and of no others.
    fn fail(&mut self, shares: &[Share], error: &str) {
        tracing::error!(model = self.engine.spec().name, error, "a step failed");
        for share in shares {
            if let Some(traveller) = self.residents.remove(&share.journey) {
                self.let_go(&traveller);
                traveller.end(Event::Failed { message: error.to_owned() });
            }
        }
    }

    /// Forgets a journey here and has its KV released elsewhere.
    fn let_go(&mut self, traveller: &Traveller) {
        let id = traveller.id();
        self.scheduler.remove(id);
        self.engine.release(id);
        for at in traveller.traces_elsewhere(self.here) {
            self.carry(Outbound::Release { at, journey: id, place: traveller.place.clone() });
        }
    }

    fn carry(&mut self, outbound: Outbound) {
        if let Err(error) = self.outbound.try_send(outbound) {
            // Each journey has at most one message under way for each place it holds, so the channel has room.
            tracing::error!(model = self.here.0, %error, "the cross-model loop does not take messages");
        }
    }
}

fn resident(residents: &BTreeMap<JourneyId, Box<Traveller>>, share: Share) -> &Journey {
    &residents.get(&share.journey).expect("the scheduler knows residents only").journey
}

/// A journey draws when everything that is pending is fed.
fn draw(journey: &Journey, share: Share) -> Option<Draw<'_>> {
    (share.tokens == journey.pending().1.len()).then(|| journey.draw())
}

fn row<'a>(journey: &'a Journey, share: Share, draw: &'a Option<Draw<'a>>) -> Row<'a> {
    let (from, pending) = journey.pending();
    Row { journey: share.journey, salt: 0, from, tokens: &pending[..share.tokens], draws: draw.as_slice() }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Runs a decode loop on a named thread; the future ends with the thread.
pub(super) fn on_its_thread(
    name: &str,
    mut decode: DecodeLoop,
    alive: Arc<AtomicBool>,
) -> io::Result<impl Future<Output = ()> + use<>> {
    let (ended, when_ended) = oneshot::channel::<()>();
    let handle = thread::Builder::new().name(format!("decode-{name}")).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| decode.run()));
        alive.store(false, Ordering::Release);
        drop(ended);
        if let Err(panic) = outcome {
            tracing::error!(message = panic_message(panic.as_ref()), "a decode loop panicked");
        }
    })?;
    Ok(async move {
        // The sender is never used: its drop is the signal.
        drop(when_ended.await);
        if handle.join().is_err() {
            tracing::error!("a decode thread could not be joined");
        }
    })
}
