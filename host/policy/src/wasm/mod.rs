//! The sandbox: everything that touches wasmtime.
//!
//! From outside it is a `Runtime` that turns bytes into a `Template`, a `Shared` instance of a template, and a `Guest`,
//! one journey's session that has a `Seat` in it. They speak in the words of `journey` and in [`PolicyError`](crate::PolicyError);
//! the generated types stay in `bindings` and `convert`.

mod bindings;
mod compiled;
mod convert;
mod guest;
mod instance;
mod logs;
mod overdue;
mod runtime;
mod seat;
mod state;
mod ticker;
mod verdict;
mod view;
mod world;

pub(crate) use compiled::compile_for_elsewhere;
pub(crate) use guest::Guest;
pub(crate) use runtime::{Compiled, IDLE_MOST, Runtime, Template};
pub(crate) use seat::{Seat, Shared};
pub(crate) use state::{Asker, Owner};
pub(crate) use world::check_kind;
