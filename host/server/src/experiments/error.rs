//! What can be wrong with what is asked of experiments.

use experiment::DefinitionError;
use experiment::lifecycle::ActionError;
use store::StoreError;

use crate::control::ControlError;
use crate::runtime::SplitError;

/// An experiment that cannot be had, or not so. The message names the key or the experiment, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The definition cannot be followed.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It cannot be put in force here.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// It does not fit what is there.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// There is none.
    #[error("there is no experiment {0:?}; GET /admin/experiments lists what there is")]
    Unknown(String),
    /// It is there already, and is another.
    #[error(
        "the experiment {0:?} is there with another definition; change its weights, or end and delete it first, or take another \
         name"
    )]
    Taken(String),
    /// The configuration file has it.
    #[error("the experiment {0:?} is written in the configuration file; change its table there")]
    OfFile(String),
    /// Another experiment is on the route.
    #[error(
        "the route {route:?} has the experiment {other:?} on it; roll it back, or delete it once it has ended"
    )]
    Busy {
        /// The route.
        route: String,
        /// The experiment that is there.
        other: String,
    },
    /// Only what has ended can be deleted.
    #[error("the experiment {0:?} has not ended; promote an arm or roll it back first")]
    Running(String),
    /// A table of the configuration file asks for what cannot be had.
    #[error("experiments.{name:?}: {problem}")]
    Table {
        /// The table.
        name: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The change could not be made.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// What is kept could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
