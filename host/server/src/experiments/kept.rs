//! An experiment as the server keeps it, and what a table of the configuration file means for it.
//!
//! A table begins its experiment when it is first seen. From then on the experiment has a life of its own: what is done to
//! it (weights, pause, promote, roll back) is kept and wins over the table, until the table itself changes. A table that
//! changes in its weights only sets these weights. Any other change of the table of an experiment that has not ended is
//! refused, as its answers so far would be of something else; once it has ended, the changed table begins it anew. A table
//! that is taken out ends its experiment.

use std::collections::BTreeMap;

use experiment::{Action, Definition, Experiment, State};
use serde::{Deserialize, Serialize};

/// An experiment and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The experiment.
    pub experiment: Experiment,
    /// Who wrote it.
    pub source: Source,
    /// When it was begun, milliseconds since 1970; parts it from earlier ones of its name.
    pub begun_unix_ms: u64,
}

/// Who wrote an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// An admin, by the API.
    Api,
    /// The configuration file.
    Config {
        /// The table as it was last seen; none since it was taken out.
        table: Option<Box<Definition>>,
    },
}

/// What a table asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// Nothing that is not there.
    Nothing,
    /// A new experiment.
    Begin,
    /// Other weights.
    Weights(Action),
    /// The table says what is there in other words; only that is to be remembered.
    Remember,
}

impl Kept {
    /// Whether it has a word in who serves its route: it may divide it, or has given it to an arm that is not the route as it
    /// is written.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        let plain = self.experiment.definition.arms[0].is_plain();
        !(plain && matches!(self.experiment.state, State::RolledBack { .. }))
    }

    /// Whether it has come to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.experiment.state, State::Promoted { .. } | State::RolledBack { .. })
    }
}

/// What a table asks for, given what is there of its name.
///
/// # Errors
/// Why it cannot be had.
pub(super) fn wanted(table: &Definition, there: Option<&Kept>) -> Result<Wanted, String> {
    let Some(there) = there else { return Ok(Wanted::Begin) };
    let seen = match &there.source {
        Source::Api => {
            return Err(
                "an experiment of this name was made by the API; give the table another name".to_owned()
            );
        }
        Source::Config { table: None } => return Ok(Wanted::Begin),
        Source::Config { table: Some(seen) } => seen,
    };
    if **seen == *table {
        return Ok(Wanted::Nothing);
    }
    if there.has_ended() {
        return Ok(Wanted::Begin);
    }
    if without_weights(seen) != without_weights(table) {
        return Err("runs, and only weight_bp of its arms may change meanwhile; end it first (`tokenrouter experiment promote` \
                    or `rollback`), or give the changed table another name"
            .to_owned());
    }
    let weights = |definition: &Definition| -> BTreeMap<String, u16> {
        definition.arms.iter().skip(1).map(|arm| (arm.name.clone(), arm.weight_bp)).collect()
    };
    let weights_bp = weights(table);
    if weights_bp == weights(&there.experiment.definition) {
        return Ok(Wanted::Remember);
    }
    Ok(Wanted::Weights(Action::SetWeights { weights_bp }))
}

fn without_weights(definition: &Definition) -> Definition {
    let mut definition = definition.clone();
    definition.arms.iter_mut().for_each(|arm| arm.weight_bp = 0);
    definition
}

#[cfg(test)]
mod tests {
    use experiment::definition::{Arm, Sticky};

    use super::*;

    fn table(weight: u16) -> Definition {
        Definition {
            name: "one".to_owned(),
            route: "pair".to_owned(),
            seed: "a seed that nobody knows".to_owned(),
            sticky: Sticky::User,
            arms: vec![Arm::plain("control", 10_000 - weight), Arm::plain("new", weight)],
            shadows: Vec::new(),
            evidence: Default::default(),
            guardrails: Vec::new(),
        }
    }

    fn kept(seen: Option<Definition>) -> Kept {
        let (experiment, _) = Experiment::create(table(1000)).unwrap();
        Kept { experiment, source: Source::Config { table: seen.map(Box::new) }, begun_unix_ms: 1 }
    }

    #[test]
    fn a_table_wins_when_it_changes_and_the_api_until_then() {
        let mut there = kept(Some(table(1000)));
        assert_eq!(wanted(&table(1000), None), Ok(Wanted::Begin));
        let to_3000 = Action::SetWeights { weights_bp: BTreeMap::from([("new".to_owned(), 3000)]) };
        there.experiment = there.experiment.apply(&to_3000).unwrap().0;
        assert_eq!(wanted(&table(1000), Some(&there)), Ok(Wanted::Nothing), "the API's weights stay");
        assert_eq!(wanted(&table(3000), Some(&there)), Ok(Wanted::Remember));
        let Ok(Wanted::Weights(_)) = wanted(&table(2000), Some(&there)) else { panic!("weights only") };
        let other = Definition { sticky: Sticky::Tenant, ..table(1000) };
        assert!(wanted(&other, Some(&there)).unwrap_err().contains("only weight_bp"));
        let back = Action::RollBack { reason: "seen enough".to_owned() };
        there.experiment = there.experiment.apply(&back).unwrap().0;
        assert_eq!(
            wanted(&table(1000), Some(&there)),
            Ok(Wanted::Nothing),
            "it does not begin again by itself"
        );
        assert_eq!(wanted(&other, Some(&there)), Ok(Wanted::Begin));
    }

    #[test]
    fn a_table_that_comes_back_begins_anew_and_takes_nothing_from_the_api() {
        assert_eq!(wanted(&table(1000), Some(&kept(None))), Ok(Wanted::Begin));
        let of_api = Kept { source: Source::Api, ..kept(None) };
        assert!(wanted(&table(1000), Some(&of_api)).unwrap_err().contains("made by the API"));
    }
}
