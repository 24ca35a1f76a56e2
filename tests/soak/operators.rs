//! Those who change what is served while it is asked for: uploads, files, experiments; and those who watch.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::report::Report;
use super::server::{marked, write_config};

/// Sets everybody to work.
pub(crate) fn begin(
    work: &mut JoinSet<()>,
    (address, folder): (SocketAddr, &Path),
    report: &Arc<Report>,
    stop: &CancellationToken,
) {
    for (operator, apart_ms) in [(0, 4000), (1, 3000), (2, 2500), (3, 3500), (4, 500)] {
        let (report, stop, folder) = (Arc::clone(report), stop.clone(), folder.to_owned());
        work.spawn(async move {
            for turn in 0.. {
                match operator {
                    0 => upload(address, &report, turn).await,
                    1 => reload(address, &report, (&folder, turn)).await,
                    2 => save(&folder, turn),
                    3 => experiment(address, &report, turn).await,
                    _ => scrape(address, &report).await,
                }
                let apart = tokio::time::sleep(Duration::from_millis(apart_ms));
                if stop.run_until_cancelled(apart).await.is_none() {
                    return;
                }
            }
        });
    }
}

async fn upload(address: SocketAddr, report: &Report, turn: u64) {
    let component = marked("margin", turn);
    let parts: [(&str, &[u8]); 2] = [("manifest", b"route = \"pair/random\"\n"), ("component", &component)];
    let reply = e2e::form(address, None, "/v1/policies/soak", &parts).await;
    report.answered("upload", (reply.status, &reply.text), &[200, 201]);
    let body = json!({
        "model": "own/soak", "messages": [{"role": "user", "content": "a"}], "max_tokens": 8, "seed": turn,
    });
    let reply = e2e::ask(address, None, ("POST", "/v1/chat/completions"), &body.to_string()).await;
    report.answered("own", (reply.status, &reply.text), &[200]);
    if turn % 8 == 7 {
        let reply = e2e::ask(address, None, ("DELETE", "/v1/policies/soak"), "").await;
        report.answered("delete", (reply.status, &reply.text), &[200, 204]);
    }
}

async fn reload(address: SocketAddr, report: &Report, (folder, turn): (&Path, u64)) {
    write_config(folder, turn);
    let reply = e2e::ask(address, None, ("GET", "/admin/config"), "").await;
    report.answered("reload", (reply.status, &reply.text), &[200]);
    if !reply.json()["failed"].is_null() {
        report.wrong(format!("a configuration is not taken over: {}", reply.text));
    }
}

/// The watched policy under another digest.
fn save(folder: &Path, turn: u64) {
    let file: PathBuf = folder.join("watched.wasm");
    let new = file.with_extension("new");
    std::fs::write(&new, marked("entropy", turn)).expect("the folder is ours");
    std::fs::rename(new, file).expect("the folder is ours");
}

async fn experiment(address: SocketAddr, report: &Report, turn: u64) {
    let ask = |method: &'static str, path: &'static str, body: Value| async move {
        let reply = e2e::ask(address, None, (method, path), &body.to_string()).await;
        // What has ended, or is not there yet, is told so.
        report.answered("experiment", (reply.status, &reply.text), &[200, 201, 204, 404, 409]);
    };
    match turn % 4 {
        0 => {
            let arms = json!([
                {"name": "control", "weight_bp": 8000},
                {"name": "new", "weight_bp": 2000, "policy": "builtin:margin"},
            ]);
            let definition = json!({
                "route": "pair/entropy", "seed": "a seed that nobody knows", "sticky": "user", "arms": arms,
            });
            ask("PUT", "/admin/experiments/soak", definition).await;
        }
        1 => {
            let weights = json!({"weights_bp": {"new": 5000}});
            ask("POST", "/admin/experiments/soak/weights", weights).await;
        }
        2 => ask("POST", "/admin/experiments/soak/rollback", json!({"reason": "enough"})).await,
        _ => ask("DELETE", "/admin/experiments/soak", Value::Null).await,
    }
}

async fn scrape(address: SocketAddr, report: &Report) {
    for path in [
        "/metrics",
        "/ready",
        "/health",
        "/v1/models",
        "/admin/policies",
        "/admin/experiments",
        "/admin/scheduler",
    ] {
        let reply = e2e::ask(address, None, ("GET", path), "").await;
        report.answered("scrape", (reply.status, &reply.text), &[200]);
        let values = reply.text.lines().filter(|line| path == "/metrics" && !line.starts_with('#'));
        let is_number =
            |value: &str| value.parse::<f64>().is_ok_and(|value| value.is_finite() && value >= 0.0);
        for line in values.filter(|line| !line.rsplit(' ').next().is_some_and(is_number)) {
            report.wrong(format!("a metric that can not be: {line}"));
        }
    }
}
