//! Running, paused, promoted, rolled back.
//!
//! A transition is a function from an experiment to the next one and a description of the change. The caller makes both
//! durable together; nothing here remembers the past.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::definition::{Definition, DefinitionError};

/// A definition that was accepted, and where it stands. One that is read back is checked again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Experiment {
    /// What is compared.
    pub definition: Definition,
    /// Whether it runs, and if not, why.
    pub state: State,
    /// Counts the layouts of weights, from 1. What arms did under other weights is not comparable, so tallies belong to
    /// one phase.
    pub phase: u32,
}

/// An experiment as it was written down.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    definition: Definition,
    state: State,
    phase: u32,
}

impl TryFrom<Stored> for Experiment {
    type Error = StoredError;

    fn try_from(Stored { definition, state, phase }: Stored) -> Result<Self, StoredError> {
        definition.check()?;
        let experiment = Self { definition, state, phase };
        if let State::Promoted { arm, .. } = &experiment.state {
            experiment.arm_index(arm)?;
        }
        Ok(experiment)
    }
}

/// What was written down is no experiment.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum StoredError {
    Definition(#[from] DefinitionError),
    Arm(#[from] ActionError),
}

/// Where an experiment stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum State {
    /// Keys get their arms.
    Running,
    /// The control serves everybody and nothing is counted. Keys have their arms back when it goes on.
    Paused {
        /// Why.
        reason: String,
    },
    /// One arm serves everybody, for good.
    Promoted {
        /// The arm.
        arm: String,
        /// Why.
        reason: String,
    },
    /// The control serves everybody, for good.
    RolledBack {
        /// Why: a person's words, or the guardrail and its numbers.
        reason: String,
    },
}

/// What is asked of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// The control serves everybody for a while.
    Pause {
        /// Why.
        reason: String,
    },
    /// Ends a pause.
    Resume,
    /// New weights of treatments by name; the control takes what they leave. Begins a phase.
    SetWeights {
        /// Basis points by treatment; those not named keep theirs.
        weights_bp: BTreeMap<String, u16>,
    },
    /// One arm serves everybody from now on.
    Promote {
        /// Its name.
        arm: String,
        /// Why.
        reason: String,
    },
    /// The control serves everybody from now on.
    RollBack {
        /// Why.
        reason: String,
    },
}

/// A change in words, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What was done, one of a fixed set: `create`, `pause`, `resume`, `set_weights`, `promote`, `roll_back`.
    pub action: &'static str,
    /// The particulars.
    pub detail: String,
}

/// An action that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The state does not allow it.
    #[error("experiment {name:?} is {state}: {action} is not possible")]
    State {
        /// The experiment.
        name: String,
        /// Where it stands.
        state: &'static str,
        /// What was asked.
        action: &'static str,
    },
    /// No arm has this name, or it is the control where a treatment is needed.
    #[error("experiment {0:?} has no treatment {1:?}")]
    NoSuchArm(String, String),
    /// The new weights cannot be followed.
    #[error("the weights of experiment {0:?} cannot be set")]
    Weights(String, #[source] DefinitionError),
}

impl Experiment {
    /// An experiment that runs from now on.
    ///
    /// # Errors
    /// [`DefinitionError`], if the definition cannot be followed.
    pub fn create(definition: Definition) -> Result<(Self, Described), DefinitionError> {
        definition.check()?;
        let detail = format!("on route {:?}, {}", definition.route, weights(&definition));
        Ok((Self { definition, state: State::Running, phase: 1 }, Described { action: "create", detail }))
    }

    /// The experiment after an action.
    ///
    /// # Errors
    /// [`ActionError`], if the action does not fit.
    pub fn apply(&self, action: &Action) -> Result<(Self, Described), ActionError> {
        let mut next = self.clone();
        let detail = match (action, &self.state) {
            (Action::Pause { reason }, State::Running) => {
                next.state = State::Paused { reason: reason.clone() };
                reason.clone()
            }
            (Action::Resume, State::Paused { reason }) => {
                next.state = State::Running;
                format!("was paused: {reason}")
            }
            (Action::SetWeights { weights_bp }, State::Running | State::Paused { .. }) => {
                next.set_weights(weights_bp)?;
                format!("{} -> {}", weights(&self.definition), weights(&next.definition))
            }
            (Action::Promote { arm, reason }, State::Running | State::Paused { .. }) => {
                self.arm_index(arm)?;
                next.state = State::Promoted { arm: arm.clone(), reason: reason.clone() };
                format!("arm {arm:?}: {reason}")
            }
            (Action::RollBack { reason }, State::Running | State::Paused { .. } | State::Promoted { .. }) => {
                next.state = State::RolledBack { reason: reason.clone() };
                reason.clone()
            }
            _ => return Err(self.refuse(action)),
        };
        Ok((next, Described { action: action.name(), detail }))
    }

    /// The place of an arm among those that answer.
    ///
    /// # Errors
    /// [`ActionError::NoSuchArm`].
    pub fn arm_index(&self, name: &str) -> Result<usize, ActionError> {
        let found = self.definition.arms.iter().position(|arm| arm.name == name);
        found.ok_or_else(|| ActionError::NoSuchArm(self.definition.name.clone(), name.to_owned()))
    }

    /// The part of a level of error that this phase may use: `alpha / (p (p + 1))` for phase p.
    ///
    /// The parts of all phases add up to alpha, so one may change weights as often as one likes (union bound).
    ///
    /// ```
    /// # use experiment::lifecycle::phase_alpha;
    /// // 0.05 / 2, 0.05 / 6, 0.05 / 12
    /// assert_eq!([1, 2, 3].map(|phase| phase_alpha(0.05, phase)), [0.05 / 2.0, 0.05 / 6.0, 0.05 / 12.0]);
    /// ```
    #[must_use]
    pub fn alpha(&self, alpha: f64) -> f64 {
        phase_alpha(alpha, self.phase)
    }

    fn set_weights(&mut self, weights_bp: &BTreeMap<String, u16>) -> Result<(), ActionError> {
        for (name, &weight) in weights_bp {
            let index = self.arm_index(name)?;
            if index == 0 {
                return Err(ActionError::NoSuchArm(self.definition.name.clone(), name.clone()));
            }
            self.definition.arms[index].weight_bp = weight;
        }
        let sum: u32 = self.definition.arms[1..].iter().map(|arm| u32::from(arm.weight_bp)).sum();
        let whole = u32::from(crate::definition::WHOLE_BP);
        self.definition.arms[0].weight_bp = whole.saturating_sub(sum) as u16;
        self.phase = self.phase.saturating_add(1);
        self.definition.check().map_err(|error| ActionError::Weights(self.definition.name.clone(), error))
    }

    fn refuse(&self, action: &Action) -> ActionError {
        let name = self.definition.name.clone();
        ActionError::State { name, state: self.state.name(), action: action.name() }
    }
}

/// See [`Experiment::alpha`].
#[must_use]
pub fn phase_alpha(alpha: f64, phase: u32) -> f64 {
    let phase = f64::from(phase.max(1));
    alpha / (phase * (phase + 1.0))
}

impl State {
    /// Its name in readouts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused { .. } => "paused",
            Self::Promoted { .. } => "promoted",
            Self::RolledBack { .. } => "rolled back",
        }
    }
}

impl Action {
    fn name(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::SetWeights { .. } => "set_weights",
            Self::Promote { .. } => "promote",
            Self::RollBack { .. } => "roll_back",
        }
    }
}

/// The weights in words: `control 90 %, large 10 %`.
fn weights(definition: &Definition) -> String {
    let shown =
        definition.arms.iter().map(|arm| format!("{} {} %", arm.name, f64::from(arm.weight_bp) / 100.0));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::tests::with_weights;

    fn running() -> Experiment {
        Experiment::create(with_weights(&[1000])).unwrap().0
    }

    fn grow(to: u16) -> Action {
        Action::SetWeights { weights_bp: BTreeMap::from([("t1".to_owned(), to)]) }
    }

    #[test]
    fn changes_describe_themselves() {
        let (_, created) = Experiment::create(with_weights(&[1000])).unwrap();
        assert_eq!(created.detail, "on route \"pair\", control 90 %, t1 10 %");
        let (grown, described) = running().apply(&grow(3050)).unwrap();
        assert_eq!(described.detail, "control 90 %, t1 10 % -> control 69.5 %, t1 30.5 %");
        assert_eq!((described.action, grown.phase), ("set_weights", 2));
        let (back, described) = grown.apply(&Action::RollBack { reason: "errors".to_owned() }).unwrap();
        assert_eq!(described, Described { action: "roll_back", detail: "errors".to_owned() });
        assert_eq!(back.state, State::RolledBack { reason: "errors".to_owned() });
    }

    #[test]
    fn what_was_written_down_is_checked_when_it_is_read() {
        let promote = Action::Promote { arm: "t1".to_owned(), reason: "better".to_owned() };
        let (promoted, _) = running().apply(&promote).unwrap();
        let json = serde_json::to_string(&promoted).unwrap();
        assert_eq!(serde_json::from_str::<Experiment>(&json).unwrap(), promoted);
        for (was, is) in [("\"arm\":\"t1\"", "\"arm\":\"t9\""), ("9000", "9001")] {
            assert!(serde_json::from_str::<Experiment>(&json.replace(was, is)).is_err(), "{was} -> {is}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let (paused, _) = running().apply(&Action::Pause { reason: "look".to_owned() }).unwrap();
        assert!(paused.apply(&Action::Pause { reason: String::new() }).is_err());
        let promote = |arm: &str| Action::Promote { arm: arm.to_owned(), reason: "better".to_owned() };
        assert!(matches!(paused.apply(&promote("t9")), Err(ActionError::NoSuchArm(..))));
        let (promoted, _) = paused.apply(&promote("t1")).unwrap();
        let error = promoted.apply(&Action::Resume).unwrap_err().to_string();
        assert_eq!(error, "experiment \"test\" is promoted: resume is not possible");
        let back = Action::RollBack { reason: "regret".to_owned() };
        let (rolled_back, _) = promoted.apply(&back).unwrap();
        for action in [Action::Resume, grow(1), promote("t1"), back] {
            assert!(rolled_back.apply(&action).is_err(), "{action:?}");
        }
        assert!(matches!(running().apply(&grow(10_001)), Err(ActionError::Weights(..))));
        let control = Action::SetWeights { weights_bp: BTreeMap::from([("control".to_owned(), 1)]) };
        assert!(matches!(running().apply(&control), Err(ActionError::NoSuchArm(..))));
    }
}
