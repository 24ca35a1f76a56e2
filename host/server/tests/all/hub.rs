//! A hub on this machine: the three answers of the Hugging Face Hub that a download needs.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One repository, `tiny/model`, at one commit.
pub(crate) struct Hub {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

/// A file of the repository. Large files have a digest.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) content: &'static [u8],
    pub(crate) sha256: Option<String>,
}

impl Hub {
    /// Serves `files`; the first download of a large file breaks off in the middle.
    pub(crate) fn start(files: Vec<File>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut broken_off = HashSet::new();
            for stream in listener.incoming().flatten() {
                // A client that hangs up is no reason to end.
                drop(answer(&stream, &files, &record, &mut broken_off));
            }
        });
        Self { address, seen }
    }

    /// Downloads since the last time this was asked: a file, and the byte it began with.
    pub(crate) fn downloads(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().expect("not poisoned"))
    }
}

fn answer(
    mut stream: &TcpStream,
    files: &[File],
    seen: &Mutex<Vec<String>>,
    broken_off: &mut HashSet<&'static str>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = String::new();
    for header in lines {
        let header = header?.to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(bytes) = header.strip_prefix("range: bytes=") {
            range = bytes.to_owned();
        }
    }
    if path.starts_with("/api/models/tiny/model/revision/main") {
        let listing = listing(files);
        return write!(stream, "{OK}content-length: {}\r\n\r\n{listing}", listing.len());
    }
    let wanted = path.rsplit('/').next().unwrap_or_default();
    let found = files.iter().find(|file| path.starts_with("/tiny/model/resolve/") && file.name == wanted);
    let Some(file) = found else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    };
    let all = file.content.len();
    let (from, to) = range.split_once('-').unwrap_or(("0", ""));
    let from: usize = from.parse().unwrap_or(0);
    let end = to.parse::<usize>().map_or(all, |last| (last + 1).min(all));
    let part = &file.content[from.min(end)..end];
    let etag = file.sha256.as_deref().unwrap_or(file.name);
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nconnection: close\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{all}\r\n\
         etag: \"{etag}\"\r\nx-repo-commit: {COMMIT}\r\n\r\n",
        part.len(),
        end.saturating_sub(1),
    )?;
    if to.is_empty() {
        seen.lock().expect("not poisoned").push(format!("{} from {from}", file.name));
        if file.sha256.is_some() && broken_off.insert(file.name) {
            return stream.write_all(&part[..part.len() / 2]);
        }
    }
    stream.write_all(part)
}

fn listing(files: &[File]) -> String {
    let mut siblings = String::new();
    for file in files {
        let comma = if siblings.is_empty() { "" } else { "," };
        let size = file.content.len();
        let large =
            file.sha256.as_ref().map_or_else(String::new, |sha| format!(r#","lfs":{{"sha256":"{sha}"}}"#));
        write!(siblings, r#"{comma}{{"rfilename":"{}","size":{size}{large}}}"#, file.name).expect("a string");
    }
    format!(r#"{{"sha":"{COMMIT}","siblings":[{siblings}]}}"#)
}

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
