//! Notices that something happened near a file.
//!
//! A watch on the file itself is lost at the first rename over it, and a ConfigMap changes a symlink two levels up. So
//! the directories are watched: of the file, and of every symlink on the way to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Wakes the reloading thread.
pub(super) struct Sight {
    path: PathBuf,
    /// `None` where the system gives no watch; polling then does it alone.
    watcher: Option<RecommendedWatcher>,
    /// Watched directories, with what tells that one was replaced by another of the same name.
    watched: BTreeMap<PathBuf, Identity>,
}

impl Sight {
    pub(super) fn new(path: &Path, wake: SyncSender<()>) -> Self {
        let tell = move |event: notify::Result<Event>| {
            // An error is a lost event: look.
            if event.as_ref().map_or(true, may_change) {
                nudge(&wake);
            }
        };
        let watcher = notify::recommended_watcher(tell)
            .inspect_err(|error| tracing::warn!(%error, "no file events here; policy files are polled"))
            .ok();
        let mut sight = Self { path: path.to_owned(), watcher, watched: BTreeMap::new() };
        sight.renew();
        sight
    }

    /// Watches the directories that matter now: symlinks may point elsewhere, directories come and go.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let identify = |directory: PathBuf| Some((directory.clone(), Identity::of(&directory)?));
        let wanted: BTreeMap<_, _> = directories(&self.path).into_iter().filter_map(identify).collect();
        self.watched.retain(|directory, identity| {
            let keep = wanted.get(directory) == Some(identity);
            if !keep && let Err(error) = watcher.unwatch(directory) {
                // The system drops the watch of a removed directory by itself.
                tracing::trace!(%error, directory = %directory.display(), "dropping a watch");
            }
            keep
        });
        for (directory, identity) in wanted {
            if self.watched.contains_key(&directory) {
                continue;
            }
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(directory, identity);
                }
                Err(error) => {
                    tracing::debug!(%error, directory = %directory.display(), "cannot watch; polling");
                }
            }
        }
    }
}

/// Wakes the reloading thread without ever waiting for it.
pub(super) fn nudge(wake: &SyncSender<()>) {
    match wake.try_send(()) {
        // Full: it is about to look anyway. Disconnected: nobody is left to look.
        Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
    }
}

/// Whether the event may mean new content. Reading is not: our own looks would wake us for ever.
fn may_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// The directories that hold the file and every symlink on the way to it.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut path = path.to_owned();
    for _ in 0..SYMLINKS_MOST {
        let Some((link, target)) = first_symlink(&path) else { break };
        let parent = link.parent().unwrap_or(&path).to_owned();
        let rest = path.strip_prefix(&link).map(Path::to_owned).unwrap_or_default();
        // Joining an absolute target replaces the parent, as the system does.
        let mut next = parent.join(target);
        next.extend(&rest);
        path = next;
        found.insert(parent);
    }
    found.extend(path.parent().map(Path::to_owned));
    found
}

fn first_symlink(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut prefix = PathBuf::new();
    path.components().find_map(|component| {
        prefix.push(component);
        fs::read_link(&prefix).ok().map(|target| (prefix.clone(), target))
    })
}

/// Tells a directory from another that took its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(directory: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(directory).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    #[cfg(not(unix))]
    fn of(directory: &Path) -> Option<Self> {
        fs::metadata(directory).ok().map(|_| Self { device: 0, inode: 0 })
    }
}

/// As many as the system follows.
const SYMLINKS_MOST: usize = 40;

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_directory_on_the_way_is_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("mount/..2026")).unwrap();
        fs::write(root.join("mount/..2026/policy.wasm"), b"x").unwrap();
        symlink("..2026", root.join("mount/..data")).unwrap();
        symlink("..data/policy.wasm", root.join("mount/policy.wasm")).unwrap();
        symlink(root.join("mount/policy.wasm"), root.join("link.wasm")).unwrap();
        let expected = [root.clone(), root.join("mount"), root.join("mount/..2026")];
        assert_eq!(directories(&root.join("link.wasm")), BTreeSet::from(expected));
    }

    #[test]
    fn a_loop_of_symlinks_ends() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert!(directories(&root.path().join("a")).contains(root.path()));
    }
}
