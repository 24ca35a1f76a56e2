//! Why a command failed, for a person at a terminal.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use engine::EngineError;
use policy::PolicyError;

use crate::bench::decode::DecodeError;
use crate::bench::policy::GuestError;
use crate::bench::quality::{BenchError, QuestionsError};
use crate::bench::routing::RoutingError;
use crate::config::ConfigError;
use crate::control::ControlError;
use crate::experiments::ExperimentError;
use crate::models::{PullError, SourceError};
use crate::registry::RegistryError;
use crate::runtime::{StartError, SubmitError};
use crate::trial::{Fault, LineError};

/// A command that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// `--log` cannot be read.
    #[error("--log {filter:?} is neither a level (error, warn, info, debug, trace) nor target=level,...")]
    Log {
        /// What was given.
        filter: String,
        /// Why.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The configuration is not usable.
    #[error("{}", .file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// Something of the configuration does not load.
    #[error(transparent)]
    Start(Box<StartError>),
    /// The operating system gives no threads.
    #[error("cannot start the threads of the runtime")]
    Threads {
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another with --listen or the key server.listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// What is kept over restarts cannot be used.
    #[error("cannot use the folder {}", .folder.display())]
    DataDir {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: Box<ControlError>,
    },
    /// The experiments cannot be put in force.
    #[error(transparent)]
    Experiments(Box<ExperimentError>),
    /// A file that should hold an experiment.
    #[error("{} is no TOML", .file.display())]
    Definition {
        /// The file.
        file: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// A server cannot be asked.
    #[error("cannot ask {url}; is the server running there? --server names another")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// A server said no.
    #[error("the server refused: {message} ({status}{code})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// The code of its error, after a comma.
        code: String,
    },
    /// The store of a data directory.
    #[error("{}", .folder.display())]
    Store {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: Box<store::StoreError>,
    },
    /// Another process has the data directory.
    #[error("{} is in use, probably by a running server; ask that one with --server URL, or stop it first", .folder.display())]
    StoreInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder is no data directory.
    #[error("{} holds no state.redb; give the folder that the server was started with as --data-dir", .folder.display())]
    NoStore {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of a key is none.
    #[error("{} holds no key as `tokenrouter policy keygen` writes it", .file.display())]
    SigningKey {
        /// The file.
        file: PathBuf,
    },
    /// The operating system does not report signals.
    #[error("cannot wait for signals")]
    Signals {
        /// Why.
        source: io::Error,
    },
    /// A second signal came while answers were being finished.
    #[error("ended at once by a second signal; answers were cut off")]
    Impatient,
    /// No model or route has the name.
    #[error("there is no model or route {name:?}; choose from: {known}")]
    NoSuchRoute {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The settings after the `@` cannot be read.
    #[error("--model {name:?}: {problem}")]
    Settings {
        /// What was asked for.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A model on the command line names nothing.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A model could not be brought from the hub.
    #[error(transparent)]
    Pull(#[from] Box<PullError>),
    /// A model's files.
    #[error("{model}")]
    Model {
        /// What was asked for.
        model: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// The prompt cannot be written in tokens.
    #[error("cannot write the prompt in tokens")]
    Prompt {
        /// Why.
        source: Box<EngineError>,
    },
    /// The request was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The answer broke off.
    #[error("the answer broke off: {message}")]
    Answer {
        /// What happened.
        message: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A policy does not load.
    #[error("{}", .file.display())]
    Policy {
        /// The file.
        file: PathBuf,
        /// Why.
        source: Box<PolicyError>,
    },
    /// A component does not come from a registry, or does not get there.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A reference cannot be used for that.
    #[error("{reference}: {problem}")]
    Reference {
        /// What was given.
        reference: String,
        /// What is wrong.
        problem: String,
    },
    /// A file of steps cannot be read.
    #[error("{}", .file.display())]
    Steps {
        /// The file.
        file: PathBuf,
        /// Why.
        source: LineError,
    },
    /// A policy failed where a server would fall back.
    #[error("{}: a journey would fall back here: {fault}", .file.display())]
    Trial {
        /// The policy.
        file: PathBuf,
        /// What it did.
        fault: Box<Fault>,
    },
    /// Two components decide differently; the lines above say where.
    #[error("{} and {} differ", .one.display(), .other.display())]
    Differ {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
    /// A new policy's name cannot be used.
    #[error("{name:?} is no name for a policy; use small letters, digits and hyphens, a letter first")]
    PolicyName {
        /// What was given.
        name: String,
    },
    /// Something is where a new policy was to be written.
    #[error("{} is there already; choose another place with --dir", .folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// The benchmark cannot run, or broke off.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The benchmark of routing cannot run, or broke off.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// The benchmark of policies met one that does not serve.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A file of questions for a benchmark.
    #[error(transparent)]
    Questions(#[from] QuestionsError),
    /// The benchmark of a model cannot run, or broke off.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// There is no random model of a size.
    #[error("random:{size} {source}")]
    NoSuchSize {
        /// What was asked for.
        size: String,
        /// Why.
        source: engine::NoShape,
    },
    /// A device does not give the processor's logits.
    #[error("{model}: a logit is {difference} from the processor's; at most {tolerance} is rounding")]
    Apart {
        /// The model.
        model: String,
        /// The largest difference.
        difference: f32,
        /// What was allowed.
        tolerance: f32,
    },
    /// A result cannot be saved.
    #[error("cannot write {}", .file.display())]
    Save {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The self-test found something broken; the lines above say what.
    #[error("{failed} of {all} checks failed")]
    Unwell {
        /// Checks that failed.
        failed: usize,
        /// Checks made.
        all: usize,
    },
    /// Standard output or error is gone.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl CliError {
    /// The exit code: 2 where the command line itself is wrong, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Log { .. }
            | Self::NoSuchRoute { .. }
            | Self::Settings { .. }
            | Self::Source(_)
            | Self::PolicyName { .. }
            | Self::Occupied { .. }
            | Self::Reference { .. }
            | Self::NoSuchSize { .. }
            | Self::Decode(DecodeError::Context { .. })
            | Self::Submit(SubmitError::Setting(_) | SubmitError::EmptyPrompt) => 2,
            _ => 1,
        }
    }

    /// Whether the reader of the output has left, as `head` does: nobody is there to be told.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
