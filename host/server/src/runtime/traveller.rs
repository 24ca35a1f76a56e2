//! A journey with all that travels with it from subserver to subserver.

use std::sync::Arc;
use std::time::Instant;

use engine::Translation;
use experiment::tally::Ended;
use journey::{Accept, Consult, Decision, Effect, Journey, JourneyId, Offer, Role, Sampled, Step};
use policy::{Digest, Lane, PolicyError, Revision, Session};
use scheduler::{Behalf, Tenant};
use tokio::sync::mpsc;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Span;

use super::answer::{Event, Translations};
use super::bill::Bill;
use super::catalog::{ModelIx, Route};
use super::lane::LaneHandle;
use super::places::Held;
use super::share::Seen;
use super::subserver::{Shared, Submission};
use super::witness::{Witness, ended};
use crate::telemetry::{Meter, Metrics, Stopwatch};

/// A place among the journeys alive. It is given back when the last subserver has let go of the journey, so the number
/// of messages about journeys never exceeds the number of places, which is the capacity of every channel between
/// subservers: sending on them cannot block.
#[derive(Clone, Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held for its drop")] Arc<(Held, Accepted)>);

/// A request that was accepted and is not over; a drain waits until there is none.
pub(super) type Accepted = TaskTrackerToken;

impl Place {
    pub(super) fn new(held: Held, accepted: Accepted) -> Self {
        Self(Arc::new((held, accepted)))
    }
}

/// One request on its way. It is owned by one loop at a time.
pub(super) struct Traveller {
    pub(super) journey: Journey,
    /// By role, for models with tokens of their own.
    translations: Translations,
    pub(super) behalf: Behalf,
    /// Told when the journey is over: here, or by the drop wherever it is let go of.
    bill: Bill,
    /// Told after it what the journey did.
    witness: Witness,
    /// What its times are measured with.
    stopwatch: Stopwatch,
    /// Of the request: what is logged of the journey is logged within it.
    pub(super) span: Span,
    pub(super) route: Arc<Route>,
    /// None for single models, and after the policy has failed.
    session: Option<Session>,
    client: mpsc::Sender<Event>,
    pub(super) place: Place,
    metrics: Arc<Metrics>,
    /// Where its policy is called while it is slow.
    lane: LaneHandle,
    /// Tokens of the answer that other models than the entry made.
    others: u64,
    /// Handoffs so far.
    handoffs: u64,
    /// Ways from model to model so far.
    hops: u64,
    /// When it came to where it is, until its first step there.
    came: Option<Instant>,
    /// Other answers to the same prompt, which wait until it is fed.
    followers: Vec<Submission>,
}

/// What follows from news of a journey.
pub(super) enum Follows {
    /// This.
    Settled(Effect),
    /// What its policy says, which is too slow to be asked inside a step.
    InLane(Consult),
}

/// What a policy did wrong.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Call(#[from] PolicyError),
    #[error(transparent)]
    Answer(#[from] journey::Refused),
}

impl Traveller {
    pub(super) fn new(
        ((journey, translations), behalf, told): (
            (Journey, Translations),
            Behalf,
            (Bill, Witness, Stopwatch, Span),
        ),
        route: Arc<Route>,
        client: mpsc::Sender<Event>,
        place: Place,
        shared: &Shared,
    ) -> Self {
        let (bill, witness, stopwatch, span) = told;
        let (metrics, lane) = (Arc::clone(&shared.metrics), shared.lane.clone());
        let session = None;
        Self {
            journey,
            translations,
            behalf,
            bill,
            witness,
            stopwatch,
            span,
            route,
            session,
            client,
            place,
            metrics,
            lane,
            others: 0,
            handoffs: 0,
            hops: 0,
            came: None,
            followers: Vec::new(),
        }
    }

    /// These are put in line once its prompt is fed; they are gone if it ends before.
    pub(super) fn lead(&mut self, followers: Vec<Submission>) {
        self.followers = followers;
    }

    /// Gives the journey its session of a revision, which may choose where it begins, or, if that failed, sends it the
    /// fallback's way.
    pub(super) fn begin(&mut self, revision: &Revision, session: Result<Session, PolicyError>) {
        match session {
            Ok(session) => {
                if let Err(fault) = self.enter(session) {
                    self.fall_back(&fault);
                }
            }
            Err(error) => {
                revision.fell_back();
                self.fall_back(&Fault::Call(error));
            }
        }
    }

    /// The model at which it is.
    pub(super) fn here(&self) -> ModelIx {
        self.route.models[self.journey.here().index()]
    }

    /// What the model here needs to read the journey, if it has tokens of its own.
    pub(super) fn translation(&self) -> Option<&Arc<Translation>> {
        self.translations.get(self.journey.here().index())?.as_ref()
    }

    /// What follows from the tokens drawn in a step: the policy is asked unless the journey knows by itself.
    pub(super) fn advance(&mut self, drawn: impl Iterator<Item = Sampled>) -> Follows {
        for sampled in drawn {
            if !self.followers.is_empty() {
                self.call_followers();
            }
            match self.journey.hold(sampled) {
                Consult::More => {}
                consult => return self.follow(consult, Lane::InStep),
            }
        }
        Follows::Settled(Effect::Decode)
    }

    /// What follows from coming to a subserver: what the journey brings may wait for the policy.
    pub(super) fn arrive(&mut self) -> Follows {
        self.came = Some(Instant::now());
        let consult = self.journey.arrive();
        self.follow(consult, Lane::InStep)
    }

    /// Asks the policy outside of any step.
    pub(super) fn follow_in_lane(&mut self, consult: Consult) -> Effect {
        match self.follow(consult, Lane::Own) {
            Follows::Settled(effect) => effect,
            Follows::InLane(_) => unreachable!("what is in its lane already is not sent there"),
        }
    }

    /// It goes to another model.
    pub(super) fn leaves(&mut self, (here, meter): (ModelIx, &Meter), to: Role) {
        self.hops += 1;
        let from = self.route.models.iter().position(|model| *model == here).unwrap_or_default();
        self.witness.handed_off(Role(from as u16), to, self.journey.position());
        meter.handed_off(&self.route.model_names[to.index()]);
    }

    /// It takes part in a step.
    pub(super) fn steps(&mut self, meter: &Meter) {
        let Some(came) = self.came.take() else { return };
        let suffix = (self.hops > 0).then(|| self.journey.pending().1.len());
        meter.visit_begins(came.elapsed(), suffix);
    }

    /// Sends what has been made to the client.
    pub(super) fn emit(&mut self) {
        if let Some(scored) = self.journey.take_scored() {
            self.tell(Event::Scored(scored));
        }
        let output = self.journey.take_output();
        self.witness.made(output.iter().map(|made| made.by));
        self.metrics.tokens_made(&mut self.stopwatch, output.len());
        for made in output {
            self.route.by_role[made.by.index()].meter.token_made();
            self.bill.add(1);
            self.others += u64::from(made.by != Role::ENTRY);
            self.tell(Event::Made(made));
        }
    }

    /// The last word to the client.
    pub(super) fn end(mut self: Box<Self>, last: Event) {
        // After a failure of the policy nothing is learnt: its tokens are not what the threshold led to.
        if let Some(session) = &self.session {
            let signals = self.journey.take_observed();
            let seen = Seen { signals, fired: self.handoffs, others: self.others };
            self.route.learn(session.revision().descriptor(), seen);
        }
        self.metrics.journey_ended(&last, &self.stopwatch);
        // Before the client knows: whoever asks again at once finds its place free.
        self.bill.settle();
        self.witness.considered(self.journey.take_considered());
        self.witness.end(ended(&last));
        self.tell(last);
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.client.is_closed()
    }

    /// The revision that decides.
    pub(super) fn revision(&self) -> Option<Digest> {
        self.session.as_ref().map(|session| session.revision().digest())
    }

    pub(super) fn tenant(&self) -> Tenant {
        self.behalf.tenant
    }

    pub(super) fn id(&self) -> JourneyId {
        self.journey.id()
    }

    /// Models whose KV holds something of this journey, other than `here`.
    pub(super) fn traces_elsewhere(&self, here: ModelIx) -> Vec<ModelIx> {
        self.journey.visited().map(|role| self.route.models[role.index()]).filter(|&ix| ix != here).collect()
    }

    /// Asks the policy until it has decided. An answer may lead to another question at once, never for ever: the journey
    /// bounds questions that bring it no further. A policy that is slow, or shows it here, is not asked inside a step.
    fn follow(&mut self, mut consult: Consult, at: Lane) -> Follows {
        loop {
            match consult {
                Consult::Settled(effect) => return Follows::Settled(effect),
                Consult::More => return Follows::Settled(Effect::Decode),
                Consult::Route(_) | Consult::Receive(_) => {}
            }
            if at == Lane::InStep && self.is_slow() {
                return Follows::InLane(consult);
            }
            let began = self.session.as_ref().map(Session::began);
            let next = match &consult {
                Consult::Route(step) => self.route(step),
                Consult::Receive(offer) => self.receive(offer),
                Consult::Settled(_) | Consult::More => Ok(Consult::More),
            };
            if let Some((session, began)) = self.session.as_ref().zip(began) {
                session.took(began, at);
            }
            consult = match next {
                Ok(next) => next,
                Err(fault) => return Follows::Settled(self.fall_back(&fault)),
            };
        }
    }

    /// Something was drawn, so the prompt is in the KV.
    fn call_followers(&mut self) {
        for follower in self.followers.drain(..) {
            let entry = Arc::clone(&follower.route.by_role[0]);
            if let Err(error) = entry.subserver.submit(follower) {
                tracing::debug!(%error, "an answer to the same prompt is not put in line");
            }
        }
    }

    fn enter(&mut self, session: Session) -> Result<(), Fault> {
        let position = self.journey.position();
        let role = self.session.insert(session).enter(position)?;
        Ok(self.journey.enter(role)?)
    }

    fn is_slow(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.lane() == Lane::Own)
    }

    fn route(&mut self, step: &Step) -> Result<Consult, Fault> {
        let position = self.journey.position();
        let Some(session) = self.session.as_mut() else { return Ok(Consult::Settled(self.journey.stay())) };
        let decision = session.route(position, step)?;
        let hands_off = matches!(decision, Decision::Handoff(_)) && step.role == Role::ENTRY;
        self.handoffs += u64::from(hands_off);
        self.journey.decide(decision, |handoff| Ok(session.send(position, handoff)?))
    }

    fn receive(&mut self, offer: &Offer) -> Result<Consult, Fault> {
        let position = self.journey.position();
        let accept = match self.session.as_mut() {
            Some(session) => session.receive(position, offer)?,
            None => Accept::Take(offer.tokens.len()),
        };
        Ok(self.journey.accept(accept)?)
    }

    /// From here on the journey is without a policy; nobody else is touched.
    fn fall_back(&mut self, fault: &Fault) -> Effect {
        self.span.in_scope(|| {
            tracing::warn!(journey = %self.id(), route = self.route.name, %fault, "policy failed; falling back");
        });
        self.metrics.policy_failed();
        self.witness.fell_back();
        self.tell(Event::FellBack { fault: fault.to_string() });
        let revision = self.session.as_ref().map(|session| &**session.revision());
        let effect = self.journey.fall_back(self.route.fallback(revision));
        if let Some(session) = self.session.take() {
            session.fell_back();
            self.lane.end(session, &self.place);
        }
        effect
    }

    /// The channel holds a whole answer, so it is full only if that promise is broken; a closed one means that the
    /// client has gone, which the decode loop looks for before every step.
    fn tell(&self, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.client.try_send(event) {
            tracing::error!(journey = %self.id(), "an answer outgrew its channel; please report this");
        }
    }
}

impl Drop for Traveller {
    fn drop(&mut self) {
        // Without a last word: its client has gone, or it was lost.
        self.witness.end(if self.is_gone() { Ended::Cancelled } else { Ended::Failed });
        if let Some(session) = self.session.take() {
            self.lane.end(session, &self.place);
        }
    }
}
