//! What is known of one model: who waits there, since when, and the step that runs.

use std::collections::BTreeSet;

use journey::JourneyId;

use crate::Member;
use crate::law::Load;

/// A time of not less than zero that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    pub(super) fn at(seconds: f64) -> Self {
        // The bits of numbers that are not negative are in the order of the numbers.
        Self(seconds.max(0.0).to_bits())
    }

    pub(super) fn seconds(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Where a journey is and what is known of it there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) at: Member,
    pub(super) state: State,
    /// When it came here, seconds.
    pub(super) since_s: f64,
    /// When it last gave a token, seconds.
    pub(super) emitted_s: f64,
    /// Whether it has given a token since it came to the group.
    pub(super) has_emitted: bool,
    /// Tokens left of a visit whose length is known.
    pub(super) visit_left: Option<u32>,
}

/// What a journey does where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Under way to the model.
    Coming,
    /// Came and has not taken part in a step yet.
    Fresh,
    /// Took part in a step and stays.
    Resident,
    /// In the step that runs.
    Running,
}

/// A step that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) began_s: f64,
    /// When it should end, seconds.
    pub(super) expected_s: f64,
    pub(super) load: Load,
    /// Rows that are expected to go to each member at its end.
    pub(super) returning: Vec<f64>,
    /// Seconds of it during which another step ran on the device.
    pub(super) overlapped_s: f64,
    /// Until when `overlapped_s` is up to date.
    pub(super) seen_s: f64,
}

/// One model of the group.
#[derive(Clone, Debug, Default)]
pub(super) struct Station {
    /// Journeys that could take part in a step now.
    pub(super) ready: usize,
    /// Those of them that are in the middle of their visit.
    pub(super) residents: usize,
    /// Journeys under way to here.
    pub(super) coming: usize,
    pub(super) running: Option<Running>,
    /// When the last step ended, seconds.
    pub(super) idle_since_s: f64,
    by_arrival: BTreeSet<(Moment, JourneyId)>,
    by_emission: BTreeSet<(Moment, JourneyId)>,
}

impl Station {
    /// A journey is here and may take part in a step.
    pub(super) fn admit(&mut self, journey: JourneyId, seat: &Seat) {
        self.ready += 1;
        match seat.state {
            State::Fresh => {
                self.by_arrival.insert((Moment::at(seat.since_s), journey));
                if seat.has_emitted {
                    self.by_emission.insert((Moment::at(seat.emitted_s), journey));
                }
            }
            _ => self.residents += 1,
        }
    }

    /// A journey that was ready is in a step now, or has gone.
    pub(super) fn withdraw(&mut self, journey: JourneyId, seat: &Seat) {
        self.ready -= 1;
        match seat.state {
            State::Fresh => {
                self.by_arrival.remove(&(Moment::at(seat.since_s), journey));
                self.by_emission.remove(&(Moment::at(seat.emitted_s), journey));
            }
            _ => self.residents -= 1,
        }
    }

    /// Since when the newcomer that has waited longest waits.
    pub(super) fn oldest_s(&self) -> Option<f64> {
        self.by_arrival.first().map(|(moment, _)| moment.seconds())
    }

    /// The earliest last token among the newcomers.
    pub(super) fn stalest_s(&self) -> Option<f64> {
        self.by_emission.first().map(|(moment, _)| moment.seconds())
    }

    /// Whether anybody is ready, in a step, or about to come.
    pub(super) fn is_active(&self) -> bool {
        self.running.is_some() || self.coming > 0
    }

    /// Rows that are ready or in the step that runs.
    pub(super) fn present(&self) -> usize {
        self.ready + self.running.as_ref().map_or(0, |running| running.load.rows)
    }
}
