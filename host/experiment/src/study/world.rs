//! Made-up users and answers.

use crate::assign::Unit;
use crate::metric::Metric;
use crate::tally::{Answer, Ended, Tallies};

/// What the arms do; two numbers are the control's and the treatment's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// Who asks.
    pub keys: Keys,
    /// Part of the answers that fail, of an average user.
    pub errors: [f64; 2],
    /// Mean score; scores spread evenly by 0.3 to both sides.
    pub quality: [f64; 2],
    /// Median seconds to the first token; their logarithm is normal with standard deviation 0.8.
    pub ttft_s: [f64; 2],
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Every request has a key of its own.
    Fresh,
    /// So many users, of whom a few ask most, and who differ: failures and times to the first token depend on the user.
    Users(u32),
}

/// The answers of one experiment.
pub(super) struct Answers {
    world: World,
    /// Each user's temper, normal.
    tempers: Vec<f64>,
    number: u32,
}

/// One answer, before it is known whose arm gives it.
pub(super) struct Drawn {
    pub(super) key: u32,
    pub(super) number: u32,
    world: World,
    temper: f64,
    fails: f64,
    score: f64,
    time: f64,
}

impl World {
    /// Two arms that do the same.
    #[must_use]
    pub fn alike(keys: Keys) -> Self {
        Self { keys, errors: [0.03; 2], quality: [0.6; 2], ttft_s: [0.3; 2] }
    }

    pub(super) fn answers(&self, uniform: &mut dyn FnMut() -> f64) -> Answers {
        let users = if let Keys::Users(users) = self.keys { users } else { 0 };
        Answers { world: *self, tempers: (0..users).map(|_| normal(uniform)).collect(), number: 0 }
    }
}

impl Answers {
    pub(super) fn next(&mut self, uniform: &mut dyn FnMut() -> f64) -> Drawn {
        self.number += 1;
        let (key, temper) = match self.world.keys {
            Keys::Fresh => (self.number, 0.0),
            Keys::Users(users) => {
                let key = (uniform().powi(2) * f64::from(users)) as u32;
                (key, self.tempers[key as usize])
            }
        };
        let (fails, score, time) = (uniform(), 0.6 * uniform() - 0.3, normal(uniform));
        Drawn { key, number: self.number, world: self.world, temper, fails, score, time }
    }
}

impl Drawn {
    pub(super) fn tell(&self, tallies: &mut Tallies, arm: usize, unit: Unit) {
        let world = &self.world;
        let failed = self.fails < world.errors[arm] * self.temper.exp();
        let ttft_s = world.ttft_s[arm] * (0.5 * self.temper + 0.8 * self.time).exp();
        let answer = Answer {
            ended: if failed { Ended::Failed } else { Ended::Stop },
            fell_back: false,
            ttft_s: Some(ttft_s),
            gaps_s: &[],
            usage: &[],
            cost: 0.0,
        };
        tallies.record(arm, unit, &answer);
        debug_assert!(tallies.arms[arm].mean(Metric::TtftS).is_some());
        tallies.feedback(arm, unit, world.quality[arm] + self.score);
    }
}

/// Box and Muller (1958).
fn normal(uniform: &mut dyn FnMut() -> f64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform()).cos()
}
