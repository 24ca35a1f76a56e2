//! Hostile input to everything that reads what others wrote: whatever comes, it is answered or refused in bounded time and
//! memory, and nothing panics.
//!
//! `cargo test --workspace --test fuzz -- --seconds 10 --seed 7 --target http`: seconds for each target, where mutations
//! begin, and one target alone. See `README.md` for why it is not coverage that guides it.

#![expect(clippy::print_stdout, reason = "a test without a harness tells its result")]

mod corpus;
mod engine_files;
mod mutate;
mod served;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use corpus::Seed;

/// Something that reads what others wrote.
trait Target {
    /// What is mutated.
    fn seeds(&self) -> Vec<Seed>;

    /// Reads it. Panics where an answer is not one that may be given.
    fn read(&mut self, of: &Seed, input: &[u8]);
}

struct Options {
    time: Duration,
    seed: u64,
    only: Option<String>,
}

fn main() {
    let options = options();
    bound_memory();
    let watch = Arc::new(Watch::default());
    let dog = Arc::clone(&watch);
    thread::spawn(move || dog.bark());
    for name in TARGETS {
        if options.only.as_deref().is_none_or(|only| only == name) {
            run(name, target(name).as_mut(), &options, &watch);
        }
    }
}

fn target(name: &str) -> Box<dyn Target> {
    match name {
        "http" => Box::new(served::Requests::new()),
        "upload" => Box::new(served::Uploads::new()),
        "config" => Box::new(texts::Configs),
        "policy" => Box::new(texts::Components::new()),
        "template" => Box::new(engine_files::Models::templates()),
        "checkpoint" => Box::new(engine_files::Models::checkpoints()),
        "gguf" => Box::new(engine_files::Models::gguf()),
        other => panic!("there is no target {other:?}"),
    }
}

/// Findings first, then seeds as they are, then mutations until the time is over.
fn run(name: &str, target: &mut dyn Target, options: &Options, watch: &Watch) {
    let seeds = target.seeds();
    assert!(!seeds.is_empty(), "{name} has something to begin with");
    let mut attempt = |of: &Seed, input: &[u8]| {
        watch.begin(name, input);
        let outcome = catch_unwind(AssertUnwindSafe(|| target.read(of, input)));
        watch.end();
        if outcome.is_err() {
            panic!("{name} fails on {} bytes, in {}", input.len(), kept(name, input).display());
        }
    };
    for seed in &seeds {
        attempt(seed, &seed.bytes);
    }
    let (begun, mut tried) = (Instant::now(), 0_u64);
    let mut rng = StdRng::seed_from_u64(options.seed);
    while begun.elapsed() < options.time {
        let of = &seeds[rng.random_range(0..seeds.len())];
        let other = &seeds[rng.random_range(0..seeds.len())];
        attempt(of, &mutate::mutated(&mut rng, &of.bytes, &other.bytes));
        tried += 1;
    }
    println!("test fuzz_{name} ... ok ({} seeds, {tried} mutations from seed {})", seeds.len(), options.seed);
}

fn options() -> Options {
    let mut options = Options { time: SHORT, seed: 1, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--seconds" => options.time = Duration::from_secs(value().parse().expect("a number of seconds")),
            "--seed" => options.seed = value().parse().expect("a number"),
            "--target" => options.only = Some(value()),
            // What `cargo test` passes on to all tests.
            _ => {}
        }
    }
    options
}

/// What takes more is killed by the system, which is a finding. Address space is no measure: a Wasm runtime reserves
/// terabytes and uses none of it.
fn bound_memory() {
    let before = getrlimit(Resource::Data);
    let bounded = Rlimit { current: Some(MEMORY), maximum: before.maximum };
    setrlimit(Resource::Data, bounded).expect("a process may bound itself");
}

/// Where an input that fails is kept.
fn kept(name: &str, input: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}.input"));
    std::fs::write(&path, input).expect("the build's own folder can be written");
    path
}

/// Sees that nothing takes for ever.
#[derive(Default)]
struct Watch {
    /// Milliseconds; 0 while nothing runs.
    since: AtomicU64,
    input: Mutex<(String, Vec<u8>)>,
}

impl Watch {
    fn begin(&self, name: &str, input: &[u8]) {
        let mut kept = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0.clear();
        kept.0.push_str(name);
        kept.1.clear();
        kept.1.extend_from_slice(input);
        self.since.store(now_ms(), Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Relaxed);
    }

    fn bark(&self) {
        loop {
            thread::park_timeout(Duration::from_millis(500));
            let since = self.since.load(Relaxed);
            if since != 0 && now_ms().saturating_sub(since) > HANG.as_millis() as u64 {
                let input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
                println!("{} hangs on {}", input.0, kept(&input.0, &input.1).display());
                std::process::exit(1);
            }
        }
    }
}

fn now_ms() -> u64 {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

const TARGETS: [&str; 7] = ["http", "upload", "config", "policy", "template", "checkpoint", "gguf"];
/// For each target, where nothing else is said.
const SHORT: Duration = Duration::from_secs(2);
/// Nothing that is read takes nearly so long, on a machine that does other things, too.
const HANG: Duration = Duration::from_secs(30);
const MEMORY: u64 = 3 << 30;
