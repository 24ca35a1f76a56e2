//! Whole requests to the large model: what routing was before it went by tokens.
//!
//! Nothing is asked anew. Both models have answered every problem alone, greedily, so who answers which problem can be
//! chosen afterwards. The share is that of the large model's tokens among all tokens of the answers; where the small
//! model's whole answer is the signal, it has been written in any case and counts.

use super::ask::Answered;
use super::report::Row;

/// A problem answered by one model alone.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    solved: bool,
    tokens: usize,
    /// Mean entropy of the whole answer, in nats.
    answer_entropy: f64,
    /// Mean entropy of its first [`FIRST`] tokens.
    first_entropy: f64,
}

impl Whole {
    pub(super) fn of(answered: &Answered) -> Self {
        let first = answered.entropies.len().min(FIRST);
        Self {
            solved: answered.solved,
            tokens: answered.entropies.len(),
            answer_entropy: mean(&answered.entropies),
            first_entropy: mean(&answered.entropies[..first]),
        }
    }
}

/// How it is decided which requests the large model gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chooser {
    /// The small model has answered; its mean entropy decides whether the large one answers again.
    Answer,
    /// The small model has written a few tokens.
    First,
    /// Knows both answers: only where the large model is right and the small one is not, the shortest first. No
    /// query-level router can do better.
    Oracle,
}

const CHOOSERS: [Chooser; 3] = [Chooser::Answer, Chooser::First, Chooser::Oracle];

impl Chooser {
    fn policy(self) -> &'static str {
        if self == Self::Oracle { "query-oracle" } else { "query-confidence" }
    }

    fn signal(self) -> &'static str {
        match self {
            Self::Answer => "answer entropy, ",
            Self::First => "first 16 tokens, ",
            Self::Oracle => "",
        }
    }

    /// The problems in the order in which they go to the large model.
    fn order(self, small: &[Whole], large: &[Whole]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..small.len()).collect();
        match self {
            Self::Answer => least_sure_first(&mut order, |ix| small[ix].answer_entropy),
            Self::First => least_sure_first(&mut order, |ix| small[ix].first_entropy),
            Self::Oracle => {
                order.retain(|&ix| large[ix].solved && !small[ix].solved);
                order.sort_by_key(|&ix| large[ix].tokens);
            }
        }
        order
    }
}

/// What comes of giving the large model the first so many problems.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    sent: usize,
    solved: usize,
    /// Tokens written by each model, whether they reach the client or not.
    written: [usize; 2],
    /// Tokens that reach the client.
    delivered: usize,
}

impl Point {
    fn share(&self) -> f64 {
        self.written[1] as f64 / (self.written[0] + self.written[1]).max(1) as f64
    }
}

/// Every point of a chooser's curve, by the number of requests sent.
fn curve(chooser: Chooser, small: &[Whole], large: &[Whole]) -> Vec<Point> {
    let tokens = small.iter().map(|answer| answer.tokens).sum();
    let solved = small.iter().filter(|answer| answer.solved).count();
    let mut point = Point { sent: 0, solved, written: [tokens, 0], delivered: tokens };
    let mut points = vec![point];
    for ix in chooser.order(small, large) {
        point.sent += 1;
        point.solved = point.solved + usize::from(large[ix].solved) - usize::from(small[ix].solved);
        point.delivered = point.delivered + large[ix].tokens - small[ix].tokens;
        point.written[1] += large[ix].tokens;
        if chooser != Chooser::Answer {
            point.written[0] -= small[ix].tokens;
        }
        points.push(point);
    }
    points
}

/// About ten points of every curve. `speeds`: tokens per second of the small and the large model alone; a point's own
/// is what they give one after the other, for nothing ran.
pub(super) fn rows(small: &[Whole], large: &[Whole], speeds: (f64, f64)) -> Vec<Row> {
    let mut rows = Vec::new();
    for chooser in CHOOSERS {
        let points = curve(chooser, small, large);
        let most = points.len() - 1;
        let mut picked: Vec<usize> =
            (1..=STEPS).map(|step| step * most / STEPS).filter(|ix| *ix > 0).collect();
        picked.dedup();
        for point in picked.into_iter().map(|ix| points[ix]) {
            let value = point.sent as f64 / small.len().max(1) as f64;
            let seconds = point.written[0] as f64 / speeds.0 + point.written[1] as f64 / speeds.1;
            rows.push(Row {
                policy: chooser.policy(),
                knob: format!("{}queries={:.0}%", chooser.signal(), value * 100.0),
                value,
                large_share: point.share(),
                accuracy: point.solved as f64 / small.len().max(1) as f64,
                tokens_per_s: point.delivered as f64 / seconds.max(f64::EPSILON),
                measured: false,
            });
        }
    }
    rows
}

/// The smallest shares that reach an accuracy: by the small model's confidence, whichever signal is better, and by the
/// oracle. None where whole requests never reach it.
pub(super) fn shares_needed(accuracy: f64, small: &[Whole], large: &[Whole]) -> (Option<f64>, Option<f64>) {
    let least = |chooser| {
        let reaching = |point: &Point| point.solved as f64 >= accuracy * small.len() as f64 - ROUNDING;
        let shares = curve(chooser, small, large).into_iter().filter(reaching).map(|point| point.share());
        shares.min_by(f64::total_cmp)
    };
    let by_confidence =
        [Chooser::Answer, Chooser::First].into_iter().filter_map(least).min_by(f64::total_cmp);
    (by_confidence, least(Chooser::Oracle))
}

fn least_sure_first(order: &mut [usize], entropy: impl Fn(usize) -> f64) {
    order.sort_by(|&a, &b| entropy(b).total_cmp(&entropy(a)));
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64
}

/// How many of the small model's first tokens are looked at, where that is the signal.
const FIRST: usize = 16;
/// Points of a curve that are shown.
const STEPS: usize = 10;
/// An accuracy times a count is a whole number but for rounding.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(solved: bool, tokens: usize, entropy: f64) -> Whole {
        Whole { solved, tokens, answer_entropy: entropy, first_entropy: 1.0 - entropy }
    }

    /// Four problems: the small model fails the last two, and is least sure of the last.
    fn answered() -> (Vec<Whole>, Vec<Whole>) {
        let small =
            vec![whole(true, 10, 0.1), whole(true, 10, 0.2), whole(false, 10, 0.3), whole(false, 10, 0.4)];
        let large =
            vec![whole(true, 10, 0.0), whole(false, 10, 0.0), whole(true, 20, 0.0), whole(true, 30, 0.0)];
        (small, large)
    }

    #[test]
    fn a_second_answer_is_paid_for_beside_the_first() {
        let (small, large) = answered();
        let points = curve(Chooser::Answer, &small, &large);
        let shown: Vec<(usize, usize, f64)> = points.iter().map(|p| (p.sent, p.solved, p.share())).collect();
        let at = |large: f64| large / (40.0 + large);
        assert_eq!(
            shown,
            [(0, 2, 0.0), (1, 3, at(30.0)), (2, 4, at(50.0)), (3, 3, at(60.0)), (4, 3, at(70.0))]
        );
    }

    #[test]
    fn an_early_choice_replaces_the_answer() {
        let (small, large) = answered();
        let points = curve(Chooser::First, &small, &large);
        // The first tokens point the other way here: the problems go in their own order.
        assert_eq!(points[1], Point { sent: 1, solved: 2, written: [30, 10], delivered: 40 });
        assert_eq!(points[4].share(), 1.0);
    }

    #[test]
    fn the_oracle_sends_only_what_helps_and_the_short_ones_first() {
        let (small, large) = answered();
        assert_eq!(Chooser::Oracle.order(&small, &large), [2, 3]);
        let (confidence, oracle) = shares_needed(0.75, &small, &large);
        assert_eq!(confidence, Some(30.0 / 70.0));
        assert_eq!(oracle, Some(20.0 / 50.0));
        assert_eq!(shares_needed(1.01, &small, &large), (None, None));
    }

    #[test]
    fn a_computed_speed_is_that_of_both_models_one_after_the_other() {
        let (small, large) = answered();
        let row =
            rows(&small, &large, (100.0, 10.0)).into_iter().find(|row| row.policy == "query-oracle").unwrap();
        assert_eq!(row.large_share, 0.4);
        // 30 tokens at 100/s and 20 at 10/s take 2.3 s and deliver 50.
        assert!((row.tokens_per_s - 50.0 / 2.3).abs() < 1e-9, "{}", row.tokens_per_s);
        assert!(!row.measured);
    }
}
