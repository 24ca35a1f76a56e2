//! What a simulation measures.

/// Throughput and latencies of one run, after its warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Tokens per second over all journeys.
    pub tokens_per_s: f64,
    /// Seconds per output token of an answer: mean over answers.
    pub tpot_mean_s: f64,
    /// Its median.
    pub tpot_p50_s: f64,
    /// Its 99th percentile.
    pub tpot_p99_s: f64,
    /// Seconds between two tokens of a journey: median.
    pub itl_p50_s: f64,
    /// Their 99th percentile.
    pub itl_p99_s: f64,
    /// The longest.
    pub itl_max_s: f64,
    /// Seconds from a journey's coming to its first token: median.
    pub ttft_p50_s: f64,
    /// Their 99th percentile.
    pub ttft_p99_s: f64,
    /// Mean rows of a step, for each model.
    pub rows: Vec<f64>,
    /// Share of the time in which each model runs.
    pub busy: Vec<f64>,
    /// Steps of each model.
    pub steps: Vec<u64>,
    /// Thresholds at the end, for each model.
    pub batch: Vec<usize>,
    /// What the plan at the end predicts, tokens per second.
    pub predicted_tokens_per_s: Option<f64>,
    /// Answers that began and ended while it was measured.
    pub answers: usize,
    /// Mean journeys at a time.
    pub journeys: f64,
    /// Tokens counted.
    pub tokens: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Whether everybody waited while there was work. Never, or the conductor is wrong.
    pub is_stuck: bool,
    /// Whether more journeys came than could be served.
    pub is_overrun: bool,
}

/// Collects what is measured.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    on: bool,
    since_s: f64,
    tokens: u64,
    gaps: Histogram,
    tempos: Vec<f64>,
    firsts: Vec<f64>,
    rows: Vec<u64>,
    steps: Vec<u64>,
    busy_s: Vec<f64>,
    journeys: f64,
    journeys_seen_s: f64,
}

impl Meter {
    pub(super) fn new(models: usize, scale_s: f64) -> Self {
        Self {
            on: false,
            since_s: 0.0,
            tokens: 0,
            gaps: Histogram::new(scale_s),
            tempos: Vec::new(),
            firsts: Vec::new(),
            rows: vec![0; models],
            steps: vec![0; models],
            busy_s: vec![0.0; models],
            journeys: 0.0,
            journeys_seen_s: 0.0,
        }
    }

    /// Ends the warm-up.
    pub(super) fn start(&mut self, now_s: f64) {
        (self.on, self.since_s, self.journeys_seen_s) = (true, now_s, now_s);
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// A token was given; `gap_s` since the one before, `first_s` since its journey came if there was none.
    pub(super) fn token(&mut self, gap_s: Option<f64>, first_s: Option<f64>) {
        if !self.on {
            return;
        }
        self.tokens += 1;
        if let Some(gap_s) = gap_s {
            self.gaps.add(gap_s);
        }
        self.firsts.extend(first_s);
    }

    pub(super) fn answer(&mut self, came_s: f64, now_s: f64, tokens: u32) {
        if self.on {
            self.tempos.push((now_s - came_s) / f64::from(tokens));
        }
    }

    pub(super) fn step(&mut self, model: usize, rows: usize, lasted_s: f64) {
        if self.on {
            self.rows[model] += rows as u64;
            self.steps[model] += 1;
            self.busy_s[model] += lasted_s;
        }
    }

    /// So many journeys until now.
    pub(super) fn journeys(&mut self, journeys: usize, now_s: f64) {
        if self.on {
            self.journeys += journeys as f64 * (now_s - self.journeys_seen_s);
            self.journeys_seen_s = now_s;
        }
    }

    pub(super) fn outcome(mut self, now_s: f64) -> Outcome {
        let seconds = (now_s - self.since_s).max(f64::MIN_POSITIVE);
        self.tempos.sort_by(f64::total_cmp);
        self.firsts.sort_by(f64::total_cmp);
        let mean = |rows: u64, steps: u64| rows as f64 / steps.max(1) as f64;
        Outcome {
            tokens_per_s: self.tokens as f64 / seconds,
            tpot_mean_s: self.tempos.iter().sum::<f64>() / self.tempos.len().max(1) as f64,
            tpot_p50_s: quantile(&self.tempos, 0.5),
            tpot_p99_s: quantile(&self.tempos, 0.99),
            itl_p50_s: self.gaps.quantile(0.5),
            itl_p99_s: self.gaps.quantile(0.99),
            itl_max_s: self.gaps.max,
            ttft_p50_s: quantile(&self.firsts, 0.5),
            ttft_p99_s: quantile(&self.firsts, 0.99),
            rows: self.rows.iter().zip(&self.steps).map(|(rows, steps)| mean(*rows, *steps)).collect(),
            busy: self.busy_s.iter().map(|busy_s| busy_s / seconds).collect(),
            steps: self.steps,
            answers: self.tempos.len(),
            journeys: self.journeys / seconds,
            tokens: self.tokens,
            seconds,
            ..Outcome::default()
        }
    }
}

/// The value below which this share of sorted values lies; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0.0)
}

/// Counts on a logarithmic scale of 1.2 % a bin.
#[derive(Clone, Debug)]
struct Histogram {
    least: f64,
    counts: Vec<u64>,
    max: f64,
}

impl Histogram {
    fn new(scale: f64) -> Self {
        Self { least: scale * 1e-3, counts: vec![0; BINS], max: 0.0 }
    }

    fn add(&mut self, value: f64) {
        self.max = self.max.max(value);
        let bin = if value > self.least { (value / self.least).ln() / BIN.ln() } else { 0.0 };
        self.counts[(bin as usize).min(BINS - 1)] += 1;
    }

    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.counts.iter().sum::<u64>() as f64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen > 0 && seen as f64 >= wanted
        });
        found.map_or(0.0, |bin| self.least * BIN.powf(bin as f64 + 0.5))
    }
}

const BINS: usize = 1600;
const BIN: f64 = 1.012;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram_are_within_a_bin() {
        let mut histogram = Histogram::new(1.0);
        assert_eq!(histogram.quantile(0.5), 0.0);
        for value in 1..=1000 {
            histogram.add(f64::from(value));
        }
        assert!((histogram.quantile(0.5) / 500.0 - 1.0).abs() < 0.02);
        assert!((histogram.quantile(0.99) / 990.0 - 1.0).abs() < 0.02);
        assert_eq!(histogram.max, 1000.0);
    }
}
