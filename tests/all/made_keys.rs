//! Keys that are made, replaced and revoked while the server runs, and what is left of them after a restart.

use std::path::Path;

use e2e::{Reply, Server};
use serde_json::{Value, json};

use super::http_keys::{key, line};
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const KEYS: &str = "/admin/tenants/acme/keys";

/// Operators have key 1, acme key 2 in the file.
fn server(folder: Option<&Path>) -> Server {
    let (admin, acme) = (line(1, ", scope = \"admin\""), line(2, ""));
    let data_dir = folder.map_or(String::new(), |folder| format!("[server]\ndata_dir = {folder:?}\n"));
    Server::start(&format!(
        "{data_dir}[models.small]\nfiles = \"embedded:small\"\n[tenants.acme]\nkeys = [{acme}]\n\
         [tenants.operators]\nkeys = [{admin}]"
    ))
}

async fn admin(server: &Server, method: &str, path: &str, body: &Value) -> Reply {
    server.ask(Some(&key(1)), method, path, &body.to_string()).await
}

async fn works(server: &Server, key: &str) -> bool {
    let mut body = chat("small", 0, 0.0);
    body["max_tokens"] = json!(1);
    match server.post_as(key, CHAT, &body).await.status {
        200 => true,
        401 => false,
        other => panic!("neither served nor denied: {other}"),
    }
}

/// The secret and the id of a key that is made now.
async fn made(server: &Server, body: &Value) -> (String, String) {
    let reply = admin(server, "POST", KEYS, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let text = |field: &str| made[field].as_str().expect("a text").to_owned();
    (text("key"), text("id"))
}

#[tokio::test]
async fn keys_are_made_replaced_and_revoked_and_a_restart_forgets_none_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = server(Some(folder.path()));
    let (first, first_id) = made(&before, &json!({})).await;
    let (admins, _) = made(&before, &json!({"scope": "admin", "expires_in_s": 3600})).await;
    assert!(works(&before, &first).await);
    assert_eq!(before.ask(Some(&admins), "GET", "/metrics", "").await.status, 200);
    let rotate = format!("{KEYS}/{first_id}/rotate");
    let reply = admin(&before, "POST", &rotate, &json!({"overlap_s": 60})).await;
    let second = reply.json()["key"].as_str().expect("a key").to_owned();
    assert!(works(&before, &first).await && works(&before, &second).await);
    before.control().access().clock().skip(60);
    assert!(!works(&before, &first).await && works(&before, &second).await);
    // One that is written in the file can be revoked too.
    let written = tenant::key::Secret::of([2; 40]).id();
    assert_eq!(admin(&before, "DELETE", &format!("{KEYS}/{written}"), &json!({})).await.status, 200);
    assert!(!works(&before, &key(2)).await);
    let listed = admin(&before, "GET", KEYS, &json!({})).await;
    assert_eq!(listed.json()["keys"].as_array().map(Vec::len), Some(4));
    assert!(!listed.text.contains(first.rsplit('-').next().expect("a secret")), "{}", listed.text);
    drop(before);

    let after = server(Some(folder.path()));
    assert!(works(&after, &second).await);
    assert!(!works(&after, &key(2)).await);
    assert_eq!(after.ask(Some(&admins), "GET", "/metrics", "").await.status, 200);
    after.control().access().clock().skip(61);
    assert!(!works(&after, &first).await);
}

#[tokio::test]
async fn what_cannot_be_done_is_told_with_what_to_do() {
    let server = server(None);
    let refused = async |method: &str, path: &str, body: Value| {
        let reply = admin(&server, method, path, &body).await;
        (reply.status, reply.json()["error"]["code"].as_str().expect("a code").to_owned())
    };
    let told = async |method: &str, path: &str, body: Value| {
        let (status, code) = refused(method, path, body).await;
        format!("{status} {code}")
    };
    assert_eq!(told("POST", KEYS, json!({})).await, "409 no_data_dir");
    assert_eq!(told("POST", "/admin/tenants/nobody/keys", json!({})).await, "404 not_found");
    assert_eq!(told("DELETE", &format!("{KEYS}/0123456789abcdef"), json!({})).await, "404 not_found");
    assert_eq!(told("DELETE", &format!("{KEYS}/x"), json!({})).await, "404 not_found");
    assert_eq!(told("POST", KEYS, json!({"scope": "all"})).await, "400 invalid_value");
    assert_eq!(told("POST", KEYS, json!({"expires": 1})).await, "400 unknown_parameter");
    // For everybody else these paths do not exist.
    assert_eq!(server.ask(Some(&key(2)), "GET", KEYS, "").await.status, 404);
    assert_eq!(server.ask(None, "GET", KEYS, "").await.status, 401);
}
