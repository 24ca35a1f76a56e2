//! A registry of its own: the distribution project's, as Debian packages it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

/// A running registry; it ends when this is dropped.
pub(crate) struct Registry {
    child: Child,
    /// `127.0.0.1:PORT`
    pub(crate) host: String,
    /// Reads what it says, to its end.
    reader: Option<JoinHandle<()>>,
}

impl Registry {
    /// Starts one that keeps everything in a folder. With a line of users and the hashes of their passwords, it asks who wants
    /// something.
    pub(crate) fn start(folder: &Path, users: Option<&str>) -> Self {
        let storage = folder.join("registry");
        let mut config = format!(
            "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:0\n",
            storage.display()
        );
        if let Some(users) = users {
            let passwords = folder.join("htpasswd");
            std::fs::write(&passwords, users).expect("written");
            config += &format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", passwords.display());
        }
        let file = folder.join("registry.yml");
        std::fs::write(&file, config).expect("written");
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a registry is installed: bash tests/registry/test.sh");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let said = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
        let said = said.expect("it says where it listens");
        let host = said.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        let reader = Some(thread::spawn(move || lines.for_each(drop)));
        Self { child, host, reader }
    }

    /// Ends it; what it keeps stays.
    pub(crate) fn stop(&mut self) {
        self.child.kill().expect("it can be killed, twice too");
        self.child.wait().expect("it ends");
    }

    /// Other bytes in the place of a blob's; what they were.
    pub(crate) fn damage(folder: &Path, digest: &str, bytes: &[u8]) -> Vec<u8> {
        let blobs = folder.join("registry/docker/registry/v2/blobs/sha256");
        let file = blobs.join(&digest[..2]).join(digest).join("data");
        let before = std::fs::read(&file).expect("the blob");
        std::fs::write(&file, bytes).expect("written");
        before
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
        self.reader.take().map(JoinHandle::join);
    }
}
