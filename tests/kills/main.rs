//! The server, killed at any moment while policies are uploaded, activated, rolled back and deleted, comes back in a state
//! that was acknowledged, or in the one after it whose acknowledgement was on its way; and its audit log verifies.
//!
//! The real program over real HTTP, ended with SIGKILL. `cargo test --workspace --test kills -- 100` kills a hundred; the
//! default is [`KILLS`].

#![expect(clippy::print_stdout, reason = "a test without a harness tells its result")]

mod running;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use running::{Running, audit};
use serde_json::{Value, json};
use store::Digest;
use store::policy_history::{Activation, Manifest, PolicyHistory, Uploaded};
use tokenrouter::runtime::builtin_policies;

fn main() {
    let kills = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(KILLS);
    let (folder, begun) = (tempfile::tempdir().expect("a folder"), Instant::now());
    std::fs::write(folder.path().join("config.toml"), CONFIG).expect("written");
    let mut test = Test { state: State::new(), rng: StdRng::seed_from_u64(6), number: 0, done: 0, ahead: 0 };
    let mut server = Running::start(folder.path());
    for kill in 0..kills {
        let in_flight = test.change_until_killed(&server);
        server = Running::start(folder.path());
        test.settle(&server, in_flight.as_ref());
        test.check(&server, folder.path(), kill);
    }
    drop(server);
    let told = audit(folder.path());
    assert!(told.starts_with(&format!("{} entries hold together", START + test.done + test.ahead)), "{told}");
    println!(
        "test killed_during_uploads ... ok ({kills} kills, {} changes acknowledged, {} more made, {:.0?})",
        test.done,
        test.ahead,
        begun.elapsed()
    );
}

/// What was acknowledged, by name.
type State = BTreeMap<String, PolicyHistory>;

struct Test {
    state: State,
    rng: StdRng,
    /// Of the next component.
    number: u32,
    /// Changes that were acknowledged.
    done: u64,
    /// Changes that were made and not acknowledged.
    ahead: u64,
}

/// A change, and the state that it leads to.
struct Change {
    method: &'static str,
    path: String,
    body: Vec<u8>,
    next: State,
}

impl Change {
    fn takes_us(&self) -> u64 {
        if self.method == "PUT" { UPLOAD_US } else { OTHER_US }
    }
}

impl Test {
    /// Makes one change after the other until the server is killed. Returns the change that was not acknowledged.
    fn change_until_killed(&mut self, server: &Running) -> Option<Change> {
        let mut left = self.rng.random_range(0..4);
        let killer = server.killer();
        loop {
            let change = self.change();
            let moment = Duration::from_micros(self.rng.random_range(0..change.takes_us()));
            let timer = (left == 0).then(|| killer.kill_after(moment));
            let answer = server.ask(change.method, &change.path, &change.body);
            if let Some(timer) = timer {
                timer.join().expect("no panic");
            }
            match answer {
                Ok((status, body)) => {
                    assert!(status < 300, "{} {}: {status} {body}", change.method, change.path);
                    self.done += u64::from(change.next != self.state);
                    self.state = change.next;
                }
                Err(_) => return Some(change),
            }
            if left == 0 {
                return None;
            }
            left -= 1;
        }
    }

    /// The server has what was acknowledged, or the change after it as well.
    fn settle(&mut self, server: &Running, in_flight: Option<&Change>) {
        let (_, body) = server.ask("GET", "/v1/policies", b"").expect("it runs");
        let told: Value = serde_json::from_str(&body).expect("JSON");
        let found = of_server(&told);
        if found == of_test(&self.state) {
            return;
        }
        let next = in_flight.map(|change| &change.next).filter(|next| of_test(next) == found);
        let Some(next) = next else {
            panic!("acknowledged was {:?}, there is {told:#}", of_test(&self.state));
        };
        self.state = next.clone();
        self.ahead += 1;
    }

    /// The log verifies, and there are the bytes of all revisions and no others.
    fn check(&self, server: &Running, folder: &Path, kill: u64) {
        let (status, body) = server.ask("GET", "/admin/audit/verify", b"").expect("it runs");
        assert_eq!(status, 200, "kill {kill}: {body}");
        let told: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(told["head"]["sequence"], START + self.done + self.ahead, "kill {kill}: {told}");
        let revisions = self.state.values().flat_map(|history| &history.revisions);
        let mut wanted: Vec<String> = revisions.map(|uploaded| uploaded.digest.to_string()).collect();
        let blobs = std::fs::read_dir(folder.join("state/blobs")).expect("the folder");
        let mut there: Vec<String> =
            blobs.map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII")).collect();
        wanted.sort();
        there.sort();
        assert_eq!(there, wanted, "kill {kill}");
    }

    /// Something that can be done in this state.
    fn change(&mut self) -> Change {
        let name = format!("p{}", self.rng.random_range(0..3));
        let path = format!("/v1/policies/{name}");
        let there = self.state.get(&name).cloned();
        let mut next = self.state.clone();
        let draw = self.rng.random_range(0..10);
        match there {
            Some(there) if draw < 2 && there.active.len() > 1 => {
                next.insert(name, there.roll_back().expect("a way back"));
                Change { method: "POST", path: path + "/rollback", body: Vec::new(), next }
            }
            Some(there) if draw < 4 => {
                let digest = there.revisions[self.rng.random_range(0..there.revisions.len())].digest;
                if there.serving() != Some(digest) {
                    next.insert(name, there.activate(activation(digest)).expect("it is there"));
                }
                let body = json!({"revision": digest}).to_string().into_bytes();
                Change { method: "POST", path: path + "/activate", body, next }
            }
            Some(_) if draw < 5 => {
                next.remove(&name);
                Change { method: "DELETE", path, body: Vec::new(), next }
            }
            there => {
                self.number += 1;
                let component = component(self.number);
                let digest = Digest::of(&component);
                let kept = there.unwrap_or_default().keep(REVISIONS_MAX - 1).0;
                let kept = kept.upload(uploaded(digest)).expect("room");
                next.insert(name, kept.activate(activation(digest)).expect("it is there"));
                Change { method: "PUT", path, body: component, next }
            }
        }
    }
}

/// Of each policy the active revision and all of them, the newest first.
type Summary = BTreeMap<String, (String, Vec<String>)>;

fn of_server(told: &Value) -> Summary {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let policies = told["data"].as_array().expect("a list").iter();
    let revisions = |policy: &Value| -> Vec<String> {
        policy["revisions"].as_array().expect("a list").iter().map(|of| text(&of["revision"])).collect()
    };
    policies
        .map(|policy| {
            assert_eq!(policy.get("broken"), None, "{policy}");
            (text(&policy["name"]), (text(&policy["active"]), revisions(policy)))
        })
        .collect()
}

fn of_test(state: &State) -> Summary {
    let summary = |history: &PolicyHistory| {
        let revisions = history.revisions.iter().rev().map(|uploaded| uploaded.digest.to_string());
        (history.serving().expect("active").to_string(), revisions.collect())
    };
    state.iter().map(|(name, history)| (name.clone(), summary(history))).collect()
}

/// A component of its own: a custom section tells it from the others.
fn component(number: u32) -> Vec<u8> {
    let policies = builtin_policies();
    let (_, pinned) = policies.iter().find(|(name, _)| *name == "pinned").expect("built in");
    let section = [&[0, 9, 4][..], b"mark", &number.to_le_bytes()].concat();
    [pinned, &section[..]].concat()
}

fn uploaded(digest: Digest) -> Uploaded {
    let (by, policy, doc) = (String::new(), String::new(), String::new());
    Uploaded { digest, at_unix_ms: 0, by, bytes: 0, policy, doc, manifest: Manifest::default() }
}

fn activation(digest: Digest) -> Activation {
    Activation { digest, at_unix_ms: 0, by: String::new(), reason: String::new() }
}

const CONFIG: &str = "[server]\ndata_dir = \"state\"\n[uploads]\nrevisions_max = 4\n\
    [models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
    [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:pinned\"\n";
const REVISIONS_MAX: usize = 4;
/// Entries for the configuration, which stays the same.
const START: u64 = 1;
/// About what an upload takes, and any other change.
const UPLOAD_US: u64 = 1_000_000;
const OTHER_US: u64 = 40_000;
const KILLS: u64 = 5;
