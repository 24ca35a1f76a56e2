//! The components in `policies/prebuilt` are what the sources give.

use std::path::Path;
use std::process::Command;

pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Whether the Wasm target is installed. CI sets `TOKENROUTER_REQUIRE_WASM`: there it must be.
#[expect(clippy::print_stdout, reason = "a test says what it skips")]
pub(crate) fn can_compile_policies(root: &Path) -> bool {
    let installed = target_is_installed(root);
    let required = std::env::var_os("TOKENROUTER_REQUIRE_WASM").is_some();
    assert!(installed || !required, "the Rust target {TARGET} is not installed; rustup target add {TARGET}");
    if !installed {
        println!("skipped: the Rust target {TARGET} is not installed");
    }
    installed
}

fn target_is_installed(root: &Path) -> bool {
    let rustc =
        Command::new("rustc").args(["--print", "sysroot"]).current_dir(root).output().expect("rustc runs");
    let sysroot = String::from_utf8(rustc.stdout).expect("a path in UTF-8");
    Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir()
}

/// Rebuilds the policies where the Wasm target is installed.
#[test]
fn prebuilt_policies_are_what_the_sources_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace");
    if !can_compile_policies(root) {
        return;
    }
    // A folder of its own: the one that this test was built in may be locked.
    let built = root.join("target/prebuilt-check");
    let check = Command::new("sh")
        .args(["policies/build.sh", "--check"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", built)
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "policies/build.sh --check: {said}");
}
