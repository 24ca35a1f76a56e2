//! The configuration changes while answers are being given: whole, or not at all, and nobody who is served notices.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use e2e::Server;
use serde_json::{Value, json};
use tokenrouter::config::{Config, Overrides};
use tokenrouter::control::{Control, ReloadError, Watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::http_life::await_idle;
use super::questions::{chat, traced};

const CHAT: &str = "/v1/chat/completions";
const SMALL: &str = "[models.small]\nfiles = \"embedded:small\"\n";
const LARGE: &str = "[models.large]\nfiles = \"embedded:large\"\n";
const PAIR: &str = "[routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\n";
const STREAMS: usize = 50;

/// The keys that changed, or why nothing did.
pub(crate) async fn apply(control: &Arc<Control>, text: &str) -> Result<Vec<String>, String> {
    let next = Config::parse(text, Path::new("")).expect("valid");
    let applied =
        control.alone(move |control| -> Result<_, ReloadError> { control.put_in_force(&next, &mut ()) });
    let differences = applied.await.map_err(|error| error.to_string())?;
    Ok(differences.iter().map(tokenrouter::config::Difference::key).collect())
}

/// Every question once, each a stream of its own that is open before this returns.
async fn streams(server: &Server, model: &str) -> Vec<e2e::Events> {
    let open = (0..STREAMS).map(|ix| async move {
        let mut body = chat(model, ix, 0.0);
        // So long that they are still running when something changes.
        body["max_tokens"] = json!(600);
        body["ignore_eos"] = json!(true);
        server.stream(CHAT, &body).await
    });
    futures_util::future::join_all(open).await
}

/// What each stream says in the end.
async fn texts(mut streams: Vec<e2e::Events>) -> Vec<String> {
    let mut texts = Vec::new();
    for stream in &mut streams {
        assert_eq!(stream.status, 200);
        let said = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        texts.push(stream.chunks().await.iter().filter_map(said).collect());
    }
    texts
}

/// Journeys at all models.
fn busy(server: &Server) -> usize {
    let catalog = server.runtime().catalog();
    catalog.models.values().map(|model| model.meter.journeys().0 + model.meter.journeys().1).sum()
}

async fn listed(server: &Server) -> Vec<String> {
    let list = server.get("/v1/models").await.json();
    let models = list["data"].as_array().expect("a list");
    models.iter().map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn models_and_routes_come_and_go_under_fifty_streams() {
    let server = Server::start(&[SMALL, LARGE, PAIR].concat());
    let expected = texts(streams(&server, "pair").await).await;
    let running = streams(&server, "pair").await;
    // A third model, a route with it; then the route that is running and one of its models go.
    let third = "[models.third]\nfiles = \"embedded:large\"\n";
    let trio = "[routes.trio]\nmodels = [\"small\", \"third\"]\npolicy = \"builtin:entropy\"\n";
    let added = apply(server.control(), &[SMALL, LARGE, PAIR, third, trio].concat()).await;
    assert_eq!(added, Ok(vec!["models.third".to_owned(), "routes.trio".to_owned()]));
    let of_trio = streams(&server, "trio").await;
    assert!(busy(&server) > 0, "nothing runs any more, so the test shows nothing");
    let removed = apply(server.control(), &[SMALL, third, trio].concat()).await;
    assert_eq!(removed, Ok(vec!["models.large".to_owned(), "routes.pair".to_owned()]));
    assert_eq!(listed(&server).await, ["small", "third", "trio"]);
    assert_eq!(server.post(CHAT, &chat("pair", 0, 0.0)).await.status, 404);
    // The third model has the weights of the large one, so every answer is the same, whoever went meanwhile.
    assert_eq!(texts(running).await, expected);
    assert_eq!(texts(of_trio).await, expected);
    await_idle(&server).await;
    // Its place is given to the next model, and counters of its own.
    assert!(apply(server.control(), &[SMALL, LARGE, third, PAIR, trio].concat()).await.is_ok());
    assert_eq!(texts(streams(&server, "pair").await).await, expected);
    let page = server.get("/metrics").await.text;
    assert!(page.contains("tokenrouter_num_requests_running{model=\"large\"} 0"), "{page}");
}

#[tokio::test]
async fn a_route_that_changes_serves_new_answers_and_one_that_does_not_stays_the_same_route() {
    let server = Server::start(&[SMALL, LARGE, PAIR].concat());
    let before = Arc::clone(&server.runtime().catalog().routes["pair"]);
    let other = "[routes.other]\nmodels = [\"small\"]\npolicy = \"builtin:pinned\"\n";
    assert_eq!(
        apply(server.control(), &[SMALL, LARGE, PAIR, other].concat()).await.map(|keys| keys.len()),
        Ok(1)
    );
    assert!(Arc::ptr_eq(&before, &server.runtime().catalog().routes["pair"]));
    let unsure = traced(&server, "pair", 0).await;
    let changed = format!("{SMALL}{LARGE}{PAIR}settings.threshold = 20.0\n");
    let keys = apply(server.control(), &changed).await.expect("live");
    assert_eq!(keys, ["routes.other", "routes.pair.settings.threshold"]);
    let sure = traced(&server, "pair", 0).await;
    let by_large = |answer: &Value| answer["usage"]["completion_tokens_by_model"]["large"].clone();
    assert!(by_large(&unsure).as_u64() > Some(0) && by_large(&sure).as_u64().unwrap_or(0) == 0);
}

#[tokio::test]
async fn what_cannot_change_is_named_and_nothing_else_changes_with_it() {
    let server = Server::start(&[SMALL, LARGE, PAIR].concat());
    let models = listed(&server).await;
    let frozen = format!("{SMALL}[server]\nqueue_max = 3\njourneys_max = 2\n[tenants.acme]\n");
    let told = apply(server.control(), &frozen).await.expect_err("refused");
    let keys = "server.journeys_max, server.queue_max, tenants cannot change while the server runs";
    assert!(told.starts_with(keys), "{told}");
    for (text, problem) in [
        (format!("{SMALL}{LARGE}[models.x]\nfiles = \"nowhere\"\n"), "models.\"x\""),
        (
            format!("{SMALL}{LARGE}[routes.r]\nmodels = [\"small\"]\npolicy = \"builtin:none\"\n"),
            "routes.\"r\".policy",
        ),
        (format!("{SMALL}{LARGE}{PAIR}settings.nothing = 1.0\n"), "routes.\"pair\""),
        (
            format!("{SMALL}{LARGE}{PAIR}settings.nothing = 1.0\n[sandbox]\nfuel_per_call = 1\n"),
            "routes.\"pair\"",
        ),
    ] {
        let told = apply(server.control(), &text).await.expect_err("refused");
        assert!(told.contains(problem), "{told}");
    }
    assert_eq!(listed(&server).await, models);
    assert_eq!(server.post(CHAT, &chat("pair", 0, 0.0)).await.status, 200);
}

#[tokio::test]
async fn scheduling_and_the_sandbox_change_under_load_and_no_answer_does() {
    let server = Server::start(&[SMALL, LARGE, PAIR].concat());
    let expected = texts(streams(&server, "pair").await).await;
    for (more, key) in [
        ("[scheduler]\nmode = \"ours\"\nslo_itl_ms = 500.0\n", "scheduler.mode, scheduler.slo_itl_ms"),
        ("[sandbox]\nin_step_us = 0\n", "sandbox.in_step_us, scheduler.mode, scheduler.slo_itl_ms"),
        ("[scheduler]\nmode = \"model-sync\"\n", "sandbox.in_step_us, scheduler.mode"),
    ] {
        let running = streams(&server, "pair").await;
        let keys = apply(server.control(), &[SMALL, LARGE, PAIR, more].concat()).await.expect("live");
        assert_eq!(keys.join(", "), key);
        assert_eq!(texts(running).await, expected, "{key}");
    }
    assert_eq!(server.get("/admin/scheduler").await.json()["mode"], "model-sync");
}

#[tokio::test]
async fn a_request_body_may_be_as_large_as_the_configuration_now_says() {
    let server = Server::start(SMALL);
    assert_eq!(server.post(CHAT, &chat("small", 0, 0.0)).await.status, 200);
    apply(server.control(), &format!("{SMALL}[server]\nbody_bytes_max = 20\n")).await.expect("live");
    assert_eq!(server.post(CHAT, &chat("small", 0, 0.0)).await.status, 413);
}

/// A server that follows a file.
struct Followed {
    server: Server,
    file: PathBuf,
    watch: Arc<Watch>,
    stop: CancellationToken,
    following: JoinHandle<Option<()>>,
}

impl Followed {
    fn begin(folder: &Path, text: &str) -> Self {
        let file = folder.join("server.toml");
        fs::write(&file, text).expect("writable");
        let server = Server::start(text);
        let watch = Arc::new(Watch::new(&file, Overrides::default()));
        let stop = CancellationToken::new();
        let following = Arc::clone(server.control()).follow(Arc::clone(&watch));
        let following = tokio::spawn(stop.clone().run_until_cancelled_owned(following));
        Self { server, file, watch, stop, following }
    }

    /// Writes the file; what `/admin/config` tells once it has been taken over, or refused.
    async fn write(&self, text: &str) -> Value {
        let before = self.watch.status();
        fs::write(&self.file, text).expect("writable");
        let read = async {
            loop {
                self.watch.ask();
                let now = self.watch.status();
                if now.reloads > before.reloads || (now.failed.is_some() && now.failed != before.failed) {
                    return self.server.get("/admin/config").await.json();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read).await.expect("it is read again")
    }

    async fn end(self) {
        self.stop.cancel();
        self.following.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_file_is_followed_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let followed = Followed::begin(folder.path(), SMALL);
    let bad = followed.write("[models.small]\nfile = \"embedded:small\"\n").await;
    let error = bad["failed"]["error"].to_string();
    assert!(error.contains("unknown field `file`"), "{error}");
    assert_eq!(listed(&followed.server).await, ["small"]);
    let good = followed.write(&[SMALL, LARGE].concat()).await;
    assert_eq!((&good["reloads"], &good["failed"]), (&json!(1), &Value::Null));
    assert_eq!(listed(&followed.server).await, ["large", "small"]);
    followed.end().await;
}

#[tokio::test]
async fn experiments_of_a_followed_file_begin_move_and_end_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = [SMALL, LARGE, PAIR].concat();
    let followed = Followed::begin(folder.path(), &base);
    let server = &followed.server;
    let table = |weight: u16, sticky: &str| {
        let control = 10_000 - weight;
        format!(
            "{base}[experiments.new]\nroute = \"pair\"\nseed = \"a seed that nobody knows\"\nsticky = \"{sticky}\"\narms = [\
             {{ name = \"control\", weight_bp = {control} }}, {{ name = \"margin\", weight_bp = {weight}, policy = \"builtin:margin\" }}]\n"
        )
    };
    let served = async || {
        let mut body = chat("pair", 0, 0.0);
        body["user"] = json!("somebody");
        let reply = server.post(CHAT, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.header("x-tokenrouter-arm").to_owned()
    };
    let told = async || server.get("/admin/experiments/new").await.json();
    assert_eq!(served().await, "");
    followed.write(&table(10_000, "user")).await;
    assert_eq!(served().await, "new/margin");
    followed.write(&table(0, "user")).await;
    assert_eq!((served().await.as_str(), &told().await["phase"]), ("new/control", &json!(2)));
    // What would make its answers so far those of something else is refused, and all stays as it is.
    let refused = followed.write(&table(10_000, "tenant")).await;
    let error = refused["failed"]["error"].to_string();
    assert!(error.contains("experiments") && error.contains("only weight_bp"), "{error}");
    assert_eq!(served().await, "new/control");
    followed.write(&base).await;
    assert_eq!((served().await.as_str(), &told().await["state"]), ("", &json!("rolled back")));
    assert!(told().await["reason"].to_string().contains("taken out of the configuration file"));
    followed.end().await;
}

#[tokio::test]
async fn quotas_change_and_what_was_used_still_counts() {
    let tenants = |requests: u32| {
        let key = super::http_keys::line(1, "");
        format!("{SMALL}[tenants.acme]\nquotas.requests_per_minute = {requests}\nkeys = [{key}]\n")
    };
    let server = Server::start(&tenants(2));
    let ask = async || server.post_as(&super::http_keys::key(1), CHAT, &chat("small", 0, 0.0)).await.status;
    assert_eq!([ask().await, ask().await, ask().await], [200, 200, 429]);
    apply(server.control(), &tenants(3)).await.expect("live");
    assert_eq!([ask().await, ask().await], [200, 429]);
    let routes = BTreeMap::from([("acme", tenants(3).replace("acme", "other"))]);
    apply(server.control(), &routes["acme"]).await.expect("live");
    assert_eq!(ask().await, 200, "the key is another tenant's now, which has used nothing");
}
