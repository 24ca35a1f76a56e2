//! The state machine of one request.
//!
//! One sequence S is committed; every model has an *anchor*, the length of the prefix of S that its KV holds. A step
//! at a model first feeds S from its anchor, then samples. The sampled token is *held*: it enters S only when the
//! policy, or a bounded run, lets it. Handing off moves nothing but the name of the model whose turn it is, so it
//! costs the same at any length of S.

use crate::adjust::Adjust;
use crate::decision::{Accept, Handoff, Offer, Parcel};
use crate::history::History;
use crate::ids::{JourneyId, Role};
use crate::outcome::{Consult, Effect, FinishReason, Made, Proposal, Refused};
use crate::random::{Purpose, uniform};
use crate::request::{Request, Routing};
use crate::step::{Draw, Sampled, Step};
use crate::text::TextStream;

/// A bounded run at another model.
#[derive(Clone, Copy, Debug)]
struct Visit {
    back_to: Role,
    left: u32,
}

/// One request's life across models.
#[derive(Debug)]
pub struct Journey {
    id: JourneyId,
    request: Request,
    /// S, then the draft of a visit that waits for `receive`. Everything here has been or will be fed.
    history: History,
    /// Length of S.
    committed: usize,
    /// By role: the length of the prefix of `history` in that model's KV.
    anchors: Vec<usize>,
    here: Role,
    visit: Option<Visit>,
    /// Tokens committed since the journey came here.
    run: u32,
    /// Handoffs since the last committed token.
    hops: u32,
    held: Option<Sampled>,
    output: Output,
}

/// What has been made and not yet been collected.
#[derive(Debug)]
struct Output {
    text: TextStream,
    ready: Vec<Made>,
    /// Tokens of a visit, beyond S, that wait for `receive`.
    draft: Vec<Made>,
    proposal: Option<Proposal>,
}

impl Journey {
    /// A journey at the entry model, with nothing fed.
    #[must_use]
    pub fn new(id: JourneyId, request: Request) -> Self {
        let output = Output {
            text: TextStream::new(request.ends.strings.clone()),
            ready: Vec::new(),
            draft: Vec::new(),
            proposal: None,
        };
        Self {
            id,
            history: History::new(&request.prompt, request.adjustments.penalise()),
            committed: request.prompt.len(),
            anchors: vec![0; request.roles],
            here: Role::ENTRY,
            visit: None,
            run: 0,
            hops: 0,
            held: None,
            output,
            request,
        }
    }

    /// Records that the engine fed the next `count` tokens of [`Self::pending`] to the model here.
    pub fn fed(&mut self, count: usize) {
        let anchor = self.pending().0 + count;
        debug_assert!(anchor <= self.length(), "fed more than was pending");
        self.anchors[self.here.index()] = anchor;
    }

    /// Takes the token sampled after everything pending was fed.
    pub fn hold(&mut self, sampled: Sampled) -> Consult {
        if let Some(visit) = self.visit {
            return Consult::Settled(self.advance_visit(visit, sampled));
        }
        if self.request.routing == Routing::Single {
            return Consult::Settled(self.commit_and(Effect::Decode, sampled));
        }
        let step = Step {
            index: (self.committed - self.request.prompt.len()) as u32,
            run: self.run,
            role: self.here,
            at_eos: self.request.ends.tokens.contains(&sampled.token),
            sampled: sampled.clone(),
        };
        self.held = Some(sampled);
        Consult::Route(step)
    }

    /// The policy keeps the held token and the model.
    pub fn stay(&mut self) -> Effect {
        self.commit_held(Effect::Decode)
    }

    /// The policy keeps the held token and ends the answer.
    pub fn finish(&mut self) -> Effect {
        let effect = self.commit_held(Effect::Finish(FinishReason::Stop));
        self.flush();
        effect
    }

    /// The policy hands the journey to another model.
    ///
    /// # Errors
    /// [`Refused`] when the handoff cannot be followed; the held token is then still held.
    pub fn hand_off(&mut self, handoff: Handoff, parcel: Parcel) -> Result<Effect, Refused> {
        let Handoff { to, run } = handoff;
        if to.index() >= self.request.roles {
            return Err(Refused::UnknownRole(to, self.request.roles));
        }
        if to == self.here {
            return Err(Refused::SameModel(to));
        }
        if self.hops >= HOPS_WITHOUT_PROGRESS_MAX && !parcel.keep_held {
            return Err(Refused::NoProgress(self.hops));
        }
        let back_to = self.here;
        if parcel.keep_held {
            if let end @ Effect::Finish(_) = self.commit_held(Effect::Decode) {
                return Ok(end);
            }
        } else if let Some(held) = self.held.take() {
            self.output.proposal =
                Some(Proposal { by: back_to, token: held.token, entropy: held.signals.entropy });
        }
        self.visit = run.map(|left| Visit { back_to, left: left.get() });
        Ok(self.leave(to))
    }

    /// What `receive` must be shown before the journey decodes on, if a visit brought tokens that wait for it.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        let draft = &self.output.draft;
        let first = draft.first().filter(|_| self.visit.is_none())?;
        Some(Offer {
            from: first.by,
            tokens: draft.iter().map(|made| made.sampled.token).collect(),
            logprobs: draft.iter().map(|made| made.sampled.logprob).collect(),
        })
    }

    /// `receive` has judged the offer: commits what it takes, drops the rest in every model's KV.
    ///
    /// # Errors
    /// [`Refused::TakesTooMany`]; the offer then still stands.
    pub fn accept(&mut self, accept: Accept) -> Result<Effect, Refused> {
        let offered = self.output.draft.len();
        if accept.take > offered {
            return Err(Refused::TakesTooMany(accept.take, offered));
        }
        let mut effect = Effect::Decode;
        let draft = std::mem::take(&mut self.output.draft);
        for made in draft.into_iter().take(accept.take) {
            effect = self.commit_made(made, Effect::Decode);
            if effect != Effect::Decode {
                break;
            }
        }
        self.drop_draft();
        self.run = 0;
        Ok(effect)
    }

    /// The policy failed: this journey goes on without it, at the route's fallback model. A held token is kept.
    pub fn fall_back(&mut self, to: Role) -> Effect {
        self.request.routing = Routing::Single;
        self.visit = None;
        let take = self.output.draft.len();
        let kept = match self.held.take() {
            Some(sampled) => self.commit_and(Effect::Decode, sampled),
            None => self.accept(Accept { take }).unwrap_or(Effect::Decode),
        };
        match kept {
            Effect::Decode if to != self.here => self.leave(to),
            other => other,
        }
    }

    /// The model here holds no more than the first so many positions; the others are fed again.
    pub fn holds(&mut self, positions: usize) {
        let anchor = &mut self.anchors[self.here.index()];
        *anchor = positions.min(*anchor);
    }

    /// The tokens made since the last call, in order.
    pub fn take_output(&mut self) -> Vec<Made> {
        std::mem::take(&mut self.output.ready)
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

    /// What the model here must be fed before it can sample: the position of the first token, and the tokens.
    ///
    /// Never empty: a model that has seen everything, and whose proposal was dropped without a replacement, is fed
    /// the last token once more, for its logits are gone.
    #[must_use]
    pub fn pending(&self) -> (usize, &[u32]) {
        let from = self.anchors[self.here.index()].min(self.length() - 1);
        (from, &self.history.tokens()[from..])
    }

    /// How the token after everything pending is chosen.
    #[must_use]
    pub fn draw(&self) -> Draw<'_> {
        let uniform = uniform(self.request.seed, self.position(), Purpose::Sample, 0);
        Draw {
            adjust: self.adjust(),
            candidates: self.request.candidates,
            ..Draw::new(self.request.sampling, uniform)
        }
    }

    /// The index in the sequence of the token that is decided next; keys the policy's randomness.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.length() as u64
    }

    /// Tokens that are left of a visit of bounded length; `None` where nobody knows when the journey leaves.
    #[must_use]
    pub fn visit_left(&self) -> Option<u32> {
        self.visit.map(|visit| visit.left)
    }

    /// The models whose KV holds something of this journey.
    pub fn visited(&self) -> impl Iterator<Item = Role> + '_ {
        self.anchors.iter().enumerate().filter(|(_, anchor)| **anchor > 0).map(|(ix, _)| Role(ix as u16))
    }

    fn advance_visit(&mut self, visit: Visit, sampled: Sampled) -> Effect {
        let left = visit.left - 1;
        self.visit = (left > 0).then_some(Visit { left, ..visit });
        let next = if left > 0 { Effect::Decode } else { Effect::Leave { to: visit.back_to } };
        let effect = if self.request.routing == (Routing::Policy { holds_visits: true }) {
            self.draft(sampled, next, visit)
        } else {
            self.commit_and(next, sampled)
        };
        match effect {
            Effect::Leave { to } => self.leave(to),
            other => other,
        }
    }

    /// Adds a token beyond S. A visit ends early where the answer would end if everything were accepted.
    fn draft(&mut self, sampled: Sampled, next: Effect, visit: Visit) -> Effect {
        let ends = self.request.ends.tokens.contains(&sampled.token);
        self.history.push(sampled.token);
        let made = self.made(sampled);
        self.output.draft.push(made);
        if ends || self.out_of_room(self.length()) {
            self.visit = None;
            return Effect::Leave { to: visit.back_to };
        }
        next
    }

    fn leave(&mut self, to: Role) -> Effect {
        self.here = to;
        self.run = 0;
        self.hops += 1;
        Effect::Leave { to }
    }

    fn commit_held(&mut self, next: Effect) -> Effect {
        match self.held.take() {
            Some(sampled) => self.commit_and(next, sampled),
            None => next,
        }
    }

    fn commit_and(&mut self, next: Effect, sampled: Sampled) -> Effect {
        let made = self.made(sampled);
        self.history.push(made.sampled.token);
        self.commit_made(made, next)
    }

    /// Moves the end of S over one token of `history`. `next` unless the answer ends with it.
    fn commit_made(&mut self, mut made: Made, next: Effect) -> Effect {
        let token = made.sampled.token;
        debug_assert_eq!(self.history.tokens()[self.committed], token, "S and what is committed differ");
        self.committed += 1;
        self.run += 1;
        self.hops = 0;
        // It has been judged; what waits for a slow client must be small.
        made.sampled.kept = None;
        let ends = self.request.ends.tokens.contains(&token);
        let bytes: &[u8] = if ends { &[] } else { self.request.vocabulary.bytes(token) };
        made.text = self.output.text.push(bytes);
        self.output.ready.push(made);
        let reason = if self.output.text.stopped() || ends {
            FinishReason::Stop
        } else if self.out_of_room(self.committed) {
            FinishReason::Length
        } else {
            return next;
        };
        self.flush();
        Effect::Finish(reason)
    }

    fn made(&mut self, sampled: Sampled) -> Made {
        Made { by: self.here, sampled, text: String::new(), proposal: self.output.proposal.take() }
    }

    fn adjust(&self) -> Option<Adjust<'_>> {
        let Request { adjustments: wishes, ends, prompt, .. } = &self.request;
        let too_short = self.length() - prompt.len() < ends.tokens_min;
        let barred: &[u32] = if too_short { &ends.tokens } else { &[] };
        let adjust = Adjust { tally: self.history.tally(), barred, ..Adjust::new(wishes) };
        (wishes.change() || too_short).then_some(adjust)
    }

    /// Of `history`.
    fn length(&self) -> usize {
        self.history.tokens().len()
    }

    fn out_of_room(&self, length: usize) -> bool {
        let answer = length - self.request.prompt.len();
        answer >= self.request.max_tokens || length >= self.request.context
    }

    /// Shows text that was withheld in case a stop string came.
    fn flush(&mut self) {
        let rest = self.output.text.finish();
        if let Some(last) = self.output.ready.last_mut() {
            last.text.push_str(&rest);
        }
    }

    fn drop_draft(&mut self) {
        self.history.truncate(self.committed);
        for anchor in &mut self.anchors {
            *anchor = (*anchor).min(self.committed);
        }
    }
}

/// A policy that moves a journey this often without letting a token be committed is refused: it would never end.
const HOPS_WITHOUT_PROGRESS_MAX: u32 = 16;
