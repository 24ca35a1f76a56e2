//! What a person or a script sees of each command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

fn tokenrouter(args: &[&str]) -> Output {
    Command::new(crate::BINARY).args(args).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A server of its own, ended with the test.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(crate::BINARY);
        command.arg("serve");
        Self::of(command)
    }

    /// Of `serve` with arguments and an environment.
    fn of(mut command: Command) -> Self {
        let mut process = command
            .args(["--listen", "127.0.0.1:0", "--log", "warn"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("a first line").expect("UTF-8");
        let address = first.split_once("http://").expect("an address").1.parse().expect("host and port");
        Self { process, address }
    }

    fn get(&self, path: &str) -> String {
        self.get_as("", path)
    }

    fn get_as(&self, key: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        let key = if key.is_empty() { String::new() } else { format!("authorization: Bearer {key}\r\n") };
        write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\n{key}connection: close\r\n\r\n").expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    #[cfg(unix)]
    fn terminate(mut self) -> Option<i32> {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        self.process.wait().expect("the server ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended where the test went well.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[cfg(unix)]
#[test]
fn a_server_says_where_it_is_and_ends_well_on_sigterm() {
    let server = Server::start();
    assert!(server.get("/health").starts_with("HTTP/1.1 200"), "{}", server.get("/health"));
    assert!(server.get("/v1/models").contains("pair/entropy"));
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_taken_port_is_named_with_what_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = tokenrouter(&["serve", "--listen", &address]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    for part in [address.as_str(), "--listen", "server.listen", "in use"] {
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }
}

#[test]
fn the_embedded_configuration_passes_its_own_check() {
    let shown = tokenrouter(&["config", "show"]);
    assert!(shown.status.success());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shown.toml");
    std::fs::write(&file, &shown.stdout).expect("written");
    let file = file.to_str().expect("UTF-8");
    let checked = tokenrouter(&["config", "check", file]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stdout(&checked).contains("ok (2 models, 5 routes)"), "{}", stdout(&checked));
}

#[test]
fn a_wrong_configuration_is_named_by_file_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, "[server]\nlisten_on = \"x\"\n").expect("written");
    let output = tokenrouter(&["config", "check", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("wrong.toml") && message.contains("listen_on"), "{message}");
}

#[test]
fn keys_in_the_environment_open_and_are_shown_nowhere() {
    let made = stdout(&tokenrouter(&["key", "new", "--tenant", "acme"]));
    let (secret, hash) = made.trim().split_once('\n').expect("a key and its line");
    let folder = tempfile::tempdir().expect("a folder");
    let (file, other) = (folder.path().join("keys.toml"), folder.path().join("other.toml"));
    let models = "[models.small]\nfiles = \"embedded:small\"\n[tenants.acme]\n";
    std::fs::write(&file, format!("{models}keys_env = [{{ name = \"ACME_KEY\" }}]\n")).expect("written");
    std::fs::write(&other, models).expect("written");
    let (file, other) = (file.to_str().expect("UTF-8"), other.to_str().expect("UTF-8"));
    let with = |value: Option<&str>, args: &[&str]| {
        let mut command = Command::new(crate::BINARY);
        command.args(args).env_remove("ACME_KEY");
        value.map(|value| command.env("ACME_KEY", value));
        command
    };
    for value in [secret, hash] {
        let diff = with(Some(value), &["config", "diff", other, file]).output().expect("it runs");
        assert!(
            stdout(&diff).contains("tenants.acme.keys_env: added, [{\"name\":\"ACME_KEY\""),
            "{}",
            stdout(&diff)
        );
        let hidden = [&secret[secret.len() - 30..], &hash[hash.len() - 30..]];
        assert!(!hidden.iter().any(|part| stdout(&diff).contains(part)), "{}", stdout(&diff));
        let server = Server::of(with(Some(value), &["serve", "--config", file]));
        assert!(server.get("/v1/models").starts_with("HTTP/1.1 401"));
        assert!(server.get_as(secret, "/v1/models").starts_with("HTTP/1.1 200"));
    }
    for (value, problem) in [(None, "is not set"), (Some(""), "is empty"), (Some("hunter2"), "holds neither")]
    {
        let refused = with(value, &["config", "check", file]).output().expect("it runs");
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(told.contains("tenants.acme.keys_env: the variable \"ACME_KEY\""), "{told}");
        assert!(told.contains(problem) && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn models_that_cannot_fit_are_refused_before_they_are_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("huge.toml");
    let mut text = "[server]\njourneys_max = 100000000\nmemory_check = true\n".to_owned();
    text.push_str("[models.small]\nfiles = \"embedded:small\"\nkv_mib = 67108864\n");
    std::fs::write(&file, &text).expect("written");
    let check = || tokenrouter(&["config", "check", file.to_str().expect("UTF-8")]);
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    for part in
        ["TiB of memory", "\"small\"", "of weights", "of KV", "are available", "kv_mib", "memory_check"]
    {
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }
    // Pages come as they are needed, so whoever knows better may go on.
    std::fs::write(&file, text.replace("memory_check = true", "memory_check = false")).expect("written");
    assert!(check().status.success(), "{}", stderr(&check()));
}

#[test]
fn an_answer_piped_away_is_plain_text_and_nothing_else() {
    let output = tokenrouter(&["run", "--model", "pair/random@share=0.5", "--max-tokens", "24", QUESTION]);
    let (text, aside) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{aside}");
    assert!(!text.trim().is_empty() && !text.contains('\u{1b}') && !text.contains("tokens/s"), "{text:?}");
    let last = aside.lines().last().expect("a last line");
    for part in ["small", "large", "%", "tokens/s", "first token"] {
        assert!(last.contains(part), "{part:?} is missing in {last:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let answer = |seed| {
        stdout(&tokenrouter(&["run", "--temperature", "2", "--seed", seed, "--max-tokens", "40", QUESTION]))
    };
    assert_eq!(answer("7"), answer("7"));
    assert_ne!(answer("7"), answer("8"));
}

#[test]
fn what_does_not_exist_is_a_usage_error_that_says_what_does() {
    let output = tokenrouter(&["run", "--model", "medium", "hello"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("\"medium\"") && stderr(&output).contains("pair/entropy"),
        "{}",
        stderr(&output)
    );
    assert_eq!(tokenrouter(&["run", "--model", "pair/entropy@thrshold=1", "hello"]).status.code(), Some(2));
    assert_eq!(tokenrouter(&["model", "inspect", "embedded:medium"]).status.code(), Some(2));
    assert_eq!(tokenrouter(&["run"]).status.code(), Some(2));
    assert_eq!(tokenrouter(&["frobnicate"]).status.code(), Some(2));
}

#[test]
fn a_model_is_described() {
    let output = tokenrouter(&["model", "inspect", "embedded:small"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in ["LlamaForCausalLM", "parameters", "f16", "672", "KV per token", "chat template", "yes"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn a_policy_is_described_and_a_broken_one_explained() {
    let output = tokenrouter(&[
        "policy",
        "check",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/prebuilt/entropy.wasm"),
    ]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in ["entropy", "digest", "threshold", "0 to 20", "compiled"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.wasm");
    std::fs::write(&file, "not a component").expect("written");
    let output = tokenrouter(&["policy", "check", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("broken.wasm") && message.contains("not WebAssembly"), "{message}");
}

#[test]
fn a_model_is_timed_and_its_numbers_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("decode.json");
    let saved = file.to_str().expect("UTF-8");
    let short = ["--batches", "1,2", "--prompt", "16", "--tokens", "8", "--rounds", "1", "--threads", "1"];
    let output = tokenrouter(
        &[&["bench", "decode", "--model", "embedded:small", "--json", saved], &short[..]].concat(),
    );
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in ["prefill/s", "decode/s", "of bound", "GB/s", "best of 1", "16 tokens fed"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("saved")).expect("JSON");
    assert_eq!((json["threads"].as_u64(), json["rows"][1]["batch"].as_u64()), (Some(1), Some(2)));
    assert!(json["rows"][1]["decode_tokens_per_s"].as_f64().expect("a number") > 0.0, "{json}");
}

#[test]
fn what_cannot_be_timed_is_refused_with_the_numbers() {
    let refused = |args: &[&str], code: i32, parts: &[&str]| {
        let output = tokenrouter(&[&["bench", "decode"], args].concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{args:?}: {part:?} is missing in {message:?}");
        }
    };
    refused(&["--batches", "1,0"], 2, &["--batches", "0 is not in 1..=4096"]);
    refused(&["--threads", "0"], 2, &["--threads", "1..="]);
    refused(&["--tokens", "2000"], 2, &["--prompt 128", "--tokens 2000", "2128", "is 1024"]);
    refused(&["--model", "no/such/model"], 1, &["no/such/model"]);
    refused(&["--model", "embedded:medium"], 2, &["\"medium\"", "small"]);
}

/// Runs a study of the scheduler; what it showed, and the numbers it saved.
fn study(args: &[&str]) -> (String, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("study.json");
    let saved = file.to_str().expect("UTF-8");
    let output = tokenrouter(&[&["bench", "scheduler", "--json", saved], args].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json = std::fs::read_to_string(&file).expect("saved");
    (stdout(&output), serde_json::from_str(&json).expect("JSON"))
}

#[test]
fn the_papers_table_is_reproduced_with_the_same_best_thresholds() {
    let (shown, json) = study(&["--reference"]);
    assert!(shown.contains("in the paper"), "{shown}");
    let grid = json["grid"].as_array().expect("a grid");
    let number = |entry: &serde_json::Value, key: &str| entry[key].as_f64();
    let of_paper: Vec<_> = grid.iter().filter(|entry| entry["paper_tokens_per_s"].is_number()).collect();
    assert_eq!(of_paper.len(), 9);
    for entry in of_paper {
        let ours = number(entry, "tokens_per_s").zip(number(entry, "paper_tokens_per_s"));
        assert!(ours.is_some_and(|(ours, paper)| (ours / paper - 1.0).abs() < 0.01), "{entry}");
    }
    let best = |n: u64| grid.iter().find(|e| e["n"] == n && e["best"] == true).map(|e| e["b1"].clone());
    assert_eq!([2, 3, 4].map(best), [2, 2, 3].map(|b1| Some(b1.into())));
}

#[test]
fn a_simulated_curve_has_every_mode_and_ours_is_not_behind() {
    let one = ["--small-ms", "1", "--large-ms", "10", "--share", "0.1", "--devices", "shared"];
    let (shown, json) = study(&[&one[..], &["--requests", "1,16"]].concat());
    assert!(shown.starts_with("simulated: ") && shown.contains("one shared device"), "{shown}");
    let rows = json["rows"].as_array().expect("rows");
    let speed = |mode: &str, n: u64| {
        let row = rows.iter().find(|row| row["mode"] == mode && row["n"] == n);
        row.and_then(|row| row["tokens_per_s"].as_f64()).unwrap_or_else(|| panic!("{mode} with {n}"))
    };
    for mode in ["step-sync", "model-sync", "eager-async", "paper-dtmc"] {
        assert!(speed("ours", 16) > 1.1 * speed(mode, 16), "{mode}: {shown}");
        assert!(speed("ours", 1) > 0.99 * speed(mode, 1), "{mode} alone: {shown}");
    }
}

#[test]
fn every_help_fits_a_screen_and_has_examples() {
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        let output = tokenrouter(&args);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(text.lines().count() <= SCREEN_LINES, "{command}: {} lines\n{text}", text.lines().count());
        assert!(text.contains("  tokenrouter "), "{command} has no example\n{text}");
    }
}

const QUESTION: &str = "Tom has 45 apples. He finds 17 more apples. How many apples does Tom have now?";
const SCREEN_LINES: usize = 30;
const COMMANDS: [&str; 17] = [
    "",
    "serve",
    "run",
    "bench",
    "bench quality",
    "bench decode",
    "bench scheduler",
    "policy",
    "policy check",
    "policy pull",
    "policy push",
    "model",
    "model inspect",
    "model pull",
    "config",
    "config check",
    "doctor",
];
