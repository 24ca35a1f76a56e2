//! The one error of this crate, classed by whose fault it is.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::digest::Digest;

/// What went wrong with a policy.
///
/// Each message says what was being done, with which value, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The bytes are no WebAssembly.
    #[error(
        "loading a policy: the {bytes} bytes are not WebAssembly (they begin with {head}); give a compiled component (.wasm)"
    )]
    NotWasm {
        /// How many bytes were given.
        bytes: usize,
        /// The first few, as text.
        head: String,
    },
    /// A core module where a component is needed.
    #[error(
        "loading a policy: this is a core WebAssembly module, not a component; build it for wasm32-wasip2, or wrap it with `wasm-tools component new`"
    )]
    ModuleNotComponent,
    /// A component of another world.
    #[error("loading a policy: the component is not of the world {world}: {problem}")]
    WrongWorld {
        /// The world that is served.
        world: &'static str,
        /// The missing export or the import that is not allowed, and what to do.
        problem: String,
    },
    /// Larger than the host takes.
    #[error(
        "loading a policy: the component has {bytes} bytes, the limit is {most}; strip it, or raise the limit"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The component is not valid, or it asks for more than the host allows.
    #[error("compiling a policy: the component is not valid here")]
    Compile {
        /// What the compiler says.
        #[source]
        source: wasmtime::Error,
    },
    /// The process that compiles an upload was stopped.
    #[error("compiling or trying a policy in a process of its own: {why}")]
    CompileBounds {
        /// The bound that it ran into.
        why: String,
    },
    /// The process that compiles an upload cannot be had.
    #[error("compiling or trying a policy in a process of its own")]
    CompileProcess {
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The directory for compiled components is not safe, or not there.
    #[error("keeping compiled policies in {}", .directory.display())]
    Cache {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The guest trapped. An uncaught exception or a Rust panic of the guest is a trap, too.
    #[error("calling `{call}` of a policy: it trapped: {trap}{}", Frames(.backtrace))]
    Trap {
        /// Which call.
        call: Call,
        /// The trap.
        trap: String,
        /// Frames of the guest, innermost first; empty where there are none.
        backtrace: Vec<String>,
    },
    /// The guest used up its fuel.
    #[error("calling `{call}` of a policy: it used up its {fuel} units of fuel (does it loop without end?)")]
    OutOfFuel {
        /// Which call.
        call: Call,
        /// What it was given.
        fuel: u64,
    },
    /// The guest ran past its deadline.
    #[error("calling `{call}` of a policy: it ran longer than {} ms (does it loop without end?)", .limit.as_millis())]
    Deadline {
        /// Which call.
        call: Call,
        /// The deadline.
        limit: Duration,
    },
    /// The guest was refused memory and gave up.
    #[error("calling `{call}` of a policy: it needs {wanted} bytes of memory, the limit is {limit} bytes")]
    OutOfMemory {
        /// Which call.
        call: Call,
        /// The size that it asked for.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
    /// An answer that cannot be followed.
    #[error("calling `{call}` of a policy: the answer cannot be followed: {why}")]
    BadAnswer {
        /// Which call.
        call: Call,
        /// The value and what is wrong with it.
        why: String,
    },
    /// `describe` contradicts itself.
    #[error("loading a policy: its descriptor is not usable: {why}")]
    BadDescriptor {
        /// The value and what is wrong with it.
        why: String,
    },
    /// A parameter's value that is not allowed.
    #[error("setting `{key}` of policy {policy}: {value} is not {allowed}")]
    Setting {
        /// Name of the policy.
        policy: String,
        /// The parameter.
        key: String,
        /// The given value.
        value: f64,
        /// The allowed values, in words.
        allowed: String,
    },
    /// A parameter that the policy does not have.
    #[error("setting `{key}` of policy {policy}: there is no such parameter; it has: {}", Listed(.known))]
    UnknownSetting {
        /// Name of the policy.
        policy: String,
        /// The key.
        key: String,
        /// The parameters there are.
        known: Vec<String>,
    },
    /// Settings that another revision checked.
    #[error(
        "starting a session of revision {revision}: the settings were checked by revision {settings}; check them by this one"
    )]
    ForeignSettings {
        /// The revision asked.
        revision: Digest,
        /// The revision that made the settings.
        settings: Digest,
    },
    /// A route with too few or too many models.
    #[error(
        "starting a session of policy {policy}: the route has {models} models, the policy needs {least} to {most}"
    )]
    Models {
        /// Name of the policy.
        policy: String,
        /// Models of the route.
        models: usize,
        /// Fewest allowed.
        least: usize,
        /// Most allowed.
        most: usize,
    },
    /// Every slot for a session is taken.
    #[error(
        "starting a session of a policy: all {sessions} sessions are in use; raise the limit or admit fewer journeys"
    )]
    SessionsExhausted {
        /// The configured number.
        sessions: u32,
    },
    /// A session that failed before is never entered again.
    #[error("calling `{call}` of a policy: the session ended when `{ended_by}` failed")]
    SessionEnded {
        /// Which call.
        call: Call,
        /// The call that failed first.
        ended_by: Call,
    },
    /// Another session of the same tenant failed in the instance that this one was in. [`Session`](crate::Session)
    /// goes on in another one, so nobody outside sees this.
    #[error("calling `{call}` of a policy: the failure of another session took the instance with it")]
    InstanceLost {
        /// Which call.
        call: Call,
    },
    /// The revision fails too often, so it gets no new sessions for a while.
    #[error(
        "starting a session of revision {revision}: it failed {failures} times, last with: {last}; tried again in {} ms",
        .retry_in.as_millis()
    )]
    BreakerOpen {
        /// The revision.
        revision: Digest,
        /// Failures since it was loaded.
        failures: u64,
        /// The last of them.
        last: String,
        /// When a session is let through again to see whether it works; zero while one is.
        retry_in: Duration,
    },
    /// The policy file's owner does not want this revision.
    #[error("checking revision {digest}: {why}")]
    Refused {
        /// The revision.
        digest: Digest,
        /// What the owner says.
        why: String,
    },
    /// The policy file cannot be read.
    #[error("reading the policy {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A defect of this host, caught at a call.
    #[error("calling `{call}` of a policy: the host panicked: {message}")]
    Panic {
        /// Which call.
        call: Call,
        /// What the panic says.
        message: String,
    },
    /// The runtime cannot be set up with these limits, or refused to do what should always work.
    #[error("{what}")]
    Runtime {
        /// What was being done.
        what: String,
        /// What the runtime says.
        #[source]
        source: wasmtime::Error,
    },
    /// A thread cannot be started.
    #[error("starting the thread `{name}`")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Whose fault an error is: who must do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Whoever configured the route or sent the request.
    Caller,
    /// The author of the policy.
    Policy,
    /// The machine, its limits, or a defect of ours: the same call may succeed later.
    Ours,
}

impl PolicyError {
    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Setting { .. }
            | Self::UnknownSetting { .. }
            | Self::ForeignSettings { .. }
            | Self::Models { .. }
            | Self::Cache { .. }
            | Self::Refused { .. } => Fault::Caller,
            Self::SessionsExhausted { .. }
            | Self::InstanceLost { .. }
            | Self::CompileProcess { .. }
            | Self::Read { .. }
            | Self::Panic { .. }
            | Self::Runtime { .. }
            | Self::Thread { .. } => Fault::Ours,
            _ => Fault::Policy,
        }
    }

    /// One word for counters and log fields.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NotWasm { .. } => "not_wasm",
            Self::ModuleNotComponent => "module_not_component",
            Self::WrongWorld { .. } => "wrong_world",
            Self::TooLarge { .. } => "too_large",
            Self::Compile { .. } => "compile",
            Self::CompileBounds { .. } => "compile_bounds",
            Self::CompileProcess { .. } => "compile_process",
            Self::Cache { .. } => "cache",
            Self::Trap { .. } => "trap",
            Self::OutOfFuel { .. } => "out_of_fuel",
            Self::Deadline { .. } => "deadline",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::BadAnswer { .. } => "bad_answer",
            Self::BadDescriptor { .. } => "bad_descriptor",
            Self::Setting { .. } | Self::UnknownSetting { .. } | Self::ForeignSettings { .. } => "setting",
            Self::Models { .. } => "models",
            Self::SessionsExhausted { .. } => "sessions_exhausted",
            Self::SessionEnded { .. } => "session_ended",
            Self::InstanceLost { .. } => "instance_lost",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::Refused { .. } => "refused",
            Self::Read { .. } => "read",
            Self::Panic { .. } => "panic",
            Self::Runtime { .. } => "runtime",
            Self::Thread { .. } => "thread",
        }
    }
}

/// A call into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Making the instance, before any of its code is asked.
    Instantiate,
    /// `describe`.
    Describe,
    /// The constructor of `session`.
    Start,
    /// `session.enter`.
    Enter,
    /// `session.route`.
    Route,
    /// `session.send`.
    Send,
    /// `session.receive`.
    Receive,
    /// The destructor of `session`.
    End,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instantiate => "instantiate",
            Self::Describe => "describe",
            Self::Start => "session constructor",
            Self::Enter => "enter",
            Self::Route => "route",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::End => "session destructor",
        })
    }
}

/// Shows a backtrace on one line, if there is any.
struct Frames<'a>(&'a [String]);

impl fmt::Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " (at {})", self.0.join(" < ")) }
    }
}

/// Shows names, or that there are none.
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}
