//! Policies from an OCI registry: a real registry on loopback, and the real program.
//!
//! Not a part of `cargo test`, as it needs the registry: `bash tests/registry/test.sh` brings it.

mod registry;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use e2e::Server;
use registry::Registry;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use store::Digest;
use tempfile::TempDir;
use tokenrouter::config::Overrides;
use tokenrouter::control::Watch;
use tokenrouter::runtime::builtin_policies;
use tokio_util::sync::CancellationToken;

#[test]
fn what_is_pushed_is_pulled_byte_by_byte_and_has_one_name() {
    let world = World::new();
    let name = world.push("entropy", "policies/entropy:1.0", &[]);
    assert!(
        name.starts_with(&format!("oci://{}/policies/entropy:1.0@sha256:", world.registry.host)),
        "{name}"
    );
    assert_eq!(
        world.push("entropy", "policies/entropy:1.0", &[]),
        name,
        "the same component has the same digest"
    );
    let file = world.path("pulled.wasm");
    for asked in [name.as_str(), name.split('@').next().expect("a name")] {
        let pulled = world.run(&["policy", "pull", asked, "-o", text(&file)]);
        assert_eq!(said(&pulled).as_ref(), Ok(&name));
        assert_eq!(std::fs::read(&file).expect("written"), component("entropy"));
    }
    // What is no policy does not get there.
    std::fs::write(&file, b"no component").expect("written");
    let refused = world.run(&["policy", "push", text(&file), &format!("oci://{}/x:1", world.registry.host)]);
    assert!(said(&refused).is_err_and(|told| told.contains("pulled.wasm")));
    let unknown = world.run(&["policy", "pull", &format!("oci://{}/x:1", world.registry.host)]);
    assert!(said(&unknown).is_err_and(|told| told.contains("404") && told.contains("check the name")));
}

#[tokio::test]
async fn replicas_with_one_configuration_have_one_revision_and_give_everybody_one_arm() {
    let world = World::new();
    let (control, other) = (world.push("margin", "margin:1", &[]), world.push("entropy", "entropy:1", &[]));
    let config = route(&control)
        + &format!(
            "[experiments.two]\nroute = \"pair\"\nseed = \"a seed of both replicas\"\nsticky = \"user\"\narms = [\
             {{ name = \"control\", weight_bp = 5000 }}, {{ name = \"other\", weight_bp = 5000, policy = \"{other}\" }}]\n"
        );
    let replicas = [world.serve("one", &config), world.serve("two", &config)];
    let (one, two) = (arms(&replicas[0], 200).await, arms(&replicas[1], 200).await);
    assert_eq!(one, two);
    let of =
        |arm: &str| -> Vec<&String> { one.iter().filter(|(to, _)| to == arm).map(|(_, of)| of).collect() };
    for (arm, policy) in [("two/control", "margin"), ("two/other", "entropy")] {
        let expected = revision(policy);
        let served = of(arm);
        assert!(served.len() > 60 && served.iter().all(|served| **served == expected), "{arm}");
    }
}

#[tokio::test]
async fn a_restart_needs_no_network_and_a_first_start_says_what_it_misses() {
    let mut world = World::new();
    let name = world.push("margin", "margin:1", &[]);
    let config = route(&name);
    drop(world.serve("kept", &config));
    let told = world.check("other", &route(&name.replace("margin:1", "none:1"))).expect_err("there is none");
    assert!(told.contains("routes.\"pair\".policy: oci://") && told.contains("404"), "{told}");
    world.registry.stop();
    let server = world.serve("kept", &config);
    assert_eq!(arms(&server, 1).await[0].1, revision("margin"));
    drop(server);
    let told = world.check("new", &config).expect_err("nothing is kept there");
    assert!(told.contains("routes.\"pair\".policy") && told.contains("cannot reach the registry"), "{told}");
    // What is kept and damaged is not used: it would have to be pulled again.
    for kept in std::fs::read_dir(world.path("kept/pulled")).expect("kept") {
        std::fs::write(kept.expect("an entry").path(), b"other").expect("written");
    }
    let told = world.check("kept", &config).expect_err("it is damaged");
    assert!(told.contains("cannot reach the registry"), "{told}");
}

#[test]
fn what_is_not_what_its_digest_says_never_serves() {
    let world = World::new();
    let name = world.push("margin", "margin:1", &[]);
    let manifest = name.rsplit(':').next().expect("a digest").to_owned();
    let digest = Digest::of(&component("margin")).to_string();
    let before = Registry::damage(world.folder.path(), &digest, &component("entropy"));
    let told = world.check("one", &route(&name)).expect_err("another component");
    assert!(told.contains("routes.\"pair\".policy") && told.contains(&digest), "{told}");
    Registry::damage(world.folder.path(), &digest, &before);
    Registry::damage(world.folder.path(), &manifest, b"{\"layers\": []}");
    let told = world.check("one", &route(&name)).expect_err("another manifest");
    assert!(told.contains("routes.\"pair\".policy"), "{told}");
    assert_eq!(
        std::fs::read_dir(world.path("one/pulled")).expect("a folder").count(),
        0,
        "nothing of it is kept"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_takes_it_over_or_leaves_everything_as_it_was_and_nobody_waits_for_it() {
    let world = World::new();
    let (first, second) = (world.push("margin", "m:1", &[]), world.push("entropy", "e:1", &[]));
    let server = world.serve("one", &route(&first));
    let (file, stop) = (world.path("followed.toml"), CancellationToken::new());
    // The children of this test are those of the program.
    let overrides = Overrides { program: Some(e2e::binary()), ..Overrides::default() };
    let watch = Arc::new(Watch::new(&file, overrides));
    let write = |config: &str| {
        std::fs::write(&file, world.config("one", config)).expect("written");
        watch.ask();
    };
    write(&route(&first));
    let following = Arc::clone(server.control()).follow(Arc::clone(&watch));
    let following = tokio::spawn(stop.clone().run_until_cancelled_owned(following));
    let serving = async || arms(&server, 1).await[0].1.clone();
    let status = async |holds: &dyn Fn(&Value) -> bool| {
        let told = async {
            loop {
                let told = server.get("/admin/config").await.json();
                if holds(&told) {
                    return told;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is read again")
    };

    let absent = first.rsplit_once(':').expect("a digest").0.to_owned() + ":" + &"0".repeat(64);
    write(&route(&absent));
    let told = status(&|told| told["failed"] != Value::Null).await["failed"]["error"].to_string();
    assert!(told.contains("routes.\\\"pair\\\".policy: oci://") && told.contains("404"), "{told}");
    assert_eq!(serving().await, revision("margin"));

    // A registry that takes its time: meanwhile answers are given and other changes made.
    let slow = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = slow.local_addr().expect("bound").to_string();
    write(&route(
        &first.replace(&world.registry.host, &address).replace(&first[first.len() - 8..], "00000000"),
    ));
    let asked =
        tokio::task::spawn_blocking(move || slow.accept().expect("it is asked")).await.expect("no panic");
    assert_eq!(serving().await, revision("margin"));
    let change = json!({
        "route": "pair", "seed": "a seed that nobody knows",
        "arms": [{"name": "a", "weight_bp": 5000}, {"name": "b", "weight_bp": 5000, "settings": {"threshold": 0.7}}],
    });
    let changed = server.ask(None, "PUT", "/admin/experiments/beside", &change.to_string()).await;
    assert_eq!(changed.status, 201, "{}", changed.text);
    drop(asked);
    let told = status(&|told| told["failed"]["error"].to_string().contains(&address)).await;
    assert!(told["failed"]["error"].to_string().contains("cannot reach the registry"), "{told}");

    write(&route(&second));
    status(&|told| told["failed"] == Value::Null && told["reloads"] != 0).await;
    assert_eq!(serving().await, revision("entropy"));
    stop.cancel();
    following.await.expect("it ends");
}

#[test]
fn only_what_is_known_serves_where_that_is_asked_and_no_more_than_may_be() {
    let world = World::new();
    let unsigned = world.push("margin", "m:1", &[]);
    // Each time as if for the first time.
    let start = |name: &str, uploads: &str| {
        let config = format!("[uploads]\n{uploads}\n{}", route(name));
        world.check(&Digest::of(config.as_bytes()).to_string(), &config)
    };
    let digest = Digest::of(&component("margin")).to_string();
    let key = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).expect("a seed");
    let public = hex(key.public_key().as_ref());
    let other = hex(Ed25519KeyPair::from_seed_unchecked(&[4; 32]).expect("a seed").public_key().as_ref());
    let signature = world.path("signature");
    std::fs::write(&signature, hex(key.sign(&component("margin")).as_ref())).expect("written");
    let signed = world.push("margin", "m:signed", &["--signature", text(&signature)]);
    start(&unsigned, &format!("allow = [\"{digest}\"]")).expect("it is listed");
    start(&signed, &format!("keys = [\"{public}\"]")).expect("it is signed");
    for (name, uploads, problem) in [
        (&unsigned, format!("allow = [\"{}\"]", "0".repeat(64)), "uploads.allow"),
        (&unsigned, format!("keys = [\"{public}\"]"), "without a signature"),
        (&signed, format!("keys = [\"{other}\"]"), "uploads.keys"),
        (&unsigned, "bytes_max = 1000".to_owned(), "uploads.bytes_max"),
    ] {
        let told = start(name, &uploads).expect_err("must be refused");
        assert!(told.contains("routes.\"pair\".policy: oci://") && told.contains(problem), "{told}");
    }
}

#[test]
fn who_has_to_say_who_it_is_does_and_nobody_else_hears_it() {
    let world = World::with(Some(USER));
    let reference = format!("oci://{}/m:1", world.registry.host);
    let file = world.path("component.wasm");
    std::fs::write(&file, component("margin")).expect("written");
    let push =
        |envs: &[(&str, &str)]| said(&world.run_with(&["policy", "push", text(&file), &reference], envs));
    let told = push(&[]).expect_err("nobody is known");
    assert!(told.contains("401") && told.contains("DOCKER_AUTH_CONFIG"), "{told}");
    let auth = |base64: &str| json!({"auths": {&world.registry.host: {"auth": base64}}}).to_string();
    let told = push(&[("DOCKER_AUTH_CONFIG", &auth("cm91dGVyOndyb25n"))]).expect_err("another password");
    assert!(told.contains("401") && !told.contains("cm91dGVyOndyb25n") && !told.contains("wrong"), "{told}");
    let name = push(&[("DOCKER_AUTH_CONFIG", &auth(BASIC))]).expect("it is known");
    std::fs::write(world.path("config.json"), auth(BASIC)).expect("written");
    let pull = |envs: &[(&str, &str)]| said(&world.run_with(&["policy", "pull", &name], envs));
    assert_eq!(pull(&[("DOCKER_CONFIG", text(world.folder.path()))]), Ok(name.clone()));
    let config = format!("[registry]\nauth_file = {:?}\n{}", text(&world.path("config.json")), route(&name));
    drop(world.serve("one", &config));
}

/// A registry, and a folder for everything.
struct World {
    registry: Registry,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(user: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { registry: Registry::start(folder.path(), user), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The name of a built-in policy that was pushed.
    fn push(&self, policy: &str, to: &str, more: &[&str]) -> String {
        let file = self.path("pushed.wasm");
        std::fs::write(&file, component(policy)).expect("written");
        let to = format!("oci://{}/{to}", self.registry.host);
        said(&self.run(&[&["policy", "push", text(&file), &to], more].concat())).expect("it is a policy")
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, &[])
    }

    fn run_with(&self, args: &[&str], envs: &[(&str, &str)]) -> Output {
        let mut command = Command::new(e2e::binary());
        command.env_remove("DOCKER_AUTH_CONFIG").env_remove("DOCKER_CONFIG").envs(envs.iter().copied());
        command.args(args).output().expect("it runs")
    }

    /// With a data directory of this name.
    fn config(&self, name: &str, config: &str) -> String {
        format!("[server]\ndata_dir = {:?}\n{config}", text(&self.path(name)))
    }

    fn serve(&self, name: &str, config: &str) -> Server {
        Server::start(&self.config(name, config))
    }

    /// Whether a server would start with this.
    fn check(&self, name: &str, config: &str) -> Result<String, String> {
        let file = self.path("checked.toml");
        std::fs::write(&file, self.config(name, config)).expect("written");
        said(&self.run(&["config", "check", text(&file)]))
    }
}

/// A configuration with one route.
fn route(policy: &str) -> String {
    format!(
        "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
         [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"{policy}\"\n"
    )
}

/// The arm and the revision that each user gets.
async fn arms(server: &Server, users: usize) -> Vec<(String, String)> {
    let mut all = Vec::with_capacity(users);
    for user in 0..users {
        let body = json!({
            "model": "pair", "user": format!("user {user}"), "max_tokens": 1, "route_trace": true,
            "messages": [{"role": "user", "content": "Hello"}],
        });
        let reply = server.post("/v1/chat/completions", &body).await;
        let revision = reply.json()["route_trace"]["revision"].as_str().expect("a revision").to_owned();
        all.push((reply.header("x-tokenrouter-arm").to_owned(), revision));
    }
    all
}

/// As traces show it: by the beginning of its digest.
fn revision(policy: &str) -> String {
    Digest::of(&component(policy)).to_string()[..12].to_owned()
}

fn component(name: &str) -> Vec<u8> {
    let policies = builtin_policies();
    policies.iter().find(|(known, _)| *known == name).expect("built in").1.to_vec()
}

/// The line that a command ends well with, or its complaint.
fn said(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `router` with the password `open sesame`.
const USER: &str = "router:$2b$05$5tevNTz5phmkSKAo//AtQ.lysBDAfASWpv48/nT/yodm9cRpxfGTm\n";
const BASIC: &str = "cm91dGVyOm9wZW4gc2VzYW1l";
