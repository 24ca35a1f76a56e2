//! The ways of running that ours is compared with.

use super::{Conductor, Decision, Thresholds, Until};
use crate::Member;

impl Conductor {
    /// Stays with the model that ran last as long as anybody is ready there, then takes the fullest.
    pub(super) fn one_model_at_a_time(
        &self,
        mut lane: impl Iterator<Item = Member> + Clone,
    ) -> Option<Member> {
        let stays = lane.clone().find(|member| *member == self.current);
        if stays.is_some() {
            return stays;
        }
        let feeder = self.feeder();
        let first = lane.clone().find(|member| *member == feeder);
        first.or_else(|| lane.by_ref().max_by_key(|member| self.stations[member.0].ready))
    }

    /// Thresholds and timers as they were set.
    pub(super) fn fixed(&self, member: Member, now_s: f64, thresholds: &Thresholds) -> Decision {
        let station = &self.stations[member.0];
        if station.ready >= thresholds.batch[member.0] || !self.may_come(member) {
            return Decision::Go;
        }
        let since_s = match station.oldest_s() {
            Some(oldest_s) if station.residents == 0 => oldest_s.max(station.idle_since_s),
            _ => station.idle_since_s,
        };
        let by_s = since_s + thresholds.wait_s[member.0];
        if now_s >= by_s - TIMER_SLACK * now_s.abs() {
            return Decision::Go;
        }
        Decision::Wait {
            until: Until::StepOf(self.source(member)),
            by_s: Some(by_s).filter(|s| s.is_finite()),
        }
    }

    /// A threshold and nothing else.
    pub(super) fn by_threshold(&self, member: Member) -> Decision {
        if self.stations[member.0].ready >= self.threshold(member) || !self.may_come(member) {
            return Decision::Go;
        }
        Decision::Wait { until: Until::StepOf(self.source(member)), by_s: None }
    }
}

/// Relative slack with which a timer counts as run down.
const TIMER_SLACK: f64 = 1e-12;
