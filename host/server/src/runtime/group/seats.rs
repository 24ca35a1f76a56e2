//! Who is in the group, under which number.

use std::sync::Arc;

use engine::ModelSpec;
use scheduler::Member;
use scheduler::conductor::{self, Conductor, MemberSettings, Mode, Seated, Settings};
use scheduler::law::StepLaw;

use super::bell::Bell;
use super::{Fate, Seating, Whereto};
use crate::config::Scheduling;
use crate::runtime::catalog::ModelIx;

/// The conductor, and whom its numbers mean.
#[derive(Debug)]
pub(super) struct Seats {
    pub(super) conductor: Conductor,
    pub(super) mode: Mode,
    /// By the conductor's number.
    pub(super) sitting: Vec<Sitting>,
    /// The conductor's number by [`ModelIx`].
    numbers: Vec<Option<Member>>,
    scheduling: Scheduling,
}

/// One model of the group.
#[derive(Clone, Debug)]
pub(super) struct Sitting {
    model: ModelIx,
    pub(super) name: String,
    on_cores: bool,
    settings: MemberSettings,
    bell: Arc<Bell>,
}

impl Seats {
    pub(super) fn new(scheduling: &Scheduling) -> Self {
        let mode = scheduling.mode_for(std::iter::empty());
        let settings =
            Settings { mode: mode.clone(), bounds: scheduling.bounds(), ..Settings::learning(Vec::new()) };
        Self {
            conductor: Conductor::new(settings),
            mode,
            sitting: Vec::new(),
            numbers: Vec::new(),
            scheduling: scheduling.clone(),
        }
    }

    pub(super) fn join(&mut self, model: ModelIx, seating: &Seating<'_>) -> Arc<Bell> {
        let settings =
            MemberSettings { device: seating.device, rows_max: seating.rows_max, law: guess(seating.spec) };
        let bell = Arc::new(Bell::default());
        self.sitting.push(Sitting {
            model,
            name: seating.name.to_owned(),
            on_cores: seating.on_cores,
            settings,
            bell: Arc::clone(&bell),
        });
        self.reseat();
        bell
    }

    pub(super) fn leave(&mut self, model: ModelIx) {
        self.sitting.retain(|sitting| sitting.model != model);
        self.reseat();
    }

    pub(super) fn reschedule(&mut self, scheduling: &Scheduling) {
        self.scheduling = scheduling.clone();
        self.conductor.set_bounds(scheduling.bounds());
        self.reseat();
    }

    /// The conductor's number for a model; none once it has left.
    pub(super) fn member(&self, model: ModelIx) -> Option<Member> {
        self.numbers.get(model.index()).copied().flatten()
    }

    /// In the conductor's numbers. What goes to a model that is not there is over for the group.
    pub(super) fn fate(&self, Fate { token, next }: Fate) -> conductor::Fate {
        match next {
            Whereto::Stays => conductor::Fate::Stays { token },
            Whereto::Leaves(to) => self
                .member(to)
                .map_or(conductor::Fate::Ends { token }, |to| conductor::Fate::Leaves { to, token }),
            Whereto::Ends => conductor::Fate::Ends { token },
        }
    }

    pub(super) fn ring(&self, member: Member) {
        self.sitting[member.0].bell.ring();
    }

    /// Wakes those who have somebody ready; who has nobody is woken by an arrival.
    pub(super) fn wake(&self, except: Option<Member>) {
        for (at, sitting) in self.sitting.iter().enumerate() {
            if except != Some(Member(at)) && self.conductor.ready(Member(at)) > 0 {
                sitting.bell.ring();
            }
        }
    }

    /// Numbers the models anew.
    fn reseat(&mut self) {
        let seated = |sitting: &Sitting| Seated {
            before: self.member(sitting.model),
            settings: sitting.settings.clone(),
        };
        let seated = self.sitting.iter().map(seated).collect();
        self.mode = self.scheduling.mode_for(self.sitting.iter().map(|sitting| sitting.name.as_str()));
        self.conductor.reseat(seated, self.mode.clone());
        let slots = self.sitting.iter().map(|sitting| sitting.model.index() + 1).max().unwrap_or(0);
        self.numbers = vec![None; slots];
        for (at, sitting) in self.sitting.iter().enumerate() {
            self.numbers[sitting.model.index()] = Some(Member(at));
        }
        self.watch();
    }

    /// Loops stay awake for a moment only where that takes nothing from a model.
    fn watch(&self) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spare = cores > 1 && self.sitting.iter().all(|sitting| !sitting.on_cores);
        self.sitting.iter().for_each(|sitting| sitting.bell.set_watchful(spare));
    }
}

/// What a step costs before any was seen: in proportion to the weights.
fn guess(spec: &ModelSpec) -> StepLaw {
    let read_s = spec.parameters as f64 / PARAMETERS_PER_S;
    StepLaw::affine(read_s, read_s / ROWS_PER_READ)
}

/// Parameters read per second, and rows that cost as much as reading them: a first guess only.
const PARAMETERS_PER_S: f64 = 2e10;
const ROWS_PER_READ: f64 = 16.0;
