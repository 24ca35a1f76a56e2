//! The policy host against guests that behave and guests that do not.

mod bombs;
#[cfg(unix)]
mod cached;
mod failures;
mod guest;
mod refusals;
mod reload;
mod sessions;
mod sharing;
mod support;
mod twins;
