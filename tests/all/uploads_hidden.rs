//! What one tenant uploaded is, for another, as what nobody did: the same bytes, whatever is asked.

use e2e::Server;
use serde_json::json;

use super::http_keys::{key, line, shape};
use super::questions::chat;
use super::uploads::{LIKE_PAIR, component, created, hex, keeping};

const ACME: u8 = 1;
const GUEST: u8 = 2;
const ADMIN: u8 = 3;

/// acme and guest see the route, and operators have the admin's key.
fn tenants() -> String {
    format!(
        "[routes.\"hidden/base\"]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\n\
         [tenants.acme]\nroutes = [\"pair\"]\nkeys = [{}]\n[tenants.guest]\nroutes = [\"pair\"]\nkeys = [{}]\n\
         [tenants.operators]\nkeys = [{}]\n",
        line(ACME, ""),
        line(GUEST, ""),
        line(ADMIN, ", scope = \"admin\"")
    )
}

/// All that a tenant can ask about a name, with a key.
async fn probes(server: &Server, of: u8, name: &str) -> Vec<(u16, String, Vec<(String, String)>)> {
    let mut told = Vec::new();
    let revision = json!({"revision": hex(component("pinned"))}).to_string();
    let paths =
        ["", "/activate", "/rollback", "?tenant=acme", "?tenant=nobody", "/activate?tenant=acme", "/"];
    for path in paths {
        for method in ["GET", "HEAD", "POST", "DELETE", "PATCH"] {
            let path = format!("/v1/policies/{name}{path}");
            let reply = server.ask(Some(&key(of)), method, &path, &revision).await;
            told.push((reply, path));
        }
    }
    for query in ["", "?tenant=acme", "?tenant=nobody"] {
        let path = format!("/v1/policies/{name}{query}");
        let parts: [(&str, &[u8]); 2] = [("component", b"none"), ("manifest", b"route = \"nothing\"")];
        told.push((server.put_form(Some(&key(of)), &path, &parts).await, path));
    }
    for suffix in ["", "@role=1", "@role", "/x"] {
        let model = format!("own/{name}{suffix}");
        let path = format!("/v1/models/{model}");
        told.push((server.ask(Some(&key(of)), "GET", &path, "").await, path));
        for max_tokens in [1, 1_000_000] {
            let mut body = chat(&model, 0, 0.0);
            body["max_tokens"] = json!(max_tokens);
            told.push((server.post_as(&key(of), "/v1/chat/completions", &body).await, model.clone()));
        }
    }
    told.into_iter()
        .map(|(reply, _)| {
            let (status, body, headers) = shape(&reply);
            (status, body.replace(name, "NAME"), headers)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_policy_is_as_one_that_nobody_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), &tenants());
    let empty = server.ask(Some(&key(GUEST)), "GET", "/v1/policies", "").await.text;
    created(&server.upload(Some(&key(ACME)), "secret", component("pinned"), LIKE_PAIR).await);
    let absent = probes(&server, GUEST, "absent").await;
    assert_eq!(probes(&server, GUEST, "secret").await, absent);
    assert!(absent.iter().all(|(status, ..)| *status >= 400), "{absent:?}");
    for query in ["", "?tenant=guest"] {
        let list = server.ask(Some(&key(GUEST)), "GET", &format!("/v1/policies{query}"), "").await;
        assert_eq!(list.text, empty);
    }
    let list = async |query: &str| {
        shape(&server.ask(Some(&key(GUEST)), "GET", &format!("/v1/policies?tenant={query}"), "").await)
    };
    assert_eq!(list("acme").await, list("noty").await);
    assert_eq!(list("acme").await, list("*").await);
    let models = server.ask(Some(&key(GUEST)), "GET", "/v1/models", "").await.text;
    assert!(!models.contains("own/"), "{models}");
    // Both may have one of the same name, and each gets its own.
    created(&server.upload(Some(&key(GUEST)), "secret", component("margin"), LIKE_PAIR).await);
    for (of, wanted) in [(ACME, "pinned"), (GUEST, "margin")] {
        let model = server.ask(Some(&key(of)), "GET", "/v1/models/own/secret", "").await.json();
        assert_eq!(model["route"]["policy"]["name"], wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_a_tenant_may_not_see_is_none_to_upload_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), &tenants());
    let upload = async |of: u8, route: &str| {
        shape(&server.upload(Some(&key(of)), "x", component("pinned"), &format!("route = {route:?}")).await)
    };
    let (status, body, headers) = upload(ACME, "hidden/base").await;
    let (_, absent, same) = upload(ACME, "absent/base").await;
    assert_eq!((status, body.replace("hidden", "absent"), headers), (400, absent, same));
    assert_eq!(upload(ADMIN, "hidden/base").await.0, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_runs_the_server_looks_after_everybodys() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), &tenants());
    created(&server.upload(Some(&key(ACME)), "one", component("pinned"), LIKE_PAIR).await);
    created(&server.upload(Some(&key(GUEST)), "two", component("margin"), LIKE_PAIR).await);
    let admin = async |method: &str, path: &str| server.ask(Some(&key(ADMIN)), method, path, "").await;
    let owners = |list: &serde_json::Value| -> Vec<String> {
        let policies = list["data"].as_array().expect("a list").iter();
        policies.map(|policy| policy["owner"].as_str().expect("a tenant").to_owned()).collect()
    };
    assert_eq!(owners(&admin("GET", "/v1/policies?tenant=*").await.json()), ["acme", "guest"]);
    assert_eq!(owners(&admin("GET", "/v1/policies?tenant=guest").await.json()), ["guest"]);
    assert_eq!(owners(&admin("GET", "/v1/policies").await.json()), [""; 0]);
    assert_eq!(admin("DELETE", "/v1/policies/one?tenant=acme").await.status, 200);
    assert_eq!(server.ask(Some(&key(ACME)), "GET", "/v1/policies/one", "").await.status, 404);
    let entries = admin("GET", "/admin/audit?from=4").await.json();
    let id = tenant::key::Secret::of([ADMIN; 40]).id().to_string();
    assert_eq!(
        (&entries["entries"][0]["who"], &entries["entries"][0]["name"]),
        (&json!(id), &json!("acme/one"))
    );
}
