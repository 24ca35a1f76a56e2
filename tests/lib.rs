//! Helpers of the end-to-end tests: a whole server in this process, and a small client.
//!
//! The client is plain hyper, so that a test can break off in the middle of anything.

mod client;
mod server;

pub use client::{Events, Reply, ask, connect, form};
pub use server::{Server, binary};
