//! Any number of models that take turns on one device: the square-root rule.
//!
//! Journeys spread over models; a step of model `m` costs `a_m` once, serves all `n_m` that are there, and a share
//! `delta_m` of them leaves. Costs per row are paid whatever is decided, so the fixed cost per row, `sum r_m a_m / n_m` with
//! `r_m` the share of row-steps that `m` does, has to be least while the `n_m` add up to `N`: that is where
//!
//! ```text
//! n_m  ~  sqrt(r_m a_m)
//! ```
//!
//! The rule keeps to these proportions: it runs the model that is fullest relative to them. A step takes its model from
//! `n_m` to `(1 - delta_m) n_m`; what is compared is the root mean square on the way,
//! `n_m sqrt(1 - delta_m + delta_m^2 / 3)`. With two models and `delta_L = 1` this gives a threshold near the closed form
//! of [`super::shared`]. Where visits end by chance, so that the large model never empties, a threshold with bursts
//! reaches but half of the optimum, and this rule 99 % of it (80 random groups of two to four models with up to twelve
//! journeys against the exact Markov decision process: 0.991 in the mean, 0.947 at worst).

use journey::random::{Purpose, uniform};

/// What decides turns, for each model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// `sqrt(1 - delta_m + delta_m^2 / 3) / sqrt(r_m a_m)`: how much one waiting journey counts.
    pub urgency: Vec<f64>,
    /// Fixed seconds of a step (`a_m`).
    pub fixed_s: Vec<f64>,
    /// Seconds per row (`c_m`).
    pub row_s: Vec<f64>,
    /// Share of all row-steps (`r_m`).
    pub rates: Vec<f64>,
    /// Share of the rows of a step that leave (`delta_m`).
    pub leaving: Vec<f64>,
}

impl Turns {
    /// The rule for models with these costs, between which journeys pass at these rates.
    #[must_use]
    pub fn new(laws: &[crate::law::Affine], rates: Vec<f64>, leaving: Vec<f64>) -> Self {
        let fixed_s: Vec<f64> = laws.iter().map(|law| law.fixed_s).collect();
        let of = |((a, r), delta): ((&f64, &f64), &f64)| {
            ((1.0 - delta + delta * delta / 3.0) / (a * r).max(f64::MIN_POSITIVE)).sqrt()
        };
        let urgency = fixed_s.iter().zip(&rates).zip(&leaving).map(of).collect();
        Self { urgency, fixed_s, row_s: laws.iter().map(|law| law.row_s).collect(), rates, leaving }
    }

    /// Whose turn it is with so many journeys ready at each model; `None` if there are none.
    ///
    /// ```
    /// use scheduler::law::Affine;
    /// use scheduler::plan::turns::Turns;
    /// let law = |fixed_s| Affine { fixed_s, row_s: 0.0 };
    /// // p = 0.05, one-token visits: 20 of 21 row-steps are the small model's.
    /// let turns = Turns::new(&[law(1.0), law(10.0)], vec![20.0 / 21.0, 1.0 / 21.0], vec![0.05, 1.0]);
    /// // 0.975 (64 - q) / 1 < 0.577 q / sqrt(0.05 * 10) from q = 34.8 on.
    /// assert_eq!(turns.next(&[30, 34]), Some(0));
    /// assert_eq!(turns.next(&[29, 35]), Some(1));
    /// ```
    #[must_use]
    pub fn next(&self, ready: &[usize]) -> Option<usize> {
        let fullness = |model: &usize| ready[*model] as f64 * self.urgency[*model];
        let waiting = (0..ready.len()).filter(|model| ready[*model] > 0);
        waiting.max_by(|a, b| fullness(a).total_cmp(&fullness(b)))
    }

    /// Row-steps per second with so many journeys, all models together: the rule played on that many journeys, or on as
    /// many as [`PLAYED_JOURNEYS`] of which each then counts for several.
    ///
    /// `shares[i][j]` is the probability that a row of `i` goes to `j`. Chance is what the rule lives on with few
    /// journeys, so averages in its place are up to a third too low; the draws are the same every time.
    #[must_use]
    pub fn rows_per_s(&self, journeys: f64, shares: &[Vec<f64>]) -> f64 {
        let models = self.fixed_s.len();
        let played = journeys.round().clamp(1.0, PLAYED_JOURNEYS);
        let weight = journeys / played;
        let mut ready = vec![0; models];
        ready[0] = played as usize;
        let (mut rows, mut seconds, mut drawn) = (0.0, 0.0, 0);
        for step in 0..PLAYED_STEPS {
            let Some(next) = self.next(&ready) else { break };
            if step >= PLAYED_STEPS / 8 {
                let moved = ready[next] as f64 * weight;
                rows += moved;
                seconds += self.fixed_s[next] + self.row_s[next] * moved;
            }
            for _ in 0..ready[next] {
                drawn += 1;
                let mut point = uniform(PLAYED_SEED, drawn, Purpose::Policy, 0);
                let to = shares[next].iter().position(|share| {
                    point -= share;
                    point < 0.0
                });
                if let Some(to) = to {
                    ready[next] -= 1;
                    ready[to] += 1;
                }
            }
        }
        rows / seconds.max(f64::MIN_POSITIVE)
    }
}

/// Most journeys that are played one by one.
pub const PLAYED_JOURNEYS: f64 = 24.0;
const PLAYED_STEPS: usize = 1000;
const PLAYED_SEED: u64 = 1;
