//! Memory of a process over time: whether it grows, with how sure that is.

use std::time::{Duration, Instant};

/// Samples of what a process holds.
pub(crate) struct Memory {
    process: u32,
    begun: Instant,
    /// Seconds and MiB.
    samples: Vec<(f64, f64)>,
}

/// A line through samples: MiB, and MiB per hour with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    level: f64,
    slope: f64,
    error: f64,
}

impl Memory {
    pub(crate) fn new(process: u32) -> Self {
        Self { process, begun: Instant::now(), samples: Vec::new() }
    }

    pub(crate) fn sample(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        if let Some(kib) = kib {
            self.samples.push((self.begun.elapsed().as_secs_f64(), kib / 1024.0));
        }
    }

    pub(crate) fn told(&self) -> String {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return "memory: unknown here".to_owned();
        };
        let most = self.samples.iter().map(|sample| sample.1).fold(0.0, f64::max);
        let mut text =
            format!("memory: {:.1} MiB at first, {:.1} at last, {most:.1} at most", first.1, last.1);
        if let Some(Line { level, slope, error }) = self.line() {
            text += &format!(
                "; after warm-up {level:.1} MiB, slope {slope:+.2} MiB an hour (standard error {error:.2})"
            );
        }
        text
    }

    /// A leak is a slope that cannot be chance and that somebody would notice. Half a minute tells nothing of that.
    pub(crate) fn check(&self, time: Duration) {
        let Some(line) = self.line().filter(|_| time >= LEAST_TIME) else { return };
        let leaks = line.slope - 2.0 * line.error > SLOPE_MAX;
        assert!(!leaks, "memory grows by {:.1} MiB an hour (standard error {:.1})", line.slope, line.error);
    }

    /// Over the means of blocks of samples, after the first third: neighbours are alike, so single ones would claim to be surer
    /// than they are.
    fn line(&self) -> Option<Line> {
        let warm = &self.samples[self.samples.len() / 3..];
        let size = warm.len() / BLOCKS;
        (size > 0).then(|| line(&warm.chunks_exact(size).map(mean).collect::<Vec<_>>()))
    }
}

fn mean(samples: &[(f64, f64)]) -> (f64, f64) {
    let sum = samples.iter().fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0, sum.1 + sample.1));
    (sum.0 / samples.len() as f64, sum.1 / samples.len() as f64)
}

/// Least squares.
fn line(points: &[(f64, f64)]) -> Line {
    let n = points.len() as f64;
    let (at, level) = mean(points);
    let spread: f64 = points.iter().map(|(x, _)| (x - at).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - at) * (y - level)).sum::<f64>() / spread;
    let rest: f64 = points.iter().map(|(x, y)| (y - level - slope * (x - at)).powi(2)).sum();
    let error = (rest / (n - 2.0).max(1.0) / spread).sqrt();
    Line { level, slope: slope * 3600.0, error: error * 3600.0 }
}

const BLOCKS: usize = 20;
/// MiB an hour.
const SLOPE_MAX: f64 = 8.0;
const LEAST_TIME: Duration = Duration::from_secs(600);
