//! Who asks, as HTTP says it.
//!
//! The [`guard`] stands before every route and leaves a [`Caller`](crate::access::Caller) with the request; handlers ask the
//! caller, and never look at keys.

mod bearer;
mod guard;
mod quotas;

pub(super) use guard::guard;
pub(super) use quotas::tell_quotas;
