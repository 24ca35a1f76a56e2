//! The page as a client gets it; what it does in a browser is checked by `tests/page`.

use e2e::Server;

use super::http_keys::{line, server_of};

/// The files that a text of the page asks for, as paths.
fn asked_for(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let names = quoted.filter_map(|word| word.strip_prefix("page/").or_else(|| word.strip_prefix("./")));
    names.map(|name| format!("/page/{name}")).collect()
}

#[tokio::test]
async fn the_page_and_all_that_it_asks_for_come_without_a_key() {
    let tenants = format!("[tenants.acme]\nkeys = [{}]", line(1, ""));
    let (guarded, _) = server_of(&tenants);
    for server in [Server::embedded(), &guarded] {
        let index = server.get("/").await;
        assert_eq!((index.status, index.header("content-type")), (200, "text/html; charset=utf-8"));
        let mut paths = asked_for(&index.text);
        let mut seen = 0;
        while let Some(path) = paths.get(seen).cloned() {
            let file = server.get(&path).await;
            let kind = if path.ends_with(".css") { "text/css" } else { "text/javascript" };
            assert_eq!(
                (file.status, file.header("content-type")),
                (200, &*format!("{kind}; charset=utf-8")),
                "{path}"
            );
            let more = asked_for(&file.text).into_iter().filter(|more| !paths.contains(more));
            paths.extend(more.collect::<Vec<_>>());
            seen += 1;
        }
        assert!(seen > 8, "the page is of several files: {paths:?}");
    }
}

#[tokio::test]
async fn a_browser_is_told_to_let_nothing_else_in() {
    for path in ["/", "/page/main.js"] {
        let reply = Server::embedded().get(path).await;
        let policy = reply.header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert_eq!(
            (reply.header("x-content-type-options"), reply.header("cache-control")),
            ("nosniff", "no-cache")
        );
    }
}

#[tokio::test]
async fn what_the_page_does_not_have_is_answered_as_any_other_path() {
    for path in ["/page/none.js", "/page/mod.rs", "/page/..%2Fmod.rs", "/page/%ff", "/page/", "/page"] {
        let reply = Server::embedded().get(path).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &"unknown_url".into()), "{path}");
    }
    assert_eq!(Server::embedded().post_raw("/", "{}").await.status, 405);
}
