//! What one answer did, gathered while it is made and told once, when it is over.
//!
//! A witness travels with its journey, as its bill does, so no way out can be forgotten. It sees tokens where they are
//! committed and not where they are read: a client that reads slowly says nothing of the models. Nobody else is concerned
//! before the end, so a token costs one look at the clock and a number in a list; an answer that nobody watches costs
//! neither. The answer's trace, if there is one, is kept on the way.

use std::fmt;
use std::time::Instant;

use experiment::tally::{Ended, Usage};
use journey::{Considered, FinishReason, Role};

use super::answer::Event;
use crate::telemetry::Journal;

/// What an answer did.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// How it ended.
    pub ended: Ended,
    /// Whether it went on without its policy.
    pub fell_back: bool,
    /// Seconds from its acceptance to its first token, if there was one.
    pub ttft_s: Option<f64>,
    /// Seconds between its tokens. Tokens that a visit to another model brought come together: between them is nothing.
    pub gaps_s: Vec<f64>,
    /// Tokens by role: of the prompt, where the role made any of the answer, and of the answer.
    pub usage: Vec<Usage>,
    /// Tokens of the entry model at which the route was open, if they were wanted and the answer is whole.
    pub considered: Vec<Considered>,
}

/// Watches an answer for whoever wants to know, if anybody does.
#[derive(Default)]
pub struct Witness {
    watching: Option<Box<Watching>>,
    journal: Journal,
}

struct Watching {
    told: Box<dyn FnOnce(Course) + Send>,
    /// When the request came.
    came: Instant,
    last: Instant,
    /// Tokens of the prompt, once there is a journey. What never became one is no answer, and is not told.
    prompt: Option<u64>,
    fell_back: bool,
    ttft_s: Option<f64>,
    gaps_s: Vec<f64>,
    made: Vec<u64>,
    /// None where nobody wants them.
    considered: Option<Vec<Considered>>,
}

impl Witness {
    /// A witness of a request that has come now, for a route of so many models.
    #[must_use]
    pub fn of(roles: usize, told: impl FnOnce(Course) + Send + 'static) -> Self {
        let now = Instant::now();
        let watching = Some(Box::new(Watching {
            told: Box::new(told),
            came: now,
            last: now,
            prompt: None,
            fell_back: false,
            ttft_s: None,
            gaps_s: Vec::new(),
            made: vec![0; roles],
            considered: None,
        }));
        Self { watching, journal: Journal::default() }
    }

    /// One that keeps this journal, too.
    #[must_use]
    pub fn with_journal(self, journal: Journal) -> Self {
        Self { journal, ..self }
    }

    /// One that also wants the tokens of the entry model at which the route is open.
    #[must_use]
    pub fn with_considered(mut self) -> Self {
        if let Some(watching) = &mut self.watching {
            watching.considered = Some(Vec::new());
        }
        self
    }

    pub(super) fn wants_considered(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.considered.is_some())
    }

    /// The tokens at which the route was open.
    pub(super) fn considered(&mut self, considered: Vec<Considered>) {
        if let Some(wanted) = self.watching.as_mut().and_then(|watching| watching.considered.as_mut()) {
            *wanted = considered;
        }
    }

    /// The request has become a journey.
    pub(super) fn begins(&mut self, prompt_tokens: usize) {
        if let Some(watching) = &mut self.watching {
            watching.prompt = Some(prompt_tokens as u64);
        }
    }

    /// Tokens were committed, all at this moment, by these roles.
    pub(super) fn made(&mut self, by: impl Iterator<Item = Role> + Clone) {
        self.journal.made(by.clone());
        let Some(watching) = &mut self.watching else { return };
        let mut now = None;
        for role in by {
            watching.count(role, *now.get_or_insert_with(Instant::now));
        }
    }

    /// The answer goes on without its policy.
    pub(super) fn fell_back(&mut self) {
        if let Some(watching) = &mut self.watching {
            watching.fell_back = true;
        }
    }

    /// It goes from one model to another, at this position.
    pub(super) fn handed_off(&mut self, from: Role, to: Role, position: u64) {
        self.journal.handed_off(from, to, position);
    }

    /// The answer is over. Only the first word counts.
    pub(super) fn end(&mut self, ended: Ended) {
        self.journal.end(ended);
        if let Some(watching) = self.watching.take() {
            watching.tell(ended);
        }
    }
}

impl Watching {
    fn count(&mut self, role: Role, now: Instant) {
        if let Some(made) = self.made.get_mut(role.index()) {
            *made += 1;
        }
        match self.ttft_s {
            None => self.ttft_s = Some(now.saturating_duration_since(self.came).as_secs_f64()),
            Some(_) => self.gaps_s.push(now.saturating_duration_since(self.last).as_secs_f64()),
        }
        self.last = now;
    }

    fn tell(self, ended: Ended) {
        let Self { told, prompt: Some(prompt), fell_back, ttft_s, gaps_s, made, considered, .. } = self
        else {
            return;
        };
        let usage = |completion: u64| Usage { prompt: if completion > 0 { prompt } else { 0 }, completion };
        let usage = made.into_iter().map(usage).collect();
        let considered = considered.unwrap_or_default();
        told(Course { ended, fell_back, ttft_s, gaps_s, usage, considered });
    }
}

/// How an answer ended, by its last word.
pub(super) fn ended(last: &Event) -> Ended {
    match last {
        Event::Finished(FinishReason::Stop) => Ended::Stop,
        Event::Finished(FinishReason::Length) => Ended::Length,
        Event::Failed { .. } | Event::Scored(_) | Event::Made(_) | Event::FellBack { .. } => Ended::Failed,
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.watching.is_some() { "Witness(of an answer)" } else { "Witness(of nothing)" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn watched() -> (Witness, mpsc::Receiver<Course>) {
        let (told, tells) = mpsc::channel();
        (Witness::of(2, move |course| told.send(course).unwrap()), tells)
    }

    #[test]
    fn an_answer_is_told_once_with_what_was_made() {
        let (mut witness, tells) = watched();
        witness.begins(7);
        witness.made([Role::ENTRY, Role::ENTRY].into_iter());
        witness.made([Role(1)].into_iter());
        witness.fell_back();
        witness.end(Ended::Stop);
        witness.end(Ended::Failed);
        drop(witness);
        let [course] = &tells.try_iter().collect::<Vec<_>>()[..] else { panic!("told once") };
        assert_eq!((course.ended, course.fell_back, course.gaps_s.len()), (Ended::Stop, true, 2));
        assert!(course.ttft_s.is_some() && course.gaps_s[0] == 0.0, "two tokens of one step come together");
        assert_eq!(course.usage, [Usage { prompt: 7, completion: 2 }, Usage { prompt: 7, completion: 1 }]);
    }

    #[test]
    fn what_never_became_a_journey_is_no_answer() {
        let (mut witness, tells) = watched();
        witness.end(Ended::Failed);
        assert_eq!(tells.try_iter().count(), 0);
    }
}
