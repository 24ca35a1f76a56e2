//! The real binary, in one test program.

mod cli;
mod hub;
mod pull;

const BINARY: &str = env!("CARGO_BIN_EXE_tokenrouter");
