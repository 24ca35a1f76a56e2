//! Compiled components on disk: a restart or a reload of known bytes costs a read instead of a compilation.
//!
//! A compiled component is machine code that this process runs outside of any sandbox, so who can write it can do
//! anything this process can. Two things protect it. The directory must belong to the user of this process and be closed
//! to everybody else, and is refused otherwise. And each file begins with a digest of its name and content, so one that
//! was torn, damaged or exchanged is compiled again; that is no protection against someone who may write there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::digest::Digest;
use crate::error::PolicyError;

/// A directory of compiled components, named by what they were compiled from and for.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    /// The engine's configuration: code for another one is not found.
    engine: Digest,
    /// Distinguishes the files that are being written.
    writes: AtomicU64,
}

impl Cache {
    /// Takes the directory if it is safe; makes it if there is none.
    pub(crate) fn open(directory: &Path, engine: Digest) -> Result<Self, PolicyError> {
        let cache = Self { directory: directory.to_owned(), engine, writes: AtomicU64::new(0) };
        let made = DirBuilder::new().mode(0o700).create(directory);
        let ready = match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => cache.check(),
        };
        ready.map_err(|source| PolicyError::Cache { directory: directory.to_owned(), source })?;
        Ok(cache)
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The compiled form of these bytes, if it is there and whole.
    pub(crate) fn read(&self, component: Digest) -> Option<Vec<u8>> {
        let path = self.path(component);
        match self.check().and_then(|()| self.read_file(component, &path)) {
            Ok(artifact) => Some(artifact),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a compiled policy is not used; compiling it again");
                None
            }
        }
    }

    /// Keeps a compiled form. That it cannot be kept costs time later and nothing else.
    pub(crate) fn write(&self, component: Digest, artifact: &[u8]) {
        let path = self.path(component);
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        let part = self.directory.join(format!("{}-{write}.part", std::process::id()));
        let written = self.check().and_then(|()| self.write_file(component, &part, artifact));
        if let Err(error) = written.and_then(|()| fs::rename(&part, &path)).and_then(|()| self.prune()) {
            tracing::warn!(path = %path.display(), %error, "a compiled policy is not kept");
            if let Err(error) = fs::remove_file(&part) {
                tracing::trace!(%error, "it may not even be there");
            }
        }
    }

    /// Whether the directory is ours alone.
    fn check(&self) -> io::Result<()> {
        let metadata = fs::metadata(&self.directory)?;
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if !metadata.is_dir() {
            return refuse("it is not a directory".to_owned());
        }
        let (owner, user) = (metadata.uid(), user());
        if owner != user {
            return refuse(format!("it belongs to user {owner}, but the server runs as user {user}"));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return refuse(format!(
                "its mode is {mode:04o}; what is there runs as the server, so close it to others: set it to 0700"
            ));
        }
        Ok(())
    }

    fn path(&self, component: Digest) -> PathBuf {
        self.directory.join(self.name(component))
    }

    fn name(&self, component: Digest) -> String {
        format!("{component:#}-{}.cwasm", self.engine)
    }

    fn read_file(&self, component: Digest, path: &Path) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        if !metadata.is_file() || metadata.uid() != user() || metadata.mode() & 0o022 != 0 {
            return Err(damaged("it is not a file that only the server can write"));
        }
        let mut content = Vec::new();
        (&file).take(ARTIFACT_BYTES_MOST).read_to_end(&mut content)?;
        if content.len() < HEAD_BYTES {
            return Err(damaged("it is cut off"));
        }
        let artifact = content.split_off(HEAD_BYTES);
        if content != self.head(component, &artifact) {
            return Err(damaged("it is damaged"));
        }
        // The oldest go first when there are too many.
        file.set_modified(SystemTime::now())?;
        Ok(artifact)
    }

    fn write_file(&self, component: Digest, path: &Path, artifact: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&self.head(component, artifact))?;
        file.write_all(artifact)
    }

    fn head(&self, component: Digest, artifact: &[u8]) -> Vec<u8> {
        let digest = Digest::of_parts([self.name(component).as_bytes(), artifact]);
        [MAGIC, digest.as_bytes()].concat()
    }

    /// Removes what was used longest ago until the rest fits.
    fn prune(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
        let mut bytes = 0;
        for (_, size, path) in files {
            bytes += size;
            if bytes > CACHE_BYTES_MOST {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Whose rights this process has.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

const MAGIC: &[u8] = b"cwasm\0\0\x01";
const HEAD_BYTES: usize = MAGIC.len() + 32;
/// Python's runtime is 33 MiB when compiled.
const ARTIFACT_BYTES_MOST: u64 = 512 << 20;
const CACHE_BYTES_MOST: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn cache(directory: &Path) -> Cache {
        Cache::open(directory, Digest::of(b"engine")).expect("it is ours")
    }

    /// A folder that is closed to others.
    fn closed() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let folder = closed();
        let cache = cache(folder.path());
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        assert!(cache.read(one).is_none());
        cache.write(one, b"code");
        assert_eq!(cache.read(one).unwrap(), b"code");
        assert!(cache.read(other).is_none());
        fs::copy(cache.path(one), cache.path(other)).unwrap();
        assert!(cache.read(other).is_none(), "a file under another name is not believed");
        let another = Cache::open(folder.path(), Digest::of(b"another engine")).unwrap();
        assert!(another.read(one).is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no part is left");
    }

    #[test]
    fn a_damaged_file_is_not_used_and_is_replaced() {
        let folder = closed();
        let cache = cache(folder.path());
        let digest = Digest::of(b"one");
        cache.write(digest, b"some code");
        let whole = fs::read(cache.path(digest)).unwrap();
        for length in 0..whole.len() {
            fs::write(cache.path(digest), &whole[..length]).unwrap();
            assert!(cache.read(digest).is_none(), "cut to {length}");
            let mut flipped = whole.clone();
            flipped[length] ^= 1;
            fs::write(cache.path(digest), &flipped).unwrap();
            assert!(cache.read(digest).is_none(), "flipped at {length}");
        }
        cache.write(digest, b"some code");
        assert_eq!(cache.read(digest).unwrap(), b"some code");
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let folder = closed();
        let open = || Cache::open(folder.path(), Digest::of(b"engine"));
        let cache = open().unwrap();
        cache.write(Digest::of(b"one"), b"code");
        for mode in [0o750, 0o701, 0o777, 0o720] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = open().expect_err("it is open to others");
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(&format!("{mode:04o}")) && source.contains("set it to 0700"), "{source}");
            assert!(cache.read(Digest::of(b"one")).is_none(), "not even later");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(cache.read(Digest::of(b"one")).is_some());
    }

    #[test]
    fn a_directory_is_made_for_us_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("policies");
        cache(&directory);
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(matches!(Cache::open(&file, Digest::of(b"engine")), Err(PolicyError::Cache { .. })));
        assert!(Cache::open(&folder.path().join("none/below"), Digest::of(b"engine")).is_err());
    }
}
