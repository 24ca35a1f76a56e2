//! Differences of means of any numbers, by a limit theorem that holds uniformly over time.
//!
//! Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), "Time-uniform central limit theory and asymptotic confidence
//! sequences", Ann. Stat. 52(6), theorem 2.2: with t values of standard deviation s, all means stay within
//!
//! ```text
//! s / sqrt(t) * g(t),    g(t) = sqrt(2 (1 + 1 / (t r^2)) ln(sqrt(t r^2 + 1) / alpha))
//! ```
//!
//! of the running mean with probability `1 - alpha`, in the limit of a late first look. `s / sqrt(t)` is the standard
//! error; for the difference of two arms it is `sqrt(V_1 + V_0)` and t is the answers of both (their section 3: the
//! difference of means is a mean of influence functions). r makes `g` least, relative to `1 / sqrt(t)`, at a horizon h:
//! `r^2 = (-2 ln alpha + ln(1 - 2 ln alpha)) / h`.
//!
//! Answers to one key depend on each other, and one key may ask a thousand times. So the standard error comes from
//! *clusters* of keys ([`Clusters`]), between which answers are independent, and not from single answers.
//!
//! What it rests on: the first look is late enough (`evidence.answers_min`), variances are finite, and many clusters are
//! in use ([`CLUSTERS_MIN`]); that the theorem carries over to means over clusters is measured by
//! [`study`](crate::study) and not proven.

use serde::{Deserialize, Serialize};

use crate::assign::CLUSTERS;

/// Sums by cluster of keys, for a mean and its standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clusters {
    #[serde(deserialize_with = "crate::tally::of_length::<{ CLUSTERS as usize }, _, _>")]
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cell {
    count: u64,
    sum: f64,
}

/// A mean, how far it may be off, and of how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean of all values.
    pub mean: f64,
    /// Its variance: the standard error squared.
    pub variance: f64,
    /// Values.
    pub count: u64,
    /// Clusters with values.
    pub clusters: usize,
}

impl Default for Clusters {
    fn default() -> Self {
        Self { cells: vec![Cell::default(); usize::from(CLUSTERS)] }
    }
}

impl Clusters {
    /// One more value of a key in this cluster.
    pub fn add(&mut self, cluster: u16, value: f64) {
        let cell = &mut self.cells[usize::from(cluster % CLUSTERS)];
        cell.count += 1;
        cell.sum += value;
    }

    /// The values of another replica.
    pub fn merge(&mut self, other: &Self) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.count += other.count;
            cell.sum += other.sum;
        }
    }

    /// The mean and its variance as a ratio of sums over clusters (Cochran, "Sampling Techniques", 1977, section 6.3):
    /// `V = B / (B - 1) sum (S_b - m N_b)^2 / N^2` over the B clusters in use. None with fewer than two.
    ///
    /// ```
    /// # use experiment::evidence::asymptotic::Clusters;
    /// let mut clusters = Clusters::default();
    /// for (cluster, value) in [(0, 1.0), (0, 3.0), (1, 5.0)] {
    ///     clusters.add(cluster, value);
    /// }
    /// // m = 9 / 3 = 3; S - m N = 4 - 6 = -2 and 5 - 3 = 2; V = 2 / 1 * (4 + 4) / 9 = 16 / 9
    /// let mean = clusters.mean().unwrap();
    /// assert_eq!((mean.mean, mean.variance), (3.0, 16.0 / 9.0));
    /// ```
    #[must_use]
    pub fn mean(&self) -> Option<Mean> {
        let count = self.count();
        let clusters = self.cells.iter().filter(|cell| cell.count > 0).count();
        if clusters < 2 {
            return None;
        }
        let n = count as f64;
        let mean = self.cells.iter().map(|cell| cell.sum).sum::<f64>() / n;
        let off = |cell: &Cell| (cell.sum - mean * cell.count as f64).powi(2);
        let squares: f64 = self.cells.iter().map(off).sum();
        let used = clusters as f64;
        Some(Mean { mean, variance: used / (used - 1.0) * squares / (n * n), count, clusters })
    }

    /// Values so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// The plain mean; None without values.
    #[must_use]
    pub fn plain_mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.cells.iter().map(|cell| cell.sum).sum::<f64>() / count as f64)
    }
}

/// How many standard errors a mean of `count` values may be off at any time: `g` of the module's head.
///
/// ```
/// # use experiment::evidence::asymptotic::standard_errors;
/// // r^2 = (5.991465 + ln 6.991465) / 1000 = 0.00793615; g = sqrt(2 * 1.126006 * ln(sqrt(8.93615) / 0.05)) = 3.03521.
/// // A look at one number of answers, fixed beforehand, would take 1.96.
/// assert!((standard_errors(1000.0, 1000.0, 0.05) - 3.03521).abs() < 1e-5);
/// ```
#[must_use]
pub fn standard_errors(count: f64, horizon: f64, alpha: f64) -> f64 {
    let odds = -2.0 * alpha.ln();
    let time = count * (odds + odds.ln_1p()) / horizon;
    (2.0 * (1.0 + 1.0 / time) * ((time + 1.0).sqrt() / alpha).ln()).sqrt()
}

/// Fewest clusters in use in each arm. Below it the spread between clusters says too little about the standard error.
pub const CLUSTERS_MIN: usize = 30;
