//! What happens to the answers of a request, in the order in which it happens.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::runtime::{Answer, Event};

/// The answers of one request. Dropping them cancels those that are not over.
pub(in crate::http) struct Told {
    answers: Vec<Answer>,
    /// Those that more may be heard of.
    open: Vec<usize>,
    /// Which of them is asked first: none is heard before the others over and over.
    first: usize,
}

/// What was heard of an answer.
#[derive(Debug)]
pub(super) enum Heard {
    /// This.
    Event(Event),
    /// It ended without a last word.
    CutOff,
}

impl Told {
    pub(in crate::http) fn new(answers: Vec<Answer>) -> Self {
        Self { open: (0..answers.len()).collect(), answers, first: 0 }
    }

    /// The next that is heard, and of which answer; `None` once all are over.
    pub(super) async fn next(&mut self) -> Option<(usize, Heard)> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Heard)>> {
        if self.open.is_empty() {
            return Poll::Ready(None);
        }
        for step in 0..self.open.len() {
            let place = (self.first + step) % self.open.len();
            let index = self.open[place];
            let Poll::Ready(event) = self.answers[index].events.poll_recv(context) else { continue };
            let is_last = matches!(event, None | Some(Event::Finished(_) | Event::Failed { .. }));
            self.first = place + usize::from(!is_last);
            if is_last {
                self.open.remove(place);
            }
            return Poll::Ready(Some((index, event.map_or(Heard::CutOff, Heard::Event))));
        }
        Poll::Pending
    }
}
