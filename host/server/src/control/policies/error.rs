//! Why a policy is not uploaded, changed or shown.

use policy::PolicyError;
use store::StoreError;
use store::policy_history::HistoryError;

use crate::control::ControlError;
use crate::runtime::{GateError, LibraryError};
#[cfg(unix)]
use crate::trial::child::TrialError;

/// What cannot be done with a policy. The message is for whoever asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoliciesError {
    /// The name cannot be one.
    #[error("a policy's name has 1 to 64 of a-z, 0-9, '-', '_' and '.', and begins with a letter or a digit")]
    Name,
    /// There is no such policy.
    #[error("the policy {0:?} does not exist; GET /v1/policies lists what does")]
    Absent(String),
    /// Another upload of this tenant is under way.
    #[error("another upload of this tenant is being checked; one at a time")]
    TenantBusy,
    /// As many uploads as there may be are being checked.
    #[error("the server is checking other uploads; try again")]
    Busy,
    /// The component is none that is known here.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The tenant has as many policies as it may.
    #[error("there are {0} policies already, which is uploads.policies_max; delete one first")]
    TooMany(usize),
    /// The component does not load.
    #[error("{0}")]
    Policy(#[source] Box<PolicyError>),
    /// A revision that is kept does not load.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The component does not stand what every policy must.
    #[cfg(unix)]
    #[error("the policy was tried and failed: {0}")]
    Trial(#[source] Box<TrialError>),
    /// It does not fit its route.
    #[error("{0}")]
    Unfit(String),
    /// The revisions do not allow it.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// What is kept cannot be changed.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl From<StoreError> for PoliciesError {
    fn from(error: StoreError) -> Self {
        Self::Control(error.into())
    }
}

impl From<PolicyError> for PoliciesError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(Box::new(error))
    }
}

#[cfg(unix)]
impl From<TrialError> for PoliciesError {
    fn from(error: TrialError) -> Self {
        Self::Trial(Box::new(error))
    }
}
