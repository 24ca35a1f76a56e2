//! Killed at any moment, the store opens again in a state that was acknowledged, or in the one after it whose
//! acknowledgement was on its way.
//!
//! The test starts itself as a child that makes one change after the other, and says so after each; kills it with SIGKILL
//! at a random moment; opens the store and compares it with a plain map. Then the next child goes on from there.
//! `cargo test -p store --test crash -- 100` kills a hundred; the default is [`KILLS`].

#![expect(
    clippy::print_stdout,
    reason = "the child speaks over its standard output, and a test tells its result"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use store::policy_history::{Activation, Manifest, PolicyHistory, Uploaded};
use store::{Area, Kind, Store, StoreError, Why};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, folder, from] = &arguments[..]
        && command == WORK
    {
        return work(Path::new(folder), from.parse().expect("a step"));
    }
    let kills = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(KILLS);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut step, mut rng, begun) = (0, StdRng::seed_from_u64(20), Instant::now());
    let mut ahead = 0;
    for kill in 0..kills {
        let acknowledged = run_and_kill(folder.path(), step, &mut rng).max(step);
        step = reopened(folder.path(), acknowledged);
        ahead += step - acknowledged;
        assert!(step >= acknowledged, "kill {kill}");
    }
    assert!(step > kills, "the children got something done: {step} changes");
    println!(
        "test killed_at_any_moment ... ok ({kills} kills, {step} changes, {ahead} times one more than was acknowledged, {:.1?})",
        begun.elapsed()
    );
}

/// Runs a child from a step on and kills it. Returns the last step that it acknowledged, or 0.
fn run_and_kill(folder: &Path, from: u64, rng: &mut StdRng) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args([WORK, &folder.display().to_string(), &from.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (tx, rx) = channel();
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tx.send(line))));
    // Some are killed while they open the store, the others anywhere in a change after some.
    let (mut left, mut acknowledged) = (rng.random_range(0..8), 0);
    let moment = Duration::from_micros(rng.random_range(0..20_000));
    loop {
        match rx.recv_timeout(if left > 0 { Duration::from_secs(60) } else { moment }) {
            Ok(line) => acknowledged = line.parse().expect("a step"),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("the child ended by itself"),
        }
        if left == 0 {
            break;
        }
        left -= 1;
    }
    child.kill().expect("a child that runs");
    child.wait().expect("a child that ended");
    reader.join().expect("the reader");
    rx.iter().last().map_or(acknowledged, |line| line.parse().expect("a step"))
}

/// Opens the store, checks all of it, and returns the step that it is at.
fn reopened(folder: &Path, acknowledged: u64) -> u64 {
    let store = Store::open(folder).expect("it opens");
    let verified = store.verify(None).expect("the log holds together");
    let tenants = store.list::<u64>(Kind::Tenant).expect("tenants");
    let tenants: BTreeMap<String, u64> =
        tenants.into_iter().map(|(name, record)| (name, record.value)).collect();
    let step = [acknowledged, acknowledged + 1].into_iter().find(|&step| tenants == expected(step));
    let step = step.unwrap_or_else(|| panic!("{acknowledged} were acknowledged, there is {tenants:?}"));
    let policy = store.get::<PolicyHistory>(Kind::Policy, "p").expect("a policy");
    assert_eq!(policy.map_or(0, |policy| policy.value.active[0].at_unix_ms), step - step % 4);
    assert_eq!(verified.head.sequence, entries(step));
    let observed = store.observed::<u64>(Area::Feedback, "last").expect("feedback").unwrap_or(0);
    assert!(observed <= step, "observed {observed} at {step}");
    step
}

/// What a child does: one change after the other.
fn work(folder: &Path, from: u64) {
    let store = Store::open(folder).expect("it opens");
    for step in from + 1.. {
        change(&store, step).expect("a change");
        println!("{step}");
        std::io::stdout().flush().expect("a pipe");
        store.observe(Area::Feedback, step, [("last", &step)]).expect("an observation");
    }
}

/// A change of several records, and every fourth time of a policy with new bytes.
fn change(store: &Store, step: u64) -> Result<(), StoreError> {
    let why = Why { action: "step", detail: "of the crash test" };
    let blob =
        step.is_multiple_of(4).then(|| store.blobs().put(&step.to_le_bytes().repeat(1000))).transpose()?;
    store.change("child", step, |change| {
        change.put(Kind::Tenant, &format!("t{}", step % 5), &step, why)?;
        change.put(Kind::Tenant, "all", &step, why)?;
        if let Some(digest) = blob {
            let (at_unix_ms, by) = (step, "child".to_owned());
            let activation = Activation { digest, at_unix_ms, by: by.clone(), reason: String::new() };
            let (policy, doc) = (String::new(), String::new());
            let manifest = Manifest::default();
            let revisions = vec![Uploaded { digest, at_unix_ms, by, bytes: 8000, policy, doc, manifest }];
            change.put(
                Kind::Policy,
                "p",
                &PolicyHistory { tenant: None, revisions, active: vec![activation] },
                why,
            )?;
        }
        change.remove(Kind::Tenant, &format!("t{}", (step + 2) % 5), why)?;
        Ok(())
    })
}

/// The tenants after so many steps.
fn expected(steps: u64) -> BTreeMap<String, u64> {
    let mut tenants = BTreeMap::new();
    for step in 1..=steps {
        tenants.insert(format!("t{}", step % 5), step);
        tenants.insert("all".to_owned(), step);
        tenants.remove(&format!("t{}", (step + 2) % 5));
    }
    tenants
}

/// Entries of the audit log after so many steps: two each, one for every policy, one for every tenant that was there to be
/// removed, which from the fourth step on there always is.
fn entries(steps: u64) -> u64 {
    2 * steps + steps / 4 + steps.saturating_sub(3)
}

const WORK: &str = "make-changes";
const KILLS: u64 = 25;
