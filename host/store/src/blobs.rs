//! Bytes by their SHA-256, one file each.
//!
//! A file is written under another name, synced, and renamed, and then the folder is synced: a name is there with all its
//! bytes or not at all. What is read is checked against its name.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Digest;
use crate::error::StoreError;

/// The folder of blobs.
#[derive(Debug)]
pub struct Blobs {
    folder: PathBuf,
    /// Distinguishes files that are being written.
    writes: AtomicU64,
}

impl Blobs {
    /// Takes the folder, which must be there, and removes what was being written when the process ended.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, StoreError> {
        for name in names(&folder)? {
            if name.ends_with(PART) {
                let part = folder.join(name);
                fs::remove_file(&part).map_err(StoreError::file("removing", part))?;
            }
        }
        Ok(Self { folder, writes: AtomicU64::new(0) })
    }

    /// In a folder that is for blobs alone and may be other processes', too; it is made if it is not there.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn in_folder(folder: &Path) -> Result<Self, StoreError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(StoreError::file("making", folder))?;
        // Apart from what others write, in this process too; what they left behind may be on its way, and stays.
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let apart = TAKEN.fetch_add(1, Ordering::Relaxed) << 16;
        let writes = AtomicU64::new((u64::from(std::process::id()) << 32) + apart);
        Ok(Self { folder: folder.to_owned(), writes })
    }

    /// Keeps these bytes; they are durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if self.get(digest).is_ok() {
            return Ok(digest);
        }
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{digest}-{number}{PART}"));
        write_synced(&part, bytes).map_err(StoreError::file("writing", &part))?;
        let path = self.path(digest);
        fs::rename(&part, &path).map_err(StoreError::file("renaming to", &path))?;
        sync_folder(&self.folder)?;
        Ok(digest)
    }

    /// The bytes with this digest.
    ///
    /// # Errors
    /// [`StoreError::NoBlob`], [`StoreError::DamagedBlob`] or [`StoreError::File`].
    pub fn get(&self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::NoBlob(digest)),
            Err(error) => return Err(StoreError::file("reading", path)(error)),
        };
        if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(StoreError::DamagedBlob(digest)) }
    }

    /// The digests of all blobs.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn digests(&self) -> Result<BTreeSet<Digest>, StoreError> {
        Ok(names(&self.folder)?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Removes all others; returns how many. NB: not while a policy is being uploaded, whose bytes no record names yet.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn keep_only(&self, named: &BTreeSet<Digest>) -> Result<usize, StoreError> {
        let all = self.digests()?;
        let unnamed: Vec<Digest> = all.difference(named).copied().collect();
        for &digest in &unnamed {
            let path = self.path(digest);
            fs::remove_file(&path).map_err(StoreError::file("removing", path))?;
        }
        Ok(unnamed.len())
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::file("syncing", folder))
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(StoreError::file("listing", folder))?;
    Ok(entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// How the name of a file ends that is being written.
const PART: &str = ".part";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().to_owned()).unwrap();
        let digest = blobs.put(b"component").unwrap();
        assert_eq!(blobs.put(b"component").unwrap(), digest);
        assert_eq!(blobs.get(digest).unwrap(), b"component");
        assert!(matches!(blobs.get(Digest::of(b"other")), Err(StoreError::NoBlob(_))));
        fs::write(blobs.path(digest), b"compromised").unwrap();
        assert!(matches!(blobs.get(digest), Err(StoreError::DamagedBlob(_))));
        assert_eq!(blobs.put(b"component").unwrap(), digest, "what is damaged is written again");
        assert_eq!(blobs.get(digest).unwrap(), b"component");
    }

    #[test]
    fn leftovers_go_and_named_blobs_stay() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().to_owned()).unwrap();
        let (one, two) = (blobs.put(b"one").unwrap(), blobs.put(b"two").unwrap());
        fs::write(folder.path().join(format!("{one}-7{PART}")), b"on").unwrap();
        let blobs = Blobs::open(folder.path().to_owned()).unwrap();
        assert_eq!(names(folder.path()).unwrap().len(), 2);
        assert_eq!(blobs.keep_only(&BTreeSet::from([two])).unwrap(), 1);
        assert_eq!(blobs.digests().unwrap(), BTreeSet::from([two]));
    }
}
