//! Our rules for one model: when waiting pays.
//!
//! A model that is waited for by the others (the feeder) waits only for a step that is about to return journeys to it:
//! with `n` ready and `b` returning in `delta` seconds, going now gives `n` tokens and lets all join a step later, waiting
//! starts all of them at `delta`; so wait iff `delta (n + b) < a b`, with `a` the fixed cost of its step. The others wait
//! for their threshold, and beyond it for a step of the feeder in flight if it is about to bring enough: with `q` ready
//! and `e` expected in `d` seconds, iff `(1 + phi) d (q + e) < a e`, where `phi = 1 - e^(-p T_L / T_S)` is the share that
//! would come in time for a later step anyway.

use super::station::Running;
use super::{Conductor, Decision, Strictness, Until};
use crate::Member;

impl Conductor {
    /// The feeder: go, unless a step of another lane is about to return enough.
    pub(super) fn feed_or_wait(&self, member: Member, now_s: f64) -> Decision {
        let ready = self.stations[member.0].ready as f64;
        let fixed_s = self.beliefs.per_row(member).fixed_s;
        for (other, running) in self.running_elsewhere(member) {
            let returning = running.returning[member.0];
            let Some(rest_s) = rest_s(running, now_s) else { continue };
            if returning > 0.0 && rest_s * (ready + returning) < fixed_s * returning {
                return Decision::Wait { until: Until::StepOf(other), by_s: Some(overdue_s(running)) };
            }
        }
        Decision::Go
    }

    /// A model that the feeder fills: go with the threshold, at the deadline, or when nobody can come.
    pub(super) fn delayed(&self, member: Member, now_s: f64) -> Decision {
        if self.plan.is_none() || !self.may_come(member) || self.is_probing() {
            return Decision::Go;
        }
        if self.must_go(member, now_s) {
            return Decision::Go;
        }
        let by_s = self.latest_s(member, now_s).max(now_s);
        let until = Until::StepOf(self.source(member));
        if self.stations[member.0].ready < self.threshold(member) || self.is_worth_a_step(member, now_s) {
            return Decision::Wait { until, by_s: Some(by_s) };
        }
        Decision::Go
    }

    /// Whether a model may not wait any longer: for the bound on gaps, or because it has waited for several cycles.
    pub(super) fn must_go(&self, member: Member, now_s: f64) -> bool {
        let late = self.deadline(member, now_s).is_some_and(|d| now_s + d.wait_s > d.latest_s);
        late || now_s >= self.latest_s(member, now_s)
    }

    /// When a model has to start at the latest, seconds.
    fn latest_s(&self, member: Member, now_s: f64) -> f64 {
        let station = &self.stations[member.0];
        let wait_max_s = self.plan.as_ref().map_or(0.0, |plan| plan.wait_max_s);
        let by_s = station.oldest_s().unwrap_or(station.idle_since_s) + wait_max_s;
        self.deadline(member, now_s).map_or(by_s, |deadline| by_s.min(deadline.latest_s))
    }

    /// Whether the step of the feeder in flight brings enough to wait for it with the threshold met.
    fn is_worth_a_step(&self, member: Member, now_s: f64) -> bool {
        let ready = self.stations[member.0].ready as f64;
        let law = self.beliefs.per_row(member);
        self.running_elsewhere(member).any(|(other, running)| {
            let expected = running.returning[member.0];
            let Some(rest_s) = rest_s(running, now_s) else { return false };
            let rows = running.load.rows as f64;
            let step_s = self.beliefs.per_row(other).step_s(rows);
            let ratio =
                expected / rows.max(1.0) * law.step_s(ready + expected) / step_s.max(f64::MIN_POSITIVE);
            let later = 1.0 - (-ratio).exp();
            expected > 0.0 && (1.0 + later) * rest_s * (ready + expected) < law.fixed_s * expected
        })
    }

    /// When those who wait here have to start so that no gap gets longer than the bound; `None` without a bound.
    fn deadline(&self, member: Member, now_s: f64) -> Option<Deadline> {
        let bound_s = self.gaps.bound_s()?;
        let station = &self.stations[member.0];
        let feeder = self.feeder();
        let feeding = self.stations[feeder.0].present() as f64;
        let feeder_s = self.beliefs.per_row(feeder).step_s(feeding);
        let from_s = match self.gaps.strictness() {
            Strictness::Soft => station.oldest_s()? - feeder_s,
            Strictness::Hard => station.stalest_s()?,
        };
        let coming = self.beliefs.share(feeder, member) * feeding;
        let step_s = self.beliefs.per_row(member).step_s(station.ready as f64 + coming);
        let running = self.stations[feeder.0].running.as_ref();
        let wait_s = running.map_or(feeder_s, |running| (running.expected_s - now_s).max(0.0));
        Some(Deadline { wait_s, latest_s: from_s + bound_s - step_s })
    }

    /// Ready journeys with which a model starts, as far as so many can be there.
    pub(super) fn threshold(&self, member: Member) -> usize {
        let planned = self.plan.as_ref().map_or(1, |plan| {
            let pair = plan.pairs.iter().find(|(large, _)| *large == member).filter(|_| self.is_refreshing());
            pair.map_or(plan.batch[member.0], |(_, plan)| plan.exclusive_batch)
        });
        planned.min(self.seats.len()).min(self.settings.members[member.0].rows_max).max(1)
    }

    /// Whether anybody may come here without this model doing anything: somebody is under way, in a step elsewhere, or
    /// about to be in one.
    pub(super) fn may_come(&self, member: Member) -> bool {
        let feeder = self.feeder();
        self.stations.iter().enumerate().any(|(at, station)| {
            let elsewhere =
                at != member.0 && (station.running.is_some() || (at == feeder.0 && station.ready > 0));
            elsewhere || station.coming > 0
        })
    }

    /// The model whose step a waiting one waits for.
    pub(super) fn source(&self, member: Member) -> Member {
        let feeder = self.feeder();
        if feeder != member && self.stations[feeder.0].present() > 0 {
            return feeder;
        }
        let mut others = (0..self.stations.len()).map(Member).filter(|other| *other != member);
        others.find(|other| self.stations[other.0].running.is_some()).unwrap_or(feeder)
    }

    /// Steps that run on other devices; on this one, waiting for them is what taking turns is for.
    fn running_elsewhere(&self, member: Member) -> impl Iterator<Item = (Member, &Running)> {
        let device = self.settings.device(member);
        let others = self
            .stations
            .iter()
            .enumerate()
            .filter(move |(at, _)| self.settings.device(Member(*at)) != device);
        others.filter_map(|(at, station)| station.running.as_ref().map(|running| (Member(at), running)))
    }
}

struct Deadline {
    /// Seconds until the next occasion to decide.
    wait_s: f64,
    /// When a step has to begin, seconds.
    latest_s: f64,
}

/// Seconds that a step has left; `None` once it is so late that nothing is known of its end.
fn rest_s(running: &Running, now_s: f64) -> Option<f64> {
    (now_s < overdue_s(running)).then(|| (running.expected_s - now_s).max(0.0))
}

fn overdue_s(running: &Running) -> f64 {
    running.expected_s + LATE * (running.expected_s - running.began_s)
}

/// Share of its expected time by which a step may be late and still be waited for.
const LATE: f64 = 0.5;
