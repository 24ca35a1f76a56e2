//! The real program in a process of its own, and a client that survives its end.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A server; it is killed when this is dropped.
pub(crate) struct Running {
    address: String,
    killer: Killer,
    /// Reads what the server says, to its end.
    reader: Option<JoinHandle<()>>,
}

/// What a request brings.
pub(crate) struct Body {
    kind: &'static str,
    bytes: Vec<u8>,
}

/// Ends a server with SIGKILL.
#[derive(Clone)]
pub(crate) struct Killer(Arc<Mutex<Child>>);

impl Running {
    /// Starts the server with `config.toml` of a folder; it listens when this returns.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(e2e::binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--config"])
            .arg(folder.join("config.toml"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built: cargo test --workspace");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first = lines.next().expect("it says where it listens").expect("text");
        let address = first.split_once("http://").expect("an address").1;
        let address: String =
            address.chars().take_while(|c| c.is_ascii_digit() || [':', '.'].contains(c)).collect();
        let reader = thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let running = Self { address, killer: Killer(Arc::new(Mutex::new(child))), reader: Some(reader) };
        // It announces itself before it serves.
        while !matches!(running.ask("GET", "/ready", &Body::none()), Ok((200, _))) {
            thread::yield_now();
        }
        running
    }

    /// What the server answers; an error if it ended before it had.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Body) -> io::Result<(u16, String)> {
        let Body { kind, bytes } = body;
        let mut stream = TcpStream::connect(&self.address)?;
        let length = bytes.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), bytes].concat())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        whole(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    pub(crate) fn killer(&self) -> Killer {
        self.killer.clone()
    }
}

impl Body {
    pub(crate) fn none() -> Self {
        Self { kind: "application/json", bytes: Vec::new() }
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self { kind: "application/json", bytes: value.to_string().into_bytes() }
    }

    /// The parts of an upload like the route `pair`.
    pub(crate) fn upload(component: &[u8]) -> Self {
        let part =
            |name: &str| format!("--b0undary\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        let manifest = part("manifest") + "route = \"pair\"\r\n" + &part("component");
        let bytes = [manifest.as_bytes(), component, b"\r\n--b0undary--\r\n"].concat();
        Self { kind: "multipart/form-data; boundary=b0undary", bytes }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.killer.kill();
        self.reader.take().map(JoinHandle::join);
    }
}

impl Killer {
    /// Kills it after this time.
    pub(crate) fn kill_after(&self, moment: Duration) -> JoinHandle<()> {
        let killer = self.clone();
        thread::spawn(move || {
            thread::park_timeout(moment);
            killer.kill();
        })
    }

    fn kill(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        child.kill().expect("it can be killed, twice too");
        child.wait().expect("it ends");
    }
}

/// Status and body of an answer that is there to its end.
fn whole(answer: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    (length.parse() == Ok(body.len())).then(|| (status, body.to_owned()))
}

/// What `audit verify` says of the folder's log, once nobody else has it.
pub(crate) fn audit(folder: &Path) -> String {
    let output = Command::new(e2e::binary())
        .args(["audit", "verify", "--data-dir"])
        .arg(folder.join("state"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
