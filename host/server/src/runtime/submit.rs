//! From a request in tokens to journeys in line.
//!
//! A request may want several answers. All of them are taken or none, they share one reading of the policy in force, and
//! their prompt is computed once: of those that continue the same prompt the first goes ahead, and the others follow when
//! it is fed, so that they find it in the prefix cache.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use journey::{Encode, JourneyId, Request, Routing, Rules};
use policy::{Revision, Settings};
use tokio::sync::mpsc;
use tracing::Span;

use super::Runtime;
use super::answer::{self, Answer, Ask, SubmitError};
use super::bill::Bill;
use super::catalog::Selected;
use super::subserver::Submission;
use super::witness::Witness;
use crate::telemetry::Stopwatch;

/// One answer that is wanted, and those who are told when it is over.
#[derive(Debug)]
pub struct Choice {
    /// What is asked for.
    pub ask: Ask,
    /// Told what was used.
    pub bill: Bill,
    /// Told what it did.
    pub witness: Witness,
}

/// Which of the prompts of a request the runtime does not take, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotTaken {
    /// Index of the prompt.
    pub prompt: usize,
    /// What is in the way.
    #[source]
    pub error: SubmitError,
}

impl Runtime {
    /// Puts a request in line.
    ///
    /// # Errors
    /// [`SubmitError`] if it cannot be answered as asked or there is no room in line.
    pub fn submit(&self, selected: &Selected, ask: Ask) -> Result<Answer, SubmitError> {
        let choice = Choice { ask, bill: Bill::default(), witness: Witness::default() };
        let mut answers =
            self.submit_all(selected, vec![vec![choice]]).map_err(|not_taken| not_taken.error)?;
        Ok(answers.pop().expect("one for each choice"))
    }

    /// Puts a request in line that wants several answers: by prompt, those that continue it. The answers come in the same
    /// order.
    ///
    /// # Errors
    /// The first that cannot be answered as asked, or has no room in line. Nothing is in line then: every bill is settled with
    /// nothing, every witness has seen nothing.
    pub fn submit_all(
        &self,
        selected: &Selected,
        prompts: Vec<Vec<Choice>>,
    ) -> Result<Vec<Answer>, NotTaken> {
        let decider = decider(selected).map_err(|error| NotTaken { prompt: 0, error })?;
        let (mut answers, mut leaders) = (Vec::new(), Vec::new());
        for (prompt, choices) in prompts.into_iter().enumerate() {
            let mut submissions = Vec::with_capacity(choices.len());
            for choice in choices {
                let made = self.submission(selected, decider.as_ref(), choice);
                let (submission, answer) = made.map_err(|error| NotTaken { prompt, error })?;
                submissions.push(submission);
                answers.push(answer);
            }
            let mut submissions = submissions.into_iter();
            leaders.extend(submissions.next().map(|leader| leader.followed_by(submissions)));
        }
        let entry = &selected.route.by_role[0].subserver;
        for (prompt, leader) in leaders.into_iter().enumerate() {
            // It fails only while shutting down: room in line was counted above.
            entry.submit(leader).map_err(|error| NotTaken { prompt, error })?;
        }
        Ok(answers)
    }

    fn submission(
        &self,
        selected: &Selected,
        decider: Option<&(Arc<Revision>, Settings)>,
        choice: Choice,
    ) -> Result<(Submission, Answer), SubmitError> {
        if self.draining.load(Ordering::Acquire) {
            return Err(SubmitError::Draining);
        }
        let Choice { mut ask, bill, witness } = choice;
        let route = &selected.route;
        let max_tokens = answer::room(&ask, route.context)?;
        let id = JourneyId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (revision, settings) = decider.cloned().unzip();
        let routing = decider.map_or(Routing::Single, |(revision, settings)| {
            let considered = witness.wants_considered();
            Routing::Policy(Arc::new(Rules { considered, ..route.rules(revision.descriptor(), settings) }))
        });
        let wanted = revision.as_ref().map_or(0, |revision| revision.descriptor().candidates);
        let ends = answer::ends(&mut ask, &route.eos);
        let translations = answer::translations(&mut ask, route)?;
        let request = Request {
            prompt: ask.prompt,
            sampling: ask.sampling,
            adjustments: ask.adjustments,
            seed: ask.seed,
            ends,
            grammar: ask.grammar,
            max_tokens,
            context: route.context,
            score_prompt: ask.score_prompt,
            vocabulary: route.tokenizer.vocabulary(),
            candidates: ask.candidates.max(wanted),
            roles: route.models.len(),
            routing,
            encoder: Arc::clone(&route.tokenizer) as Arc<dyn Encode>,
        };
        // Room for the whole answer: a slow reader never holds up a batch, and what it leaves unread is bounded by
        // its own `max_tokens`. The channel allocates as it fills.
        let (client, events) = mpsc::channel(max_tokens + EVENTS_BESIDE_TOKENS);
        let submission = Submission {
            waiting: route.by_role[0].subserver.wait_in_line(&self.metrics)?,
            id,
            behalf: ask.behalf,
            told: (bill, witness),
            stopwatch: Stopwatch::start(),
            span: Span::current(),
            request,
            translations,
            route: Arc::clone(route),
            decider: decider.cloned(),
            client,
            accepted: self.accepted.token(),
            counts_prompt: true,
            followers: Vec::new(),
        };
        Ok((submission, Answer { id, route: Arc::clone(route), revision, settings, events }))
    }
}

impl Submission {
    /// With those that continue the same prompt: its tokens are counted once.
    fn followed_by(self, others: impl Iterator<Item = Self>) -> Self {
        let follower = |other| Self { counts_prompt: false, ..other };
        Self { followers: others.map(follower).collect(), ..self }
    }
}

/// The policy revision that decides for a request, with its checked settings; none for a single model.
fn decider(selected: &Selected) -> Result<Option<(Arc<Revision>, Settings)>, SubmitError> {
    let Selected { route, overrides } = selected;
    let Some(revision) = route.policy_revision() else {
        return match overrides.keys().next() {
            None => Ok(None),
            Some(key) => {
                let name = &route.name;
                Err(SubmitError::Setting(format!("{name:?} has no policy, so no setting {key:?}")))
            }
        };
    };
    let settings = route.resolved(overrides, &revision).map_err(SubmitError::Setting)?;
    Ok(Some((revision, settings)))
}

/// The end of an answer, a policy's failure, and the scores of the prompt.
const EVENTS_BESIDE_TOKENS: usize = 5;
