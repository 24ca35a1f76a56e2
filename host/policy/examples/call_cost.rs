//! What a policy costs: `cargo run --release -p policy --example call_cost`.
//!
//! Every figure is the median of samples of about 2 ms on the wall clock, with the smallest beside it: on a busy
//! machine the smallest is the nearer to the truth. The guest is the committed `entropy` component; what a trap costs
//! the others is measured with the guest of the tests, which can be made to trap.
#![expect(clippy::print_stdout, reason = "a measurement's result is what it prints")]

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use journey::{Candidate, Ended, Handoff, JourneyId, Offer, Role, Sampled, Signals, Step};
use policy::{
    Call, ChildLimits, Isolation, Limits, ModelInfo, PolicyHost, Revision, Session, Start, compile_child,
};

#[path = "../tests/all/guest.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod guest;

const ENTROPY: &[u8] = include_bytes!("../../../policies/prebuilt/entropy.wasm");

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == compile_child::ARGUMENT) {
        return compile_child::main();
    }
    match measurements() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measurements() -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let host = PolicyHost::new(Limits::default())?;
    println!("{:32}{:9.2} ms", "host, 4096 sessions", milliseconds(began.elapsed()));
    let began = Instant::now();
    let revision = host.load(ENTROPY)?;
    println!("{:32}{:9.2} ms", "load, cold", milliseconds(began.elapsed()));
    let began = Instant::now();
    drop(host.load(ENTROPY)?);
    println!("{:32}{:9.2} ms", "load, again", milliseconds(began.elapsed()));
    loads()?;
    calls(&revision)?;
    println!("one instance per journey");
    let strict = PolicyHost::new(Limits { isolation: Isolation::Journey, ..Limits::default() })?;
    calls(&strict.load(ENTROPY)?)?;
    println!("two threads, 128 sessions each");
    for (shards, isolation) in
        [(1, Isolation::Tenant), (2, Isolation::Tenant), (4, Isolation::Tenant), (1, Isolation::Journey)]
    {
        let host = PolicyHost::new(Limits { shards, isolation, ..Limits::default() })?;
        crowd(&host.load(ENTROPY)?, &format!("route, {isolation:?}, {shards} shards"))?;
    }
    println!("after a trap of another session");
    [0, 100, 1000].into_iter().try_for_each(restore)
}

/// From the cache, and compiled in a child.
fn loads() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let host = PolicyHost::with_cache(Limits::default(), &folder.path().join("cache"))?;
    let began = Instant::now();
    host.load_in_child(ENTROPY, &ChildLimits::default())?;
    println!("{:32}{:9.2} ms", "load, compiled in a child", milliseconds(began.elapsed()));
    let began = Instant::now();
    host.load(ENTROPY)?;
    println!("{:32}{:9.2} ms", "load, from the cache", milliseconds(began.elapsed()));
    Ok(())
}

/// Two threads call at the same time, as two decode loops do.
fn crowd(revision: &Arc<Revision>, name: &str) -> Result<(), Box<dyn Error>> {
    let begin = start(revision)?;
    let scalars = step(0);
    let crowd = || -> Result<Vec<Session>, _> { (0..128).map(|_| revision.session(begin.clone())).collect() };
    // A thread that began first would have the emptier instances to itself.
    let (one, other): (Vec<_>, Vec<_>) = (crowd()?, crowd()?);
    let began = Instant::now();
    thread::scope(|scope| {
        for mut sessions in [one, other] {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let session = &mut sessions[round % 128];
                    black_box(session.route(10, black_box(&scalars)).expect(SERVES));
                }
                sessions
            });
        }
    });
    println!("{name:32}{:9.0} ns", began.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64);
    Ok(())
}

/// The first call of a session whose instance another one took with it, after so many steps.
fn restore(steps: u32) -> Result<(), Box<dyn Error>> {
    let limits = Limits {
        shards: 1,
        breaker: policy::BreakerRule { failures: 1000, ..Default::default() },
        ..Limits::default()
    };
    let host = PolicyHost::new(limits)?;
    let revision = host.load(&guest::Guest::good().armed(Call::Route, guest::TRAP).component())?;
    let begin = start(&revision)?;
    let mut arming = step(0);
    arming.sampled.token = 666;
    let mut times = Vec::new();
    for tenant in 1..100 {
        let begin = Start { tenant, ..begin.clone() };
        let mut session = revision.session(begin.clone())?;
        for position in 0..steps {
            session.route(u64::from(position), &step(0))?;
        }
        let trapped = revision.session(begin)?.route(10, &arming);
        assert!(trapped.is_err(), "it is armed");
        let began = Instant::now();
        session.route(10, &step(0))?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let name = format!("next route, {steps} steps before");
    println!("{name:32}{:9.1} us (smallest {:.1})", times[times.len() / 2], times[0]);
    Ok(())
}

fn calls(revision: &Arc<Revision>) -> Result<(), Box<dyn Error>> {
    let begin = start(revision)?;
    measure("session, start and end", || {
        black_box(revision.session(begin.clone()).expect(SERVES));
    });
    let mut sessions = (0..256).map(|_| revision.session(begin.clone())).collect::<Result<Vec<_>, _>>()?;
    let mut session = revision.session(begin)?;
    let (scalars, candidates) = (step(0), step(20));
    measure("route, scalars", || {
        black_box(session.route(10, black_box(&scalars)).expect(SERVES));
    });
    measure("route, 20 candidates", || {
        black_box(session.route(10, black_box(&candidates)).expect(SERVES));
    });
    let mut next = 0;
    measure("route, scalars, 256 sessions", || {
        next = (next + 1) % sessions.len();
        black_box(sessions[next].route(10, black_box(&scalars)).expect(SERVES));
    });
    let handoff = Handoff::new(Role(1), NonZeroU32::new(1));
    measure("send", || {
        black_box(session.send(10, black_box(&handoff)).expect(SERVES));
    });
    let offer = Offer {
        from: Role(1),
        tokens: vec![1, 2, 3, 4],
        logprobs: vec![-0.1; 4],
        text: String::new(),
        why: Ended::Length,
        answers: Vec::new(),
    };
    measure("receive, 4 tokens", || {
        black_box(session.receive(10, black_box(&offer)).expect(SERVES));
    });
    Ok(())
}

/// Runs the body in samples and prints the time of one run.
fn measure(name: &str, mut body: impl FnMut()) {
    let began = Instant::now();
    let mut runs = 0_u32;
    while began.elapsed() < SAMPLE {
        body();
        runs += 1;
    }
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..runs {
                body();
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(runs)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:32}{:9.0} ns (smallest {:.0})", samples[SAMPLES / 2], samples[0]);
}

fn start(revision: &Revision) -> Result<Start, Box<dyn Error>> {
    let model = |name: &str| ModelInfo { name: name.to_owned(), vocabulary: 151_936, context: 32_768 };
    Ok(Start {
        journey: JourneyId(1),
        tenant: 0,
        models: ["small", "large"].map(model).into(),
        settings: revision.settings(&BTreeMap::new())?,
        prompt_tokens: 100,
        max_tokens: 1000,
        prompt: String::new(),
        seed: 1,
    })
}

fn step(candidates: u32) -> Step {
    let candidate = |rank| Candidate { token: rank, logit: 10.0 - rank as f32, prob: 0.05 };
    Step {
        index: 3,
        run: 3,
        role: Role::ENTRY,
        at_eos: false,
        fired: None,
        sampled: Sampled {
            token: 17,
            logprob: -0.1,
            signals: Signals { entropy: 0.3, top1: 0.9, margin: 0.85 },
            candidates: (0..candidates).map(candidate).collect(),
            ..Sampled::default()
        },
        tail: String::new(),
        answers: Vec::new(),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A failed call would be measured as a fast one.
const SERVES: &str = "the component serves";
const SAMPLE: Duration = Duration::from_millis(2);
const SAMPLES: usize = 101;
const ROUNDS: usize = 1 << 18;
