//! What the machine offers.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use super::Finding;
use crate::models::available_memory;
use crate::terminal::size;

pub(super) fn version() -> Finding {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Finding::ok("tokenrouter", format!("{} for {arch} {os}", env!("CARGO_PKG_VERSION")))
}

/// The engine's kernels are written for the compiler to vectorise; wide registers make them fast.
pub(super) fn vector_unit() -> Finding {
    let found = vector_features();
    if found.is_empty() {
        return Finding::warn("vector unit", "none that is known here; models run, but slowly");
    }
    Finding::ok("vector unit", found.join(", "))
}

#[cfg(target_arch = "x86_64")]
fn vector_features() -> Vec<&'static str> {
    let features = [
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("f16c", std::arch::is_x86_feature_detected!("f16c")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    features.into_iter().filter(|(_, present)| *present).map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn vector_features() -> Vec<&'static str> {
    // Every aarch64 machine that Rust's standard library supports has it.
    vec!["neon"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vector_features() -> Vec<&'static str> {
    Vec::new()
}

pub(super) fn cores() -> Finding {
    match std::thread::available_parallelism().map(std::num::NonZeroUsize::get) {
        Ok(1) => Finding::warn("cores", "1; both models share it, so expect half the speed"),
        Ok(cores) => Finding::ok("cores", cores.to_string()),
        Err(error) => Finding::warn("cores", format!("cannot be counted: {error}")),
    }
}

pub(super) fn memory() -> Finding {
    let Some(available) = available_memory() else {
        return Finding::warn("memory", "cannot be measured on this system");
    };
    if available < MEMORY_LEAST_BYTES {
        let least = size(MEMORY_LEAST_BYTES);
        return Finding::warn("memory", format!("{} available; {least} are comfortable", size(available)));
    }
    Finding::ok("memory", format!("{} available", size(available)))
}

pub(super) fn port(address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("address", format!("{address} is free")),
        Err(error) => {
            let advice = "choose another with `serve --listen` or the key server.listen";
            Finding::warn("address", format!("{address} cannot be listened on ({error}); {advice}"))
        }
    }
}

/// Only authors of Rust policies need it.
pub(super) fn wasm_target() -> Finding {
    let what = "wasm32-wasip2";
    let asked = Command::new("rustc").args(["--print", "target-libdir", "--target", what]).output();
    match asked {
        Err(_) => {
            Finding::warn(what, "no Rust here; needed only to write policies in Rust (https://rustup.rs)")
        }
        Ok(output) if installed(&output.stdout) => Finding::ok(what, "installed, so policies can be built"),
        Ok(_) => Finding::warn(what, "missing; to write policies in Rust: rustup target add wasm32-wasip2"),
    }
}

fn installed(target_libdir: &[u8]) -> bool {
    let path = String::from_utf8_lossy(target_libdir);
    !path.trim().is_empty() && Path::new(path.trim()).is_dir()
}

/// Both embedded models, 256 journeys with full contexts, and the policies' instances fit.
const MEMORY_LEAST_BYTES: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Verdict;

    #[test]
    fn a_taken_port_is_a_warning_with_advice() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let finding = port(taken.local_addr().unwrap());
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.found.contains("server.listen"), "{finding}");
    }

    #[test]
    fn a_target_without_a_folder_is_not_installed() {
        assert!(!installed(b""));
        assert!(!installed(b"/no/such/folder\n"));
        assert!(installed(b".\n"));
    }
}
