//! What goes wrong with policies, as the client sees it.

use store::policy_history::HistoryError;

use crate::control::ControlError;
use crate::control::policies::PoliciesError;
use crate::http::error::{ApiError, Fault, shortened};
use crate::runtime::GateError;
use crate::trial::with_causes;

/// The refusal that follows from an error.
pub(in crate::http) fn refused(error: &PoliciesError) -> ApiError {
    let message = with_causes(error);
    match error {
        PoliciesError::Name => ApiError::field(Fault::Value, "name", message),
        PoliciesError::Absent(name) => absent(name),
        PoliciesError::TenantBusy | PoliciesError::Busy => ApiError::general(Fault::Uploading, message),
        PoliciesError::Gate(GateError::Signature) => ApiError::field(Fault::Forbidden, "signature", message),
        PoliciesError::Gate(_) => {
            let message = format!("{message}; have it listed, or send a part \"signature\"");
            ApiError::field(Fault::Forbidden, "component", message)
        }
        PoliciesError::TooMany(_) => ApiError::general(Fault::Conflict, message),
        PoliciesError::Policy(_) => ApiError::field(Fault::Component, "component", message),
        #[cfg(unix)]
        PoliciesError::Trial(_) => ApiError::field(Fault::Component, "component", message),
        PoliciesError::Library(_) => ApiError::field(Fault::Component, "revision", message),
        PoliciesError::Unfit(_) => ApiError::field(Fault::Value, "manifest", message),
        PoliciesError::History(HistoryError::NotUploaded(_)) => {
            ApiError::field(Fault::Revision, "revision", message)
        }
        PoliciesError::History(_) => ApiError::general(Fault::Conflict, message),
        PoliciesError::Control(ControlError::NoDataDir) => ApiError::general(Fault::NoDataDir, message),
        PoliciesError::Control(error) => {
            tracing::error!(error = with_causes(error), "a policy could not be changed");
            ApiError::server("the server could not read or keep it; its log says more")
        }
    }
}

/// The same words for a policy that nobody has and for one of another tenant.
fn absent(name: &str) -> ApiError {
    let message = PoliciesError::Absent(shortened(name)).to_string();
    ApiError::field(Fault::Policy, "name", message)
}

/// The same words for a route that is not there and for one that the tenant may not see.
pub(super) fn no_route(route: &str) -> ApiError {
    let message = format!(
        "route: there is no route {:?}; GET /v1/models lists what there is (a model under its own name is none)",
        shortened(route)
    );
    ApiError::field(Fault::Value, "manifest", message)
}
