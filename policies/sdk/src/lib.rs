//! Everything a routing policy in Rust needs.
//!
//! A policy is a type with two traits: [`Policy`] says what it is and begins a journey, [`Session`] decides where the
//! journey goes after each token. [`export_policy!`] makes a component of it. The simplest one:
//!
//! ```
//! use policy_sdk::{Decision, Descriptor, Policy, Session, Start, Step, export_policy};
//!
//! struct Doubt;
//!
//! impl Policy for Doubt {
//!     type Session = Self;
//!     fn describe() -> Descriptor {
//!         Descriptor::new("doubt", "Asks the second model for every token that the first doubts.")
//!     }
//!     fn start(_: Start) -> Self {
//!         Self
//!     }
//! }
//!
//! impl Session for Doubt {
//!     fn route(&mut self, step: &Step) -> Decision {
//!         if step.top1 < 0.5 { Decision::hand_off(1, 1) } else { Decision::Stay }
//!     }
//! }
//!
//! export_policy!(Doubt);
//! ```
//!
//! The crate of a policy begins with `#![cfg_attr(target_arch = "wasm32", no_std)]`: the standard library of
//! `wasm32-wasip2` imports WASI, and the host has none. Allocation, panics (a trap) and float functions ([`libm`]) come
//! from here. Natively nothing is exported, so a policy is unit-tested like any code; see [`testing`].
#![cfg_attr(target_arch = "wasm32", no_std)]

pub extern crate alloc;

#[doc(hidden)]
pub mod bindings;
pub mod host;
mod session;
mod shown;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod values;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use libm;

pub use bindings::tokenrouter::policy::manifest::{Descriptor, Guard, Limit, Need, Parameter, Trigger};
pub use bindings::tokenrouter::policy::types::{
    Accept, Adoption, Answer, Ask, Bound, Candidates, Check, Condition, Decision, Draft, DraftRequest, Ended,
    Found, Handoff, Judgement, Mask, Mixture, ModelInfo, Next, Parcel, Part, Question, Rewrite, Role, Rule,
    Signal, Space, TokenId, Typical,
};
pub use session::{Policy, Session};
pub use shown::{Candidate, Offer, Settings, Start, Step};

/// What [`export_policy!`] expands to; not for use by hand.
#[doc(hidden)]
pub mod exported {
    pub use crate::bindings;
    pub use crate::session::Component;
}

/// Makes the crate a component of the given [`Policy`]. Expands to nothing when the target is not Wasm.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::exported::Component<$policy>;
    $crate::exported::bindings::export!(Exported with_types_in $crate::exported::bindings);
        };
    };
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
