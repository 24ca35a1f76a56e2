//! Runs routing policies: sandboxed Wasm components that decide, token by token, where a journey goes.
//!
//! Bytes become a [`Revision`] when [`PolicyHost::load`] has compiled, checked and rehearsed them; a journey asks its
//! own [`Session`] of that revision. Sessions of one tenant share instances. Everything a guest answers is checked here
//! and handed on in the words of `journey`, and whatever a guest does wrong ends as one [`PolicyError`] for one journey:
//! no guest can stop, block or crash the server. This crate knows no HTTP, no models and no async runtime.
//!
//! Reading order: [`host`] → [`revision`] → [`session`] → [`mod@file`]; what a guest may use is in [`limits`], when a
//! revision gets no sessions in [`breaker`], and where its calls are made in [`lane`].

pub mod breaker;
#[cfg(unix)]
mod cache;
#[cfg(unix)]
pub mod compile_child;
pub mod descriptor;
pub mod digest;
pub mod error;
pub mod file;
pub mod health;
pub mod host;
mod instances;
pub mod lane;
pub mod limits;
mod pace;
mod placement;
mod record;
mod rehearsal;
pub mod revision;
pub mod session;
mod slots;
mod wasm;

pub use breaker::BreakerRule;
#[cfg(unix)]
pub use compile_child::ChildLimits;
pub use descriptor::{Descriptor, Fires, Limit, Need, Parameter, PolicyGuard, Settings};
pub use digest::Digest;
pub use error::{Call, Fault, PolicyError};
pub use file::{FailedLoad, FileStatus, PolicyFile};
pub use health::{Health, HealthState};
pub use host::{Compilations, PolicyHost};
pub use lane::{Lane, LaneRule};
pub use limits::{Isolation, Limits};
pub use pace::LaneHealth;
pub use revision::Revision;
pub use session::{Began, ModelInfo, Session, Start};
