//! A policy file under every way that files are replaced. Each way is used twice: a watch that dies at the first
//! replacement is the classic failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use journey::{Decision, Handoff, Role};
use policy::{Call, Digest, FileStatus, Limits, PolicyError, PolicyFile};
use tempfile::TempDir;

use crate::guest::{Guest, TRAP};
use crate::support::{host_with, session, sure};

/// Stays when sure.
static STAYS: LazyLock<Vec<u8>> = LazyLock::new(|| Guest::good().component());
/// Hands off whatever comes.
static LEAVES: LazyLock<Vec<u8>> =
    LazyLock::new(|| Guest::good().always(Call::Route, "(return (i32.const 128))").component());

/// Far above what is promised, as the machine of a test may be busy; an event ends the wait.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    folder: TempDir,
    file: PolicyFile,
}

impl Scene {
    /// Opens `policy.wasm` of a folder that `prepare` has filled with [`STAYS`].
    fn open(prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path());
        let host = host_with(Limits { sessions: 4, ..Limits::default() });
        let opened = PolicyFile::open(host, &folder.path().join("policy.wasm"), |_| Ok(()));
        let file = opened.expect("the file serves");
        assert_eq!(file.current().digest(), Digest::of(&STAYS));
        Self { folder, file }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn await_serving(&self, component: &[u8]) {
        let digest = Digest::of(component);
        let status = self.file.wait(PATIENCE, |status| status.serving == digest);
        assert_eq!(status.serving, digest, "{status:?}");
        assert!(status.failed.is_none(), "{status:?}");
        assert_eq!(self.file.current().digest(), digest);
    }

    fn await_failure(&self, component: Option<&[u8]>) -> FileStatus {
        let digest = component.map(Digest::of);
        let status = self
            .file
            .wait(PATIENCE, |status| status.failed.as_ref().is_some_and(|failed| failed.digest == digest));
        assert!(status.failed.is_some(), "{status:?}");
        status
    }

    /// Two updates by the same way: to [`LEAVES`] and back.
    fn update_twice(&self, update: impl Fn(&Self, &[u8])) {
        for component in [&*LEAVES, &*STAYS] {
            update(self, component);
            self.await_serving(component);
        }
        assert_eq!(self.file.status().loads, 3);
    }
}

fn plain(folder: &Path) {
    fs::write(folder.join("policy.wasm"), &*STAYS).expect("the folder is ours");
}

#[test]
fn written_in_place() {
    Scene::open(plain)
        .update_twice(|scene, component| fs::write(scene.path("policy.wasm"), component).unwrap());
}

#[test]
fn renamed_over() {
    Scene::open(plain).update_twice(|scene, component| {
        fs::write(scene.path("policy.wasm.new"), component).unwrap();
        fs::rename(scene.path("policy.wasm.new"), scene.path("policy.wasm")).unwrap();
    });
}

#[test]
fn deleted_and_written_again() {
    Scene::open(plain).update_twice(|scene, component| {
        fs::remove_file(scene.path("policy.wasm")).unwrap();
        let status = scene.await_failure(None);
        let failed = status.failed.unwrap();
        assert!(matches!(*failed.error, PolicyError::Read { .. }), "{}", failed.error);
        fs::write(scene.path("policy.wasm"), component).unwrap();
    });
}

#[cfg(unix)]
#[test]
fn swapped_as_a_config_map() {
    use std::os::unix::fs::symlink;
    let scene = Scene::open(|folder| {
        fs::create_dir(folder.join("..v0")).unwrap();
        fs::write(folder.join("..v0/policy.wasm"), &*STAYS).unwrap();
        symlink("..v0", folder.join("..data")).unwrap();
        symlink("..data/policy.wasm", folder.join("policy.wasm")).unwrap();
    });
    scene.update_twice(|scene, component| {
        let version = format!("..v{}", scene.file.status().loads);
        fs::create_dir(scene.path(&version)).unwrap();
        fs::write(scene.path(&version).join("policy.wasm"), component).unwrap();
        symlink(&version, scene.path("..data_tmp")).unwrap();
        let before = fs::read_link(scene.path("..data")).unwrap();
        fs::rename(scene.path("..data_tmp"), scene.path("..data")).unwrap();
        fs::remove_dir_all(scene.folder.path().join(before)).unwrap();
    });
}

#[cfg(unix)]
#[test]
fn changed_behind_a_symlink_of_another_directory() {
    use std::os::unix::fs::symlink;
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("real.wasm");
    fs::write(&target, &*STAYS).unwrap();
    let scene = Scene::open(|folder| symlink(&target, folder.join("policy.wasm")).unwrap());
    scene.update_twice(|_, component| fs::write(&target, component).unwrap());
}

#[cfg(unix)]
#[test]
fn a_symlink_that_is_pointed_elsewhere() {
    use std::os::unix::fs::symlink;
    let elsewhere = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let target = |which: usize| elsewhere[which].path().join("real.wasm");
    fs::write(target(0), &*STAYS).unwrap();
    let scene = Scene::open(|folder| symlink(target(0), folder.join("policy.wasm")).unwrap());
    scene.update_twice(|scene, component| {
        let next = target(scene.file.status().loads as usize % 2);
        fs::write(&next, component).unwrap();
        symlink(next, scene.path("link.new")).unwrap();
        fs::rename(scene.path("link.new"), scene.path("policy.wasm")).unwrap();
    });
    // The watch has followed: the file that the link now points to may change, too.
    fs::write(target(0), &*LEAVES).unwrap();
    scene.await_serving(&LEAVES);
}

#[test]
fn a_hundred_saves_in_a_second_end_with_the_last_and_few_compilations() {
    let folder = tempfile::tempdir().unwrap();
    plain(folder.path());
    let host = host_with(Limits { sessions: 4, ..Limits::default() });
    let file = PolicyFile::open(Arc::clone(&host), &folder.path().join("policy.wasm"), |_| Ok(())).unwrap();
    let scene = Scene { folder, file };
    let mut last = Vec::new();
    for save in 0..100_u8 {
        last.clone_from(&STAYS);
        // A custom section makes it another component.
        last.extend([0, 3, 1, b'n', save]);
        if save % 2 == 0 {
            fs::write(scene.path("policy.wasm"), &last).unwrap();
        } else {
            fs::write(scene.path("policy.wasm.new"), &last).unwrap();
            fs::rename(scene.path("policy.wasm.new"), scene.path("policy.wasm")).unwrap();
        }
        let status = scene.file.wait(Duration::from_millis(10), |_| false);
        assert!(status.loads <= 12, "{status:?}");
    }
    scene.await_serving(&last);
    let compiled = host.compilations().compiled;
    assert!(compiled <= 12, "{compiled} compilations");
}

#[test]
fn gone_with_its_directory_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("policies");
    let fill = |component: &[u8]| {
        fs::create_dir(&home).unwrap();
        fs::write(home.join("policy.wasm"), component).unwrap();
    };
    fill(&STAYS);
    let host = host_with(Limits { sessions: 4, ..Limits::default() });
    let file = PolicyFile::open(host, &home.join("policy.wasm"), |_| Ok(())).unwrap();
    let scene = Scene { folder, file };
    scene.update_twice(|scene, component| {
        fs::remove_dir_all(scene.path("policies")).unwrap();
        scene.await_failure(None);
        fill(component);
    });
}

#[test]
fn half_of_a_file_does_not_serve() {
    Scene::open(plain).update_twice(|scene, component| {
        let serving = scene.file.status().serving;
        let half = &component[..component.len() / 2];
        fs::write(scene.path("policy.wasm"), half).unwrap();
        let status = scene.await_failure(Some(half));
        assert_eq!(status.serving, serving, "the revision before it goes on serving");
        fs::write(scene.path("policy.wasm"), component).unwrap();
    });
}

#[test]
fn content_that_fails_is_kept_out_until_it_is_replaced() {
    let scene = Scene::open(plain);
    let bad = Guest::good().always(Call::Send, TRAP).component();
    fs::write(scene.path("policy.wasm"), &bad).unwrap();
    let failed = scene.await_failure(Some(&bad)).failed.unwrap();
    assert!(matches!(*failed.error, PolicyError::Trap { call: Call::Send, .. }), "{}", failed.error);
    fs::write(scene.path("policy.wasm"), &*STAYS).unwrap();
    let status = scene.file.wait(PATIENCE, |status| status.failed.is_none());
    assert!(status.failed.is_none(), "{status:?}");
    assert_eq!(status.loads, 1, "the serving revision was never replaced");
}

#[test]
fn the_owner_can_refuse_a_revision() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.wasm");
    fs::write(&path, &*STAYS).unwrap();
    let host = host_with(Limits { sessions: 4, ..Limits::default() });
    let wanted = Digest::of(&STAYS);
    let check = move |revision: &policy::Revision| match revision.digest() == wanted {
        true => Ok(()),
        false => Err("the route wants another".to_owned()),
    };
    let file = PolicyFile::open(Arc::clone(&host), &path, check).unwrap();
    let scene = Scene { folder, file };
    fs::write(&path, &*LEAVES).unwrap();
    let failed = scene.await_failure(Some(&LEAVES)).failed.unwrap();
    assert!(failed.error.to_string().ends_with("the route wants another"), "{}", failed.error);
    assert_eq!(scene.file.current().digest(), Digest::of(&STAYS));
    let error = PolicyFile::open(host, &path, check).expect_err("it is refused from the start, too");
    assert!(matches!(error, PolicyError::Refused { .. }), "{error}");
}

#[test]
fn a_file_that_is_not_there_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let host = host_with(Limits { sessions: 4, ..Limits::default() });
    let error =
        PolicyFile::open(host, &folder.path().join("none.wasm"), |_| Ok(())).expect_err("there is no file");
    assert!(error.to_string().contains("none.wasm"), "{error}");
}

#[test]
fn journeys_keep_the_revision_they_began_with() {
    let scene = Scene::open(plain);
    let mut old = session(&scene.file.current());
    assert_eq!(old.route(10, &sure()).unwrap(), Decision::Stay);
    fs::write(scene.path("policy.wasm"), &*LEAVES).unwrap();
    scene.await_serving(&LEAVES);
    let mut new = session(&scene.file.current());
    let leaves = Decision::Handoff(Handoff::new(Role(1), std::num::NonZeroU32::new(1)));
    assert_eq!(new.route(10, &sure()).unwrap(), leaves);
    assert_eq!(old.route(11, &sure()).unwrap(), Decision::Stay);
    assert_eq!(old.revision().digest(), Digest::of(&STAYS));
}
