//! The real program in a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// A server; it is killed when this is dropped.
pub(crate) struct Running {
    address: SocketAddr,
    child: Mutex<Child>,
}

impl Running {
    /// Starts it with a configuration of its own in a folder; it is ready when this returns.
    pub(crate) async fn start(folder: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        write_config(folder, 0);
        let child = Command::new(e2e::binary())
            .args(["--log", "warn", "serve", "--listen", &address.to_string(), "--config"])
            .arg(folder.join("config.toml"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program is built: cargo test --workspace");
        let running = Self { address, child: Mutex::new(child) };
        let ready = async {
            loop {
                let listens = tokio::net::TcpStream::connect(address).await.is_ok();
                if listens && e2e::ask(address, None, ("GET", "/ready"), "").await.status == 200 {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("it gets ready");
        running
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.lock().expect("nobody panics with it").id()
    }

    /// The gauges that are not 0 a while after the last client has gone.
    pub(crate) async fn settled(&self) -> Vec<String> {
        let mut left = Vec::new();
        for _ in 0..100 {
            let page = e2e::ask(self.address, None, ("GET", "/metrics"), "").await.text;
            let of_clients =
                |line: &&str| GAUGES.iter().any(|gauge| line.starts_with(gauge)) && !line.ends_with(" 0");
            left = page.lines().filter(of_clients).map(str::to_owned).collect();
            if left.is_empty() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        left
    }

    /// Whether it ends with 0 after SIGTERM.
    pub(crate) async fn terminate(&self) -> bool {
        let process = rustix::process::Pid::from_raw(self.process().cast_signed()).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
        for _ in 0..PATIENCE.as_millis() / 50 {
            let ended = self.child.lock().expect("nobody panics with it").try_wait().expect("it is ours");
            if let Some(status) = ended {
                return status.success();
            }
            sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // It may have ended.
        drop(child.kill());
        drop(child.wait());
    }
}

/// The configuration of a turn: in every other one there is a route more, and a threshold that is another one.
pub(crate) fn write_config(folder: &Path, turn: u64) {
    let state = folder.join("state").display().to_string();
    let watched = folder.join("watched.wasm");
    if !watched.exists() {
        std::fs::write(&watched, component("entropy")).expect("the folder is ours");
    }
    // A build for tests calls policies several times slower than one for use, and none is to be slow for that: who is slow waits for
    // threads of the lowest priority, which get nothing on a machine that is also busy with other things.
    let in_step_us = if cfg!(debug_assertions) { 2000 } else { 100 };
    let (watched, threshold) = (watched.display().to_string(), 0.3 + 0.1 * (turn % 3) as f64);
    let more = if turn.is_multiple_of(2) {
        ""
    } else {
        "[routes.\"pair/more\"]\nmodels = [\"large\"]\npolicy = \"builtin:pinned\"\nsettings = { role = 0 }\n"
    };
    let text = format!(
        "[server]\njourneys_max = 48\nqueue_max = 64\ndata_dir = {state:?}\nwrite_seconds = 2\nping_seconds = 1\n\
         [sandbox]\nin_step_us = {in_step_us}\n[scheduler]\nmode = \"ours\"\n\
         [models.small]\nfiles = \"embedded:small\"\nkv_mib = 8\n[models.large]\nfiles = \"embedded:large\"\nkv_mib = 8\n\
         [routes.\"pair/entropy\"]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\nsettings = {{ threshold = {threshold:.1} }}\n\
         [routes.\"pair/random\"]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:random-share\"\n\
         [routes.\"pair/speculative\"]\nmodels = [\"large\", \"small\"]\npolicy = \"builtin:speculative\"\n\
         [routes.\"pair/watched\"]\nmodels = [\"small\", \"large\"]\npolicy = {watched:?}\n{more}"
    );
    // As deployments do it: the new content appears at once.
    let new = folder.join("config.new");
    std::fs::write(&new, text).expect("the folder is ours");
    std::fs::rename(new, folder.join("config.toml")).expect("the folder is ours");
}

/// A built-in policy's component.
pub(crate) fn component(name: &str) -> &'static [u8] {
    let all = tokenrouter::runtime::builtin_policies();
    all.into_iter().find(|(known, _)| *known == name).expect("built in").1
}

/// The same under another digest: a custom section more.
pub(crate) fn marked(name: &str, number: u64) -> Vec<u8> {
    [component(name), &[0, 13, 4], b"soak", &number.to_le_bytes()].concat()
}

const GAUGES: [&str; 4] = [
    "tokenrouter_num_requests_running",
    "tokenrouter_num_requests_waiting",
    "tokenrouter_num_requests_parked",
    "tokenrouter_kv_cache_tokens",
];
const PATIENCE: Duration = Duration::from_secs(60);
