//! Models that come to the group and go from it while it runs.

use std::collections::BTreeSet;

use journey::JourneyId;

use super::settings::{MemberSettings, Mode};
use super::station::Station;
use super::{Bounds, Conductor, Member};

/// A model of the group as it is from now on.
#[derive(Clone, Debug)]
pub struct Seated {
    /// Which one it was before, if it was there.
    pub before: Option<Member>,
    /// What it is.
    pub settings: MemberSettings,
}

impl Conductor {
    /// The group consists of these models from now on, numbered in this order. A model that stays keeps its journeys, the step
    /// that runs there and what is believed of it; journeys at a model that goes are gone. The plan was made for other models,
    /// and so was one that is being made; nothing is delayed until the next.
    ///
    /// `mode` stands beside the models because thresholds are given for each.
    pub fn reseat(&mut self, members: Vec<Seated>, mode: Mode) {
        let before: Vec<Option<Member>> = members.iter().map(|seated| seated.before).collect();
        let after = |old: Member| before.iter().position(|before| *before == Some(old)).map(Member);
        let left: Vec<JourneyId> =
            self.seats.iter().filter(|(_, seat)| after(seat.at).is_none()).map(|(id, _)| *id).collect();
        left.into_iter().for_each(|journey| self.gone(journey));
        for seat in self.seats.values_mut() {
            // Those without a place were let go of above.
            seat.at = after(seat.at).unwrap_or(seat.at);
        }
        let mut stations = std::mem::take(&mut self.stations);
        let mut station = |before: &Option<Member>| {
            let kept = before.and_then(|old| stations.get_mut(old.0));
            kept.map(std::mem::take).unwrap_or_default()
        };
        self.stations = before.iter().map(&mut station).collect();
        self.stations.iter_mut().for_each(|station| station.renumber(&before));
        self.current = after(self.current).unwrap_or(Member(0));
        self.settings.members = members.into_iter().map(|seated| seated.settings).collect();
        self.settings.mode = mode;
        self.devices =
            self.settings.members.iter().map(|member| member.device).collect::<BTreeSet<_>>().len();
        self.beliefs.reseat(&before, &self.settings.members);
        self.plans.clear();
        self.plan = None;
        self.seating += 1;
    }

    /// Other bounds of the group from now on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.settings.bounds = bounds;
        self.gaps.set_bound(self.bounds().itl_s);
    }
}

impl Station {
    /// Members have other numbers: by each new one, the one before.
    fn renumber(&mut self, before: &[Option<Member>]) {
        if let Some(running) = &mut self.running {
            let returning = |old: &Option<Member>| {
                old.and_then(|old| running.returning.get(old.0)).copied().unwrap_or(0.0)
            };
            running.returning = before.iter().map(returning).collect();
        }
    }
}
