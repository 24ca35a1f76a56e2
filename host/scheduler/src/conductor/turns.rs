//! Turns in a shared lane where a threshold on one queue is not enough: more than two models, or visits that end by
//! chance. The rule is [`crate::plan::turns`]; bounds on waiting come before it.

use super::{Conductor, Mode};
use crate::Member;

impl Conductor {
    /// Whether turns go by the square-root rule rather than by the threshold of a pair.
    ///
    /// The threshold is exact for two models and visits of known length.
    pub(super) fn needs_turns(&self) -> bool {
        let feeder = self.beliefs.feeder();
        let is_timed = (0..self.stations.len()).all(|at| at == feeder.0 || self.beliefs.is_timed(Member(at)));
        self.settings.mode == Mode::Ours && (self.stations.len() > 2 || !is_timed)
    }

    /// The model of the lane whose turn it is: a cohort in the middle of visits of known length, then whoever must not
    /// wait longer, then the rule. `None` where the plan has no such rule.
    pub(super) fn by_turns(&self, lane: impl Iterator<Item = Member> + Clone, now_s: f64) -> Option<Member> {
        let turns = self.plan.as_ref()?.turns.as_ref()?;
        let cohort =
            |member: &Member| self.beliefs.is_timed(*member) && self.stations[member.0].residents > 0;
        let feeder = self.feeder();
        let others = || lane.clone().filter(|member| *member != feeder);
        let burst = others().find(cohort);
        let urgent = || others().find(|member| self.must_go(*member, now_s));
        burst.or_else(urgent).or_else(|| {
            let level = |member: &Member| self.stations[member.0].ready as f64 * turns.urgency[member.0];
            lane.max_by(|a, b| level(a).total_cmp(&level(b)))
        })
    }
}
