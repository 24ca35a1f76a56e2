//! What a policy may ask of the host. In native tests the double in `testing` answers.

use alloc::vec::Vec;

use crate::ModelInfo;

/// A uniform number in [0, 1) that depends on the journey's seed, the position being decided and the number of calls
/// made there, and on nothing else. It costs a call to the host, about 100 ns.
#[must_use]
pub fn uniform() -> f64 {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::tokenrouter::policy::host::uniform();
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::next_uniform();
}

/// A line for the server's log at debug level, cut at 1 KiB. For people: lines beyond the policy's quota are dropped.
pub fn log(message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::tokenrouter::policy::host::log(message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::keep_log(message);
}

/// The route's models by role.
#[must_use]
pub fn models() -> Vec<ModelInfo> {
    #[cfg(target_arch = "wasm32")]
    return view::models();
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::models();
}

/// What the interface's `view` shows. Natively nothing: a test says what is there with the step itself.
pub(crate) mod view {
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::tokenrouter::policy::view::*;

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use crate::testing::view::*;
}
