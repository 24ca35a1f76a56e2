//! The journeys of a simulation: where each goes next is drawn from the seed, the journey and how far it is.

use journey::JourneyId;
use journey::random::{Purpose, uniform};

use super::scenario::{Scenario, Visit};

/// One journey on its way.
#[derive(Clone, Debug)]
pub(super) struct Traveller {
    pub(super) id: JourneyId,
    /// Tokens still to give.
    pub(super) left: u32,
    pub(super) answer_tokens: u32,
    /// Tokens of the sequence so far, the prompt among them.
    pub(super) length: u64,
    /// For each model, how many of them it has seen.
    anchors: Vec<u64>,
    /// Tokens left of a visit of known length.
    pub(super) visit_left: Option<u32>,
    /// When it came, seconds; absent where it began before the simulation did.
    pub(super) came_s: Option<f64>,
    /// When it last gave a token, seconds.
    pub(super) emitted_s: Option<f64>,
    /// Steps in which it drew a token.
    draws: u64,
    seed: u64,
    /// This journey's factor on the probability of being routed.
    factor: f64,
    is_in_burst: bool,
}

/// What a journey does after a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stays,
    Leaves { to: usize, token: bool },
    Ends,
}

impl Traveller {
    /// The `generation`-th journey of a slot.
    pub(super) fn new(scenario: &Scenario, slot: usize, generation: u64) -> Self {
        let id = slot as u64 + generation * scenario.journeys_max() as u64;
        let seed = scenario.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ id;
        let own = |index| uniform(seed, 0, Purpose::Sample, index);
        let mean = f64::from(scenario.answer_tokens);
        let answer_tokens = if scenario.answers_differ {
            (mean * (0.25 - 0.75 * (1.0 - own(0)).ln())).max(8.0) as u32
        } else {
            scenario.answer_tokens
        };
        Self {
            id: JourneyId(id),
            left: answer_tokens.max(1),
            answer_tokens: answer_tokens.max(1),
            length: u64::from(scenario.prompt_tokens.max(1)),
            anchors: vec![0; scenario.models.len()],
            visit_left: None,
            came_s: None,
            emitted_s: None,
            draws: 0,
            seed,
            factor: 1.0 + scenario.spread * (2.0 * own(1) - 1.0),
            is_in_burst: own(2) < 0.5,
        }
    }

    /// Sets a journey of the beginning somewhere in its answer, so that not all end at once.
    pub(super) fn started_before(mut self) -> Self {
        let share = uniform(self.seed, 0, Purpose::Sample, 3);
        self.left = 1 + (share * f64::from(self.answer_tokens)) as u32 % self.answer_tokens;
        self.length += u64::from(self.answer_tokens - self.left);
        for anchor in &mut self.anchors {
            *anchor = self.length.saturating_sub(1);
        }
        self
    }

    /// Tokens that a step at this model feeds for this journey.
    pub(super) fn unseen(&self, model: usize) -> u64 {
        (self.length - self.anchors[model]).max(1)
    }

    /// Comes to a model.
    pub(super) fn arrive(&mut self, scenario: &Scenario, model: usize) {
        self.visit_left = match scenario.models[model].visit {
            Visit::ByChance => None,
            Visit::Tokens(tokens) => Some(tokens.max(1)),
        };
    }

    /// Takes part in a step of this model, while routing is `drift` times as likely as it says.
    pub(super) fn step(&mut self, scenario: &Scenario, model: usize, drift: f64) -> Next {
        self.anchors[model] = self.length;
        self.draws += 1;
        let to = self.destination(scenario, model, drift);
        let token = to.is_none() || scenario.models[model].keeps_routed;
        if token {
            self.left -= 1;
            self.length += 1;
        }
        match to {
            _ if token && self.left == 0 => Next::Ends,
            Some(to) => Next::Leaves { to, token },
            None => Next::Stays,
        }
    }

    fn destination(&mut self, scenario: &Scenario, model: usize, drift: f64) -> Option<usize> {
        let routes = &scenario.routes[model];
        match &mut self.visit_left {
            Some(left) => {
                *left -= 1;
                if *left > 0 {
                    return None;
                }
                choose(routes, self.draw(0) * routes.iter().sum::<f64>())
            }
            None => {
                let factor = self.factor * drift * self.burst(scenario);
                choose(routes, self.draw(0) / factor.max(1e-12))
            }
        }
    }

    /// The factor on routing of the phase that the journey is in; may change the phase.
    fn burst(&mut self, scenario: &Scenario) -> f64 {
        let Some(burst) = scenario.burst else { return 1.0 };
        if self.draw(1) < 1.0 / burst.tokens {
            self.is_in_burst = !self.is_in_burst;
        }
        if self.is_in_burst { 1.0 + burst.strength } else { 1.0 - burst.strength }
    }

    fn draw(&self, index: u32) -> f64 {
        uniform(self.seed, self.draws, Purpose::Policy, index)
    }
}

/// The destination whose stretch of the line this point is on.
fn choose(routes: &[f64], mut point: f64) -> Option<usize> {
    for (to, share) in routes.iter().enumerate() {
        if point < *share {
            return Some(to);
        }
        point -= share;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::Affine;
    use crate::plan::Pair;

    fn scenario(share: f64, visit_tokens: f64) -> Scenario {
        let law = Affine { fixed_s: 1.0, row_s: 0.0 };
        Scenario::pair(&Pair { journeys: 4.0, share, visit_tokens, small: law, large: law }, true)
    }

    #[test]
    fn a_visit_lasts_as_long_as_it_should_and_tokens_add_up() {
        let scenario = scenario(0.2, 3.0);
        let mut traveller = Traveller::new(&scenario, 0, 0);
        let (mut model, mut tokens, mut visit, mut visits) = (0, 0, 0, 0);
        traveller.arrive(&scenario, 0);
        loop {
            let next = traveller.step(&scenario, model, 1.0);
            tokens += u32::from(next != Next::Leaves { to: 1, token: false });
            visit += usize::from(model == 1);
            match next {
                Next::Ends => break,
                Next::Leaves { to, .. } => {
                    if model == 1 {
                        assert_eq!(visit, 3);
                    }
                    (model, visit, visits) = (to, 0, visits + 1);
                    traveller.arrive(&scenario, to);
                }
                Next::Stays => {}
            }
        }
        assert_eq!(tokens, 256);
        assert!(visits > 20);
        assert_eq!(traveller.length, 257);
    }

    #[test]
    fn what_a_model_missed_is_fed_when_the_journey_comes() {
        let scenario = scenario(1.0, 1.0);
        let mut traveller = Traveller::new(&scenario, 1, 0);
        assert_eq!(traveller.step(&scenario, 0, 1.0), Next::Leaves { to: 1, token: false });
        traveller.arrive(&scenario, 1);
        assert_eq!(traveller.unseen(1), 1);
        assert_eq!(traveller.step(&scenario, 1, 1.0), Next::Leaves { to: 0, token: true });
        assert_eq!(traveller.unseen(0), 1);
        assert_eq!(traveller.length, 2);
    }
}
