//! The server: loops, HTTP, configuration, command line.
//!
//! Everything that has rules lives in the pure crates; here rules are performed. Reading order follows a request:
//! [`config`] → [`models`] (where they are, whether they fit) and [`registry`] (policies from elsewhere) → [`http`] → [`runtime`] (client-server loop, decode loop, the
//! inboxes of other models) → back to [`http`]. Beside the way, for authors of policies: [`trial`].

pub mod access;
pub mod bench;
pub mod cli;
pub mod config;
pub mod control;
pub mod experiments;
pub mod http;
pub mod models;
pub mod registry;
pub mod runtime;
pub mod telemetry;
pub mod terminal;
pub mod trial;
mod unix;
