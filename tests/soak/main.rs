//! Everything at once, at the machine's limit, for as long as is asked for: streams, clients that leave, bad requests, readers
//! that do not read, uploads, reloads, experiments. What must hold: no 5xx, every stream ends well, memory does not grow,
//! gauges go back to nothing, and SIGTERM ends the server well.
//!
//! `cargo test --release --workspace --test soak -- --minutes 20`; without `--minutes` it takes half a minute, as a test of
//! the test. The real program over real HTTP, so that what is measured is the server's memory alone.

#![expect(clippy::print_stdout, reason = "a test without a harness tells its result")]

mod clients;
mod memory;
mod operators;
mod report;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use memory::Memory;
use report::Report;
use server::Running;

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.expect("a tokio runtime").block_on(soak(time()));
}

/// `--minutes N`, or half a minute.
fn time() -> Duration {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--minutes").skip(1);
    let minutes: Option<f64> = arguments.next().map(|minutes| minutes.parse().expect("a number of minutes"));
    minutes.map_or(SHORT, |minutes| Duration::from_secs_f64(minutes * 60.0))
}

async fn soak(time: Duration) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Running::start(folder.path()).await;
    let (report, stop) = (Arc::new(Report::default()), CancellationToken::new());
    let mut work = JoinSet::new();
    clients::begin(&mut work, server.address(), &report, &stop);
    operators::begin(&mut work, (server.address(), folder.path()), &report, &stop);
    let (begun, mut memory) = (Instant::now(), Memory::new(server.process()));
    while begun.elapsed() < time {
        tokio::time::sleep(SAMPLES_APART.min(time)).await;
        memory.sample();
    }
    stop.cancel();
    while let Some(ended) = work.join_next().await {
        if let Err(error) = ended {
            report.wrong(format!("a client broke off: {error}"));
        }
    }
    let left = server.settled().await;
    let ended_well = server.terminate().await;
    println!("{}", report.told(time));
    println!("{}", memory.told());
    assert_eq!(left, Vec::<String>::new(), "gauges that do not go back to 0");
    assert!(ended_well, "SIGTERM ends the server with 0");
    report.check();
    memory.check(time);
    println!("test soak ... ok ({time:.0?})");
}

/// Where nothing else is asked for.
const SHORT: Duration = Duration::from_secs(30);
const SAMPLES_APART: Duration = Duration::from_secs(1);
