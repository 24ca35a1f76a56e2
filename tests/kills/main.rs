//! The server, killed at any moment while policies are uploaded, activated, rolled back and deleted, and experiments are
//! created, changed, ended, begun anew and deleted, comes back in a state that was acknowledged, or in the one after it whose
//! acknowledgement was on its way; and its audit log verifies.
//!
//! The real program over real HTTP, ended with SIGKILL. `cargo test --workspace --test kills -- 100` kills a hundred; the
//! default is [`KILLS`].

#![expect(clippy::print_stdout, reason = "a test without a harness tells its result")]

mod changes;
mod running;
mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use changes::{Change, Changes};
use rand::RngExt as _;
use running::{Body, Running, audit};
use serde_json::Value;
use state::{State, Told};

fn main() {
    let kills = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(KILLS);
    let (folder, begun) = (tempfile::tempdir().expect("a folder"), Instant::now());
    std::fs::write(folder.path().join("config.toml"), CONFIG).expect("written");
    let mut test = Test { state: State::default(), changes: Changes::new(6), done: 0, ahead: 0 };
    let mut server = Running::start(folder.path());
    for kill in 0..kills {
        let in_flight = test.change_until_killed(&server);
        server = Running::start(folder.path());
        test.settle(&server, in_flight);
        test.check(&server, folder.path(), kill);
    }
    drop(server);
    let told = audit(folder.path());
    assert!(told.starts_with(&format!("{} entries hold together", START + test.done + test.ahead)), "{told}");
    println!(
        "test killed_during_changes ... ok ({kills} kills; acknowledged: {}; {} more made; {:.0?})",
        test.changes.told(),
        test.ahead,
        begun.elapsed()
    );
}

struct Test {
    /// What was acknowledged.
    state: State,
    changes: Changes,
    /// Changes that were acknowledged and left an entry in the log.
    done: u64,
    /// Changes that were made and not acknowledged.
    ahead: u64,
}

impl Test {
    /// Makes one change after the other until the server is killed. Returns the change that was not acknowledged.
    fn change_until_killed(&mut self, server: &Running) -> Option<Change> {
        let mut left = self.changes.rng.random_range(0..4);
        let killer = server.killer();
        loop {
            let change = self.changes.change(&self.state);
            let moment = Duration::from_micros(self.changes.rng.random_range(0..change.takes_us()));
            let timer = (left == 0).then(|| killer.kill_after(moment));
            let answer = server.ask(change.method, &change.path, &change.body);
            if let Some(timer) = timer {
                timer.join().expect("no panic");
            }
            match answer {
                Ok((status, body)) => {
                    assert!(status < 300, "{} {}: {status} {body}", change.method, change.path);
                    self.done += u64::from(change.next != self.state);
                    self.changes.count(&change);
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
    fn settle(&mut self, server: &Running, in_flight: Option<Change>) {
        let get = |path: &str| json(&server.ask("GET", path, &Body::none()).expect("it runs").1);
        let found = Told::of_server(&get("/v1/policies"), &get("/admin/experiments"));
        if found == self.state.told() {
            return;
        }
        let next = in_flight.map(|change| change.next).filter(|next| next.told() == found);
        let Some(next) = next else {
            panic!("acknowledged was {:#?}, there is {found:#?}", self.state.told())
        };
        self.state = next;
        self.ahead += 1;
    }

    /// The log verifies, and there are the bytes of all revisions that somebody names and no others.
    fn check(&self, server: &Running, folder: &Path, kill: u64) {
        let (status, body) = server.ask("GET", "/admin/audit/verify", &Body::none()).expect("it runs");
        assert_eq!(status, 200, "kill {kill}: {body}");
        assert_eq!(json(&body)["head"]["sequence"], START + self.done + self.ahead, "kill {kill}: {body}");
        let blobs = std::fs::read_dir(folder.join("state/blobs")).expect("the folder");
        let mut there: Vec<String> =
            blobs.map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII")).collect();
        there.sort();
        assert!(there.iter().eq(&self.state.revisions()), "kill {kill}: {there:?}");
    }
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

const CONFIG: &str = "[server]\ndata_dir = \"state\"\n[uploads]\nrevisions_max = 4\n\
    [models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
    [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:pinned\"\n\
    [routes.twin]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:pinned\"\n";
/// Entries for the configuration, which stays the same.
const START: u64 = 1;
const KILLS: u64 = 5;
