//! Turns what went wrong in a call into one cause.

use std::any::Any;
use std::time::Duration;

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

use crate::error::{Call, PolicyError};
use crate::limits::Limits;

/// What a call was allowed, and the memory it was refused.
pub(super) struct Allowed<'a> {
    pub(super) call: Call,
    pub(super) fuel: u64,
    pub(super) deadline: Duration,
    pub(super) limits: &'a Limits,
    pub(super) refused: Option<usize>,
}

impl Allowed<'_> {
    /// The cause of a failed call.
    pub(super) fn judge(&self, error: wasmtime::Error) -> PolicyError {
        let call = self.call;
        if error.is::<PoolConcurrencyLimitError>() {
            return PolicyError::SessionsExhausted { sessions: self.limits.sessions };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => PolicyError::OutOfFuel { call, fuel: self.fuel },
            Some(Trap::Interrupt) => PolicyError::Deadline { call, limit: self.deadline },
            // A guest that is refused memory gives up by a trap of its own: the refusal is the cause.
            trap => match (self.refused, trap) {
                (Some(wanted), _) => {
                    PolicyError::OutOfMemory { call, wanted, limit: self.limits.memory_bytes }
                }
                (None, Some(trap)) => {
                    PolicyError::Trap { call, trap: trap.to_string(), backtrace: frames(&error) }
                }
                (None, None) if call == Call::Instantiate => {
                    PolicyError::Runtime { what: "instantiating a policy".to_owned(), source: error }
                }
                // What is no trap went wrong on the border: the answer's bytes do not follow the interface.
                (None, None) => PolicyError::BadAnswer { call, why: self.border(&error) },
            },
        }
    }

    /// The cause of a panic of the host during a call.
    pub(super) fn panicked(&self, payload: &(dyn Any + Send)) -> PolicyError {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".to_owned());
        PolicyError::Panic { call: self.call, message }
    }

    fn border(&self, error: &wasmtime::Error) -> String {
        let cause = error.root_cause().to_string();
        // The type of this error is private to wasmtime; its text is pinned by a test of this crate.
        if cause.contains(TOO_MUCH_DATA) {
            format!("it is larger than {} bytes", self.limits.answer_bytes)
        } else {
            cause
        }
    }
}

fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => name.to_owned(),
        None => format!("function {}", frame.func_index()),
    };
    backtrace.frames().iter().take(FRAMES_MOST).map(name).collect()
}

const TOO_MUCH_DATA: &str = "fuel allocated for hostcalls";
const FRAMES_MOST: usize = 16;
