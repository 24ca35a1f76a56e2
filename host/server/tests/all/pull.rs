//! `tokenrouter model pull`: the files that loading needs, whole, once, and nothing else.

use std::path::Path;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use crate::hub::{File, Hub};

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The embedded small model as a repository, with files that loading does not need.
fn repository() -> Vec<File> {
    let more: [(&str, &[u8]); 2] =
        [("README.md", b"# tiny"), ("pytorch_model.bin", b"the same weights again")];
    let all = tinypair::models::SMALL.files.iter().copied().chain(more);
    all.map(|(name, content)| {
        let sha256 = name.ends_with(".safetensors").then(|| sha256(content));
        File { name, content, sha256 }
    })
    .collect()
}

fn tokenrouter(hub: &Hub, cache: &Path, args: &[&str]) -> Output {
    Command::new(crate::BINARY)
        .args(args)
        .env("HF_ENDPOINT", format!("http://{}", hub.address))
        .env("HF_HOME", cache)
        .env_remove("HF_TOKEN")
        .output()
        .expect("the binary starts")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn a_model_is_pulled_over_a_broken_connection_and_only_once() {
    let (hub, cache) = (Hub::start(repository()), tempfile::tempdir().expect("a folder"));
    let inspect = || tokenrouter(&hub, cache.path(), &["model", "inspect", "hf:tiny/model"]);
    let before = inspect();
    assert_eq!(before.status.code(), Some(2));
    assert!(said(&before).contains("tokenrouter model pull hf:tiny/model"), "{}", said(&before));

    let pulled = tokenrouter(&hub, cache.path(), &["model", "pull", "hf:tiny/model"]);
    assert!(pulled.status.success(), "{}", said(&pulled));
    let half = tinypair::models::SMALL.file("model.safetensors").expect("weights").len() / 2;
    let downloads = hub.downloads();
    for expected in ["model.safetensors from 0".to_owned(), format!("model.safetensors from {half}")] {
        assert!(downloads.contains(&expected), "{expected:?} is missing in {downloads:?}");
    }
    assert_eq!(downloads.last().map(String::as_str), Some("config.json from 0"), "the config comes last");
    assert!(
        !downloads.iter().any(|file| file.contains("pytorch") || file.contains("README")),
        "{downloads:?}"
    );

    let after = inspect();
    assert!(after.status.success() && said(&after).contains("172 480"), "{}", said(&after));
    let again = tokenrouter(&hub, cache.path(), &["model", "pull", "hf:tiny/model"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(hub.downloads(), Vec::<String>::new(), "everything was there");
}

#[test]
fn a_pulled_model_answers() {
    let (hub, cache) = (Hub::start(repository()), tempfile::tempdir().expect("a folder"));
    assert!(tokenrouter(&hub, cache.path(), &["model", "pull", "hf:tiny/model"]).status.success());
    let config = cache.path().join("one.toml");
    std::fs::write(&config, "[models.tiny]\nfiles = \"hf:tiny/model\"\n").expect("written");
    let config = config.to_str().expect("UTF-8");
    let output = tokenrouter(
        &hub,
        cache.path(),
        &["run", "--config", config, "--model", "tiny", "--max-tokens", "8", "Tom has 4 apples."],
    );
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", said(&output));
}

#[test]
fn damaged_content_is_named_and_not_kept() {
    let mut files = repository();
    let weights = files.iter_mut().find(|file| file.sha256.is_some()).expect("weights");
    weights.sha256 = Some(sha256(b"something else"));
    let (hub, cache) = (Hub::start(files), tempfile::tempdir().expect("a folder"));
    let pull = || tokenrouter(&hub, cache.path(), &["model", "pull", "hf:tiny/model"]);
    let output = pull();
    assert_eq!(output.status.code(), Some(1));
    for part in ["model.safetensors", "damaged", "run the command again"] {
        assert!(said(&output).contains(part), "{part:?} is missing in {}", said(&output));
    }
    hub.downloads();
    assert_eq!(pull().status.code(), Some(1));
    assert!(hub.downloads().contains(&"model.safetensors from 0".to_owned()), "it is asked for again");
}

#[test]
fn what_the_hub_does_not_have_is_said_with_the_ways_out() {
    let (hub, cache) = (Hub::start(repository()), tempfile::tempdir().expect("a folder"));
    let output = tokenrouter(&hub, cache.path(), &["model", "pull", "hf:tiny/other"]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["404", "hf:tiny/other", "HF_TOKEN"] {
        assert!(said(&output).contains(part), "{part:?} is missing in {}", said(&output));
    }
    let output = tokenrouter(&hub, cache.path(), &["model", "pull", "hf:other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("ORG/NAME"), "{}", said(&output));
}
