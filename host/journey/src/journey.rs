//! The state machine of one request.
//!
//! One sequence S is committed; every model has an *anchor*, the length of the prefix of S that its KV holds. A step
//! at a model first feeds S from its anchor, then samples. The sampled token is *held*: it enters S only when the
//! policy, or a visit, lets it. Handing off moves nothing but the name of the model whose turn it is, so it costs the
//! same at any length of S.
//!
//! What happens at one model and with one token is here. Beside it: `commit` (the end of S), `visiting` (visits and
//! offers), `asking` (questions and mixtures), `verifying` (drafts judged in one step), `rewriting`, `scoring` (of the
//! prompt), `drawing` (what is drawn where), `constraining` (the grammar), `output` (what the client sees).

mod asking;
mod commit;
mod considering;
mod constraining;
mod drawing;
mod guarding;
mod output;
mod rewriting;
mod scoring;
mod verifying;
mod visiting;

use crate::decision::{Decision, Handoff, Parcel};
use crate::history::History;
use crate::ids::{JourneyId, Role};
use crate::outcome::{Considered, Consult, Effect, FinishReason, Fired, Made, Proposal, Refused};
use crate::question::Answer;
use crate::request::{Request, Routing, Rules};
use crate::step::{Sampled, Step};

use asking::Errand;
use constraining::Constraint;
use output::Output;
use scoring::Scoring;
use verifying::Verification;
use visiting::Visit;

/// One request's life across models.
#[derive(Debug)]
pub struct Journey {
    id: JourneyId,
    request: Request,
    /// S; then the draft of a visit that waits for `receive`; then what an errand adds. Everything here has been or will be
    /// fed.
    history: History,
    /// Length of S.
    committed: usize,
    /// By role: the length of the prefix of `history` in that model's KV.
    anchors: Vec<usize>,
    here: Role,
    visit: Option<Visit>,
    errand: Option<Box<Errand>>,
    verification: Option<Box<Verification>>,
    /// While the prompt is being scored.
    scoring: Option<Box<Scoring>>,
    /// The scores, until they are taken.
    scored: Option<Vec<Sampled>>,
    /// What the grammar says, if there is one.
    constraint: Option<Box<Constraint>>,
    /// Tokens committed since the journey came here.
    run: u32,
    /// Handoffs, and questions, since the last committed token.
    hops: u32,
    /// See [`Rules::observe`].
    observed: Vec<f32>,
    /// See [`Rules::considered`].
    considered: Vec<Considered>,
    /// Tokens ever committed, dropped ones included.
    commits: usize,
    /// A token that waits for the policy.
    held: Option<Sampled>,
    /// To the last question, until `route` or `receive` has answered.
    answers: Vec<Answer>,
    /// Whether the last question was asked with the held token, or the offer, before it.
    asked_with_held: bool,
    output: Output,
}

impl Journey {
    /// A journey at the entry model, with nothing fed.
    #[must_use]
    pub fn new(id: JourneyId, request: Request) -> Self {
        let holdback = request.rules().map_or(0, |rules| rules.holdback);
        let constraint = request.grammar.as_deref();
        let constraint = constraint.map(|grammar| Box::new(Constraint::new(grammar, request.prompt.len())));
        Self {
            id,
            history: History::new(&request.prompt, request.adjustments.penalise()),
            committed: request.prompt.len(),
            anchors: vec![0; request.roles],
            here: Role::ENTRY,
            visit: None,
            errand: None,
            verification: None,
            // Of a prompt of one token there is nothing to score.
            scored: (request.score_prompt && request.prompt.len() == 1).then(Vec::new),
            scoring: Scoring::of(&request),
            constraint,
            run: 0,
            hops: 0,
            observed: Vec::new(),
            considered: Vec::new(),
            commits: 0,
            held: None,
            answers: Vec::new(),
            asked_with_held: false,
            output: Output::new(request.ends.strings.clone(), holdback),
            request,
        }
    }

    /// Begins at another model than the entry, before anything is fed.
    ///
    /// # Errors
    /// [`Refused::UnknownRole`].
    pub fn enter(&mut self, role: Role) -> Result<(), Refused> {
        if role.index() >= self.request.roles {
            return Err(Refused::UnknownRole(role, self.request.roles));
        }
        self.here = role;
        Ok(())
    }

    /// Records that the engine fed the next `count` tokens of [`Self::pending`] to the model here.
    pub fn fed(&mut self, count: usize) {
        let anchor = self.pending().0 + count;
        debug_assert!(anchor <= self.length(), "fed more than was pending");
        self.anchors[self.here.index()] = anchor;
    }

    /// Takes the next token drawn, in the order of [`Self::wanted`]; first tell what was [`fed`](Self::fed).
    pub fn hold(&mut self, mut sampled: Sampled) -> Consult {
        if !sampled.scores.is_empty() {
            let of_model = std::mem::take(&mut sampled.scores);
            let seen = self.request.rules().map_or(&[][..], |rules| rules.scores_of(self.here));
            sampled.scores = seen.iter().filter_map(|&score| of_model.get(score).copied()).collect();
        }
        if self.errand.is_some() {
            return self.hear(sampled);
        }
        if self.scoring.is_some() {
            return self.score(sampled);
        }
        if self.request.max_tokens == 0 {
            return Consult::Settled(self.end(FinishReason::Length));
        }
        if self.verification.is_some() {
            return self.judge(sampled);
        }
        if self.visit.is_some() {
            return Consult::Settled(self.advance_visit(sampled));
        }
        self.consider(sampled)
    }

    /// What follows from coming to a model: the policy may wait for what the journey brings.
    #[must_use]
    pub fn arrive(&mut self) -> Consult {
        if self.errand.is_some() {
            return self.come_home();
        }
        match self.offer() {
            Some(offer) => Consult::Receive(offer),
            None => Consult::Settled(Effect::Decode),
        }
    }

    /// Does what `route` has decided. `send` is asked at a handoff.
    ///
    /// # Errors
    /// What `send` answers, or [`Refused`] for what cannot be followed; the held token is then still held.
    pub fn decide<E: From<Refused>>(
        &mut self,
        decision: Decision,
        send: impl FnOnce(&Handoff) -> Result<Parcel, E>,
    ) -> Result<Consult, E> {
        let effect = match decision {
            Decision::Stay => self.stay(),
            Decision::Finish => self.finish()?,
            Decision::Handoff(handoff) => {
                let parcel = send(&handoff)?;
                self.hand_off(handoff, parcel)?
            }
            Decision::Consult(question) => return Ok(self.consult(question)?),
            Decision::Mix(mixture) => return Ok(self.mix(mixture)?),
            Decision::Rewrite(rewrite) => self.rewrite(rewrite)?,
            Decision::Adopt(adoption) => self.adopt(adoption)?,
        };
        Ok(Consult::Settled(effect))
    }

    /// The policy keeps the held token and the model.
    pub fn stay(&mut self) -> Effect {
        self.commit_held(Effect::Decode)
    }

    /// The policy keeps the held token and ends the answer.
    ///
    /// # Errors
    /// [`Refused::AgainstGrammar`] where the answer must go on; the held token is then still held.
    pub fn finish(&mut self) -> Result<Effect, Refused> {
        let held: Vec<u32> = self.held.iter().map(|held| held.token).collect();
        if !self.may_force(0, &held, true) {
            return Err(Refused::AgainstGrammar);
        }
        Ok(match self.commit_held(Effect::Decode) {
            Effect::Decode => self.end(FinishReason::Stop),
            ended => ended,
        })
    }

    /// The policy hands the journey to another model.
    ///
    /// # Errors
    /// [`Refused`] when the handoff cannot be followed; the held token is then still held.
    pub fn hand_off(&mut self, handoff: Handoff, parcel: Parcel) -> Result<Effect, Refused> {
        self.check_handoff(&handoff)?;
        if self.hops >= HOPS_WITHOUT_PROGRESS_MAX && !parcel.keep_held {
            return Err(Refused::NoProgress(self.hops));
        }
        if parcel.keep_held {
            if let end @ Effect::Finish(_) = self.commit_held(Effect::Decode) {
                return Ok(end);
            }
        } else if let Some(sampled) = self.held.take() {
            self.output.proposal = Some(self.proposal(&sampled));
        }
        Ok(self.depart(handoff))
    }

    /// The policy failed: this journey goes on without it, at the route's fallback model. A held token is kept, and so
    /// is what a visit brought.
    pub fn fall_back(&mut self, to: Role) -> Effect {
        self.give_up_errand();
        self.verification = None;
        self.request.routing = Routing::Single;
        self.visit = None;
        let kept = match self.held.take() {
            Some(sampled) => self.commit_and(Effect::Decode, sampled),
            None => self.take_draft(usize::MAX),
        };
        match kept {
            Effect::Decode => match self.output.show_all() {
                Some(reason) => self.end(reason),
                None if to != self.here => self.leave(to),
                None => Effect::Decode,
            },
            other => other,
        }
    }

    /// The model here holds no more than the first so many positions; the others are fed again.
    pub fn holds(&mut self, positions: usize) {
        let anchor = &mut self.anchors[self.here.index()];
        *anchor = positions.min(*anchor);
    }

    /// The tokens that the client may see since the last call, in order.
    pub fn take_output(&mut self) -> Vec<Made> {
        self.output.take()
    }

    /// This journey's name.
    #[must_use]
    pub fn id(&self) -> JourneyId {
        self.id
    }

    /// What the client asked for.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The model whose turn it is.
    #[must_use]
    pub fn here(&self) -> Role {
        self.here
    }

    /// The index in the sequence of the token that is decided next; keys the policy's randomness.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.length() as u64
    }

    /// Length of S: it grows by one with each committed token.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Tokens that are left of a visit of bounded length; `None` where nobody knows when the journey leaves.
    #[must_use]
    pub fn visit_left(&self) -> Option<u32> {
        match &self.errand {
            Some(errand) => errand.left(),
            None => self.visit.as_ref().and_then(Visit::left),
        }
    }

    /// The models whose KV holds something of this journey.
    pub fn visited(&self) -> impl Iterator<Item = Role> + '_ {
        self.anchors.iter().enumerate().filter(|(_, anchor)| **anchor > 0).map(|(ix, _)| Role(ix as u16))
    }

    /// The values of [`Rules::observe`] since the last call.
    pub fn take_observed(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.observed)
    }

    /// Whether the policy must be asked about a token of its own model.
    fn consider(&mut self, sampled: Sampled) -> Consult {
        let observe = self.request.rules().and_then(|rules| rules.observe);
        if let Some((_, signal)) = observe.filter(|(role, _)| *role == self.here) {
            self.observed.push(signal.of(&sampled, self.request.vocabulary.len()));
        }
        self.note(&sampled);
        let Some(fired) = self.asks(&sampled) else {
            return Consult::Settled(self.commit_and(Effect::Decode, sampled));
        };
        let step = self.step(&sampled, fired, Vec::new());
        self.held = Some(sampled);
        Consult::Route(step)
    }

    /// What is told of a token that is dropped for another model's.
    fn proposal(&self, sampled: &Sampled) -> Proposal {
        let value = |guard: u32| {
            let trigger = &self.request.rules()?.guards.get(guard as usize)?.fires;
            Some(trigger.signal()?.of(sampled, self.request.vocabulary.len()))
        };
        let fired = self.asks(sampled).flatten().map(|guard| Fired { guard, value: value(guard) });
        Proposal { by: self.here, token: sampled.token, signals: sampled.signals, fired }
    }

    fn step(&self, sampled: &Sampled, fired: Option<u32>, answers: Vec<Answer>) -> Step {
        let tail = self.request.rules().map_or(0, |rules| rules.tail);
        Step {
            index: (self.committed - self.request.prompt.len()) as u32,
            run: self.run,
            role: self.here,
            at_eos: self.request.ends.tokens.contains(&sampled.token),
            fired,
            sampled: sampled.clone(),
            tail: if tail == 0 { String::new() } else { self.tail(tail) },
            answers,
        }
    }

    /// The committed tokens of the answer.
    fn answer(&self) -> &[u32] {
        &self.history.tokens()[self.request.prompt.len()..self.committed]
    }

    fn leave(&mut self, to: Role) -> Effect {
        self.here = to;
        self.run = 0;
        self.hops += 1;
        Effect::Leave { to }
    }

    /// Of `history`.
    fn length(&self) -> usize {
        self.history.tokens().len()
    }

    /// Cuts `history`, and with it what every model holds of it.
    fn cut(&mut self, length: usize) {
        self.history.truncate(length);
        if let Some(constraint) = &mut self.constraint {
            constraint.cut(length);
        }
        for anchor in &mut self.anchors {
            *anchor = (*anchor).min(length);
        }
    }

    fn rules_need(&self, need: impl Fn(&Rules) -> bool) -> bool {
        self.request.rules().is_some_and(need)
    }
}

/// A policy that moves a journey this often without letting a token be committed is refused: it would never end.
const HOPS_WITHOUT_PROGRESS_MAX: u32 = 16;
