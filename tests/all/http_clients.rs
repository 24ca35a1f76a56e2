//! OpenAI's own packages, unmodified, against the server.
//!
//! Each is installed once into the target directory. Where an interpreter or the package is not to be had, the test
//! says so and passes: it then tells nothing about the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::Server;

#[test]
fn the_python_package_works_unmodified() {
    let home = home("python");
    let python = home.join("bin/python");
    if !python.exists() && !prepared(Command::new("python3").args(["-m", "venv"]).arg(&home)) {
        return;
    }
    let installed = Command::new(&python).args(["-c", "import openai"]).output();
    let has_package = installed.is_ok_and(|output| output.status.success());
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "openai"];
    if !has_package && !prepared(Command::new(&python).args(pip)) {
        return;
    }
    run(Command::new(&python).arg(scripts().join("openai_client.py")));
}

#[test]
fn the_javascript_package_works_unmodified() {
    let home = home("javascript");
    let install = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
    let has_package = home.join("node_modules/openai/package.json").exists();
    if !has_package && !prepared(Command::new("npm").args(install).arg(&home).arg("openai")) {
        return;
    }
    // Node looks for packages beside the script.
    let script = home.join("openai_client.mjs");
    fs::copy(scripts().join("openai_client.mjs"), &script).expect("copied");
    run(Command::new("node").arg(script));
}

/// Runs a client to its end and shows what it said if it failed.
fn run(client: &mut Command) {
    let url = format!("http://{}", Server::embedded().address());
    let output = client.arg(url).output().expect("the interpreter runs");
    assert!(output.status.success(), "{}", said(&output));
}

/// Whether a preparation succeeded; says why not.
#[expect(clippy::print_stdout, reason = "a test that tells nothing must say so")]
fn prepared(step: &mut Command) -> bool {
    let problem = match step.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => said(&output),
        Err(error) => error.to_string(),
    };
    println!("skipped: {step:?}: {problem}");
    false
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn home(language: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openai-{language}"));
    fs::create_dir_all(&home).expect("the target directory can be written");
    home
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}
