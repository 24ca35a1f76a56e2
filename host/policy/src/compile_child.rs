//! Compiles a component in a process of its own.
//!
//! A compiler's time and memory are not bounded by the size of what it is given, and neither fuel nor deadlines hold
//! here, so bytes from strangers are compiled in a child: this executable again, with an argument that no person gives.
//! The child bounds itself before it reads the first byte; the parent ends it when it takes too long. The component goes
//! in through a pipe, machine code or a complaint comes out.

use std::io::{self, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, nice, setrlimit};

use crate::error::PolicyError;
use crate::wasm::compile_for_elsewhere;

/// What compiling one component may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Seconds of the processor; on the clock five times as many, as a child gives way to all others. Default 60.
    pub seconds: u32,
    /// Address space, in bytes. Default 1 GiB; the largest JavaScript runtime takes 0.3.
    pub memory_bytes: u64,
    /// The executable that is started, which must call [`main`] as said there. Default: that of this process.
    pub program: Option<PathBuf>,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self { seconds: 60, memory_bytes: 1 << 30, program: None }
    }
}

impl ChildLimits {
    /// The executable to be started, even if its file was replaced meanwhile.
    ///
    /// # Errors
    /// What the system says.
    pub fn executable(&self) -> io::Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None if cfg!(target_os = "linux") => Ok(PathBuf::from("/proc/self/exe")),
            None => std::env::current_exe(),
        }
    }
}

/// The first argument of a child.
pub const ARGUMENT: &str = "compile-policy-as-child";

/// The life of a child: compiles what it reads and writes the machine code. To be called first of all in an executable
/// that uses [`PolicyHost::load_in_child`](crate::PolicyHost::load_in_child), if its first argument is [`ARGUMENT`].
#[must_use]
pub fn main() -> ExitCode {
    match bounded().and_then(|()| answer()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            // If even this cannot be told, the code alone must do.
            match io::stderr().write_all(complaint.as_bytes()) {
                Ok(()) | Err(_) => ExitCode::from(REFUSED),
            }
        }
    }
}

/// Takes from this process what it is not given.
fn bounded() -> Result<(), String> {
    bound_as_told(Resource::As)
}

/// The same for a child that runs what was compiled. Address space cannot be its bound, as sandboxes reserve it without
/// using it; what it writes to can.
///
/// # Errors
/// Which bound cannot be had.
pub fn bound_to_data() -> Result<(), String> {
    bound_as_told(Resource::Data)
}

/// By the arguments that [`ask`] gives.
fn bound_as_told(memory: Resource) -> Result<(), String> {
    let mut arguments = std::env::args().skip(2).map(|argument| argument.parse::<u64>());
    let (Some(Ok(seconds)), Some(Ok(bytes))) = (arguments.next(), arguments.next()) else {
        return Err("this process is started by the server only".to_owned());
    };
    let bound = |resource, most| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("bounding {resource:?} by {most}: {error}"))
    };
    bound(Resource::Core, 0)?;
    bound(Resource::Cpu, seconds)?;
    bound(memory, bytes)?;
    nice(NICE).map(drop).map_err(|error| format!("giving way to the server: {error}"))
}

fn answer() -> Result<(), String> {
    let mut component = Vec::new();
    io::stdin().lock().read_to_end(&mut component).map_err(|error| format!("reading: {error}"))?;
    // The alternate form shows the causes, too.
    let artifact = compile_for_elsewhere(&component).map_err(|error| format!("{error:#}"))?;
    io::stdout().lock().write_all(&artifact).map_err(|error| format!("writing: {error}"))
}

/// Machine code of a component, made by a child.
pub(crate) fn compile(component: &[u8], limits: &ChildLimits) -> Result<Vec<u8>, PolicyError> {
    ask(ARGUMENT, component, limits)
}

/// What a child with this first argument answers to this input, within limits.
///
/// # Errors
/// [`PolicyError::CompileBounds`] when it takes too much, [`PolicyError::Compile`] with its complaint, or
/// [`PolicyError::CompileProcess`].
pub fn ask(argument: &str, component: &[u8], limits: &ChildLimits) -> Result<Vec<u8>, PolicyError> {
    let failed = |source| PolicyError::CompileProcess { source };
    let mut child = spawn(argument, limits).map_err(failed)?;
    let (mut input, output, complaint) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (outcome, artifact, complaint) = thread::scope(|scope| {
        // A child that has complained reads no further: that writing fails tells nothing.
        scope.spawn(move || input.take().map(|mut input| input.write_all(component)));
        let complaint = scope.spawn(move || read(complaint, COMPLAINT_BYTES_MOST));
        let (done, artifact) = channel();
        scope.spawn(move || done.send(read(output, ARTIFACT_BYTES_MOST)));
        let outcome = wait(&mut child, &artifact, limits);
        // A thread of ours that panicked has read nothing.
        (outcome.0, outcome.1, complaint.join().unwrap_or_default())
    });
    judge(outcome.map_err(failed)?, artifact, &complaint, limits)
}

/// How a child ended; `None`: it was out of time.
type Outcome = io::Result<Option<ExitStatus>>;

fn wait(child: &mut Child, artifact: &Receiver<Vec<u8>>, limits: &ChildLimits) -> (Outcome, Vec<u8>) {
    let patience = Duration::from_secs(u64::from(limits.seconds) * CLOCK);
    match artifact.recv_timeout(patience) {
        Err(RecvTimeoutError::Timeout) => {
            let ended = child.kill().and_then(|()| child.wait()).map(|_| None);
            (ended, Vec::new())
        }
        // It has closed its output, so it is at its end.
        read => (child.wait().map(Some), read.unwrap_or_default()),
    }
}

fn spawn(argument: &str, limits: &ChildLimits) -> io::Result<Child> {
    Command::new(limits.executable()?)
        .arg(argument)
        .args([u64::from(limits.seconds).to_string(), limits.memory_bytes.to_string()])
        // It needs nothing of what the server knows.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn read(from: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read before an error tells as much as there is to know.
        match from.take(most).read_to_end(&mut bytes) {
            Ok(_) | Err(_) => {}
        }
    }
    bytes
}

fn judge(
    status: Option<ExitStatus>,
    artifact: Vec<u8>,
    complaint: &[u8],
    limits: &ChildLimits,
) -> Result<Vec<u8>, PolicyError> {
    let complaint = String::from_utf8_lossy(complaint);
    let out_of_time = format!("it took longer than {} s", limits.seconds);
    let why = match status {
        None => out_of_time,
        Some(status) if status.success() => return Ok(artifact),
        Some(status) if status.code() == Some(REFUSED.into()) => {
            return Err(PolicyError::Compile { source: wasmtime::Error::msg(complaint.into_owned()) });
        }
        Some(status) if [Some(SIGXCPU), Some(SIGKILL)].contains(&status.signal()) => out_of_time,
        Some(_) if complaint.contains(NO_MEMORY) => {
            format!("it needs more than {} bytes of memory", limits.memory_bytes)
        }
        Some(status) => format!("it ended with {status}: {}", complaint.trim_end()),
    };
    Err(PolicyError::CompileBounds { why })
}

/// Seconds on the clock for each of the processor.
const CLOCK: u64 = 5;
const REFUSED: u8 = 65;
const NICE: i32 = 10;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
/// What a Rust program says before it ends for want of memory.
const NO_MEMORY: &str = "memory allocation of";
const COMPLAINT_BYTES_MOST: u64 = 16 << 10;
const ARTIFACT_BYTES_MOST: u64 = 512 << 20;
