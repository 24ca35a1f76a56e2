//! What a session was shown, so that it can be restored.
//!
//! A call that fails poisons its whole instance, and with it the memory of sessions that did nothing wrong. A policy's
//! answers depend on its settings, on what it is shown and on numbers drawn by position, on nothing else, so the same
//! calls in a new instance lead to the same state: cheaper than to ask every policy for code that saves and restores, and
//! exact. A compiled guest makes a thousand calls again in a fraction of a millisecond.
//!
//! Both the memory of a record and the fuel of a restoration are bounded. A session beyond either begins anew, its state
//! lost and its record empty: it still answers, and it is counted as restarted.

use std::mem::size_of;

use journey::{Answer, Candidate, Condition, Draft, Found, Handoff, Judgement, Offer, Sampled, Step};

use crate::error::PolicyError;
use crate::wasm::Guest;

/// A call that was answered.
#[derive(Debug)]
pub(crate) enum Input {
    Enter { position: u64 },
    Route { position: u64, step: Step },
    Send { position: u64, handoff: Handoff },
    Receive { position: u64, offer: Offer },
}

/// The calls of one session from its beginning.
#[derive(Debug)]
pub(crate) struct Record {
    inputs: Vec<Input>,
    bytes: usize,
    bytes_most: usize,
    /// Whether there are no calls but these.
    whole: bool,
}

impl Input {
    pub(crate) fn route(position: u64, step: &Step) -> Self {
        let mut step = step.clone();
        // The policy sees nothing of it, and it is as large as the vocabulary.
        step.sampled.kept = None;
        Self::Route { position, step }
    }

    /// Makes the call again.
    pub(crate) fn replay(&self, guest: &mut Guest) -> Result<(), PolicyError> {
        match self {
            Self::Enter { position } => guest.enter(*position).map(drop),
            Self::Route { position, step } => guest.route(*position, step).map(drop),
            Self::Send { position, handoff } => guest.send(*position, handoff).map(drop),
            Self::Receive { position, offer } => guest.receive(*position, offer).map(drop),
        }
    }

    fn bytes(&self) -> usize {
        let lists = match self {
            Self::Enter { .. } => 0,
            Self::Route { step, .. } => {
                let Sampled { candidates, logprobs, scores, .. } = &step.sampled;
                let numbers = (logprobs.len() + scores.len()) * size_of::<f32>();
                candidates.len() * size_of::<Candidate>()
                    + numbers
                    + step.tail.len()
                    + bytes_of(&step.answers)
            }
            Self::Send { handoff, .. } => handoff.until.len() * size_of::<Condition>(),
            Self::Receive { offer, .. } => {
                offer.tokens.len() * 8 + offer.text.len() + bytes_of(&offer.answers)
            }
        };
        size_of::<Self>() + lists
    }
}

fn bytes_of(answers: &[Answer]) -> usize {
    let draft = |draft: &Draft| draft.tokens.len() * 8 + draft.text.len() + size_of::<Draft>();
    let found = |answer: &Answer| match &answer.found {
        Found::Candidates(candidates) => candidates.len() * size_of::<Candidate>(),
        Found::Last(judged) => judged.len() * size_of::<Judgement>(),
        Found::Logprobs(numbers) | Found::Scores(numbers) => numbers.len() * size_of::<f32>(),
        Found::Drafts(drafts) => drafts.iter().map(draft).sum(),
        Found::Nothing => 0,
    };
    answers.iter().map(|answer| size_of::<Answer>() + found(answer)).sum()
}

impl Record {
    pub(crate) fn new(bytes_most: usize) -> Self {
        Self { inputs: Vec::new(), bytes: 0, bytes_most, whole: true }
    }

    /// Remembers a call, or lets everything go when there is too much.
    pub(crate) fn note(&mut self, input: impl FnOnce() -> Input) {
        if !self.whole {
            return;
        }
        let input = input();
        self.bytes += input.bytes();
        if self.bytes > self.bytes_most {
            (self.inputs, self.whole) = (Vec::new(), false);
            return;
        }
        self.inputs.push(input);
    }

    /// All calls, unless they were let go.
    pub(crate) fn inputs(&self) -> Option<&[Input]> {
        self.whole.then_some(&self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use journey::Role;

    use super::*;

    #[test]
    fn a_record_is_whole_or_nothing() {
        let send = || Input::Send { position: 1, handoff: Handoff::new(Role(1), None) };
        let mut record = Record::new(2 * size_of::<Input>());
        record.note(send);
        record.note(send);
        assert_eq!(record.inputs().map(<[_]>::len), Some(2));
        record.note(send);
        assert!(record.inputs().is_none());
        record.note(send);
        assert!(record.inputs.is_empty(), "nothing is kept any more");
    }
}
