//! A distribution of positive numbers in buckets that grow by 2 %, so a quantile is off by 2 % at most.
//!
//! Ours, as an interval of ranks must become an interval of values: that takes the edges of buckets, and a form that is
//! stored and merged as it is. The idea is that of DDSketch (Masson, Rim, Lee 2019, VLDB 12(12)) with a fixed range,
//! within which nothing is ever collapsed.

use serde::{Deserialize, Serialize};

/// Counts by bucket, from a microsecond to about three hours; what lies outside counts in the first or last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    count: u64,
    #[serde(deserialize_with = "super::of_length::<BUCKETS, _, _>")]
    buckets: Vec<u64>,
}

impl Default for Sketch {
    fn default() -> Self {
        Self { count: 0, buckets: vec![0; BUCKETS] }
    }
}

impl Sketch {
    /// One more number; not finite or negative ones are ignored.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let at = if value <= LEAST { 0 } else { ((value / LEAST).ln() / GROWTH.ln()).ceil() as usize };
        self.buckets[at.min(BUCKETS - 1)] += 1;
        self.count += 1;
    }

    /// The numbers of another replica.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (bucket, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += other;
        }
    }

    /// Numbers so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Between which edges the number of this rank lies; ranks begin at 1. Rank 0 is below everything, ranks above the
    /// count are above everything.
    ///
    /// ```
    /// # use experiment::tally::Sketch;
    /// let mut sketch = Sketch::default();
    /// [0.010, 0.020, 0.500].into_iter().for_each(|seconds| sketch.add(seconds));
    /// let (low, high) = sketch.at_rank(2);
    /// assert!(low < 0.020 && 0.020 <= high && high / low < 1.0201);
    /// assert_eq!(sketch.at_rank(0), (0.0, 0.0));
    /// assert_eq!(sketch.at_rank(4), (f64::INFINITY, f64::INFINITY));
    /// ```
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> (f64, f64) {
        if rank == 0 {
            return (0.0, 0.0);
        }
        let mut below = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return (edge(at), if at + 1 == BUCKETS { f64::INFINITY } else { edge(at + 1) });
            }
        }
        (f64::INFINITY, f64::INFINITY)
    }

    /// The p-quantile, in the middle of its bucket; None without numbers.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let rank = ((p * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let (low, high) = self.at_rank(rank);
        (self.count > 0).then(|| if high.is_finite() { f64::midpoint(low, high) } else { low })
    }
}

/// Lower edge of a bucket.
fn edge(at: usize) -> f64 {
    match at.checked_sub(1) {
        None => 0.0,
        Some(power) => LEAST * GROWTH.powf(power as f64),
    }
}

/// Each bucket is wider than the one before by this factor.
const GROWTH: f64 = 1.02;
/// Upper edge of the first bucket.
const LEAST: f64 = 1e-6;
/// Up to 1e-6 * 1.02^1163 = 1.0e4.
const BUCKETS: usize = 1165;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_rank_is_between_its_edges(mut values in proptest::collection::vec(0.0f64..1e5, 1..50)) {
            let mut sketch = Sketch::default();
            values.iter().for_each(|&value| sketch.add(value));
            values.sort_by(f64::total_cmp);
            for (at, value) in values.iter().enumerate() {
                let (low, high) = sketch.at_rank(at as u64 + 1);
                prop_assert!(low <= *value * (1.0 + 1e-12) && *value <= high * (1.0 + 1e-12), "{low} {value} {high}");
            }
        }
    }
}
