//! The loop of somebody who writes a policy: edit the source, compile it, copy it over the served file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokenrouter::runtime::Runtime;

use crate::prebuilt::{TARGET, can_compile_policies};
use crate::reload::{PATIENCE, answer, start};

/// `examples/opening` in a package of its own, as somebody outside this workspace has it.
struct Package {
    folder: PathBuf,
    built: PathBuf,
}

impl Package {
    fn new(root: &Path, folder: PathBuf) -> Self {
        let sdk = root.join("policies/sdk");
        let manifest = format!(
            "[workspace]\n\n[package]\nname = \"opening\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\npolicy-sdk = {{ path = {sdk:?} }}\n"
        );
        fs::create_dir_all(folder.join("src")).expect("writable");
        fs::write(folder.join("Cargo.toml"), manifest).expect("writable");
        // The versions that this checkout is locked to: nothing newer is looked for.
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
        fs::copy(root.join("examples/opening/src/lib.rs"), folder.join("src/lib.rs")).expect("the example");
        Self { folder, built: root.join("target/recompile-check") }
    }

    fn edit(&self, from: &str, to: &str) {
        let source = self.folder.join("src/lib.rs");
        let text = fs::read_to_string(&source).expect("the source");
        assert!(text.contains(from), "the example no longer has: {from}");
        fs::write(&source, text.replace(from, to)).expect("writable");
    }

    /// Compiles it and copies it over `served`.
    fn deploy(&self, served: &Path) {
        let cargo = Command::new("cargo")
            .args(["build", "--release", "--target", TARGET])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.built)
            .output()
            .expect("cargo runs");
        assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
        fs::copy(self.built.join(TARGET).join("release/opening.wasm"), served).expect("copied");
    }
}

/// Answers one after the other until told to stop; each must end well (`answer` panics otherwise).
async fn keep_asking(runtime: Arc<Runtime>, stop: Arc<AtomicBool>) -> usize {
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        answer(&runtime).await;
        answers += 1;
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recompiled_policy_copied_over_the_served_file_changes_what_it_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace");
    if !can_compile_policies(root) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let package = Package::new(root, folder.path().join("opening"));
    let served = folder.path().join("policy.wasm");
    package.deploy(&served);
    let runtime = Arc::new(start(folder.path()));
    let (old, roles) = answer(&runtime).await;
    assert_eq!(roles, BTreeSet::from([0, 1]), "the large model opens, the small one goes on");

    let stop = Arc::new(AtomicBool::new(false));
    let streams: Vec<_> =
        (0..3).map(|_| tokio::spawn(keep_asking(Arc::clone(&runtime), Arc::clone(&stop)))).collect();
    package.edit("Decision::hand_off(1, self.tokens)", "Decision::Stay");
    tokio::task::block_in_place(|| package.deploy(&served));
    let copied = Instant::now();
    loop {
        let (revision, roles) = answer(&runtime).await;
        if revision != old {
            assert_eq!(roles, BTreeSet::from([0]), "the edited policy keeps every token at the small model");
            break;
        }
        assert!(copied.elapsed() < PATIENCE, "the recompiled policy does not serve");
    }
    println!("the recompiled policy serves {} ms after the copy", copied.elapsed().as_millis());
    stop.store(true, Ordering::Relaxed);
    for answers in futures_util::future::join_all(streams).await {
        assert!(answers.expect("no stream was dropped") > 0);
    }
    let runtime = Arc::into_inner(runtime).expect("nobody asks any more");
    runtime.shut_down(Duration::from_secs(5)).await;
}
