//! A busy model's steps go to tenants by their shares and priorities, seen as clients see it.

use e2e::{Events, Server};
use futures_util::future::join_all;
use serde_json::json;

use super::http_keys::{key, line};
use super::questions::chat;

const STREAMS: usize = 8;
const TOKENS: u64 = 100;

/// A model with four places in a step, and two tenants with keys 1 and 2.
fn server(first: &str, second: &str) -> Server {
    Server::start(&format!(
        "[models.m]\nfiles = \"embedded:small\"\nrows_max = 4\nsim.fixed_ms = 5.0\n\
         [tenants.first]\n{first}\nkeys = [{}]\n[tenants.second]\n{second}\nkeys = [{}]",
        line(1, ""),
        line(2, "")
    ))
}

async fn open(server: &Server, of: u8) -> Vec<Events> {
    let key = key(of);
    let open = (0..STREAMS).map(|ix| {
        let mut body = chat("m", ix, 0.0);
        body["max_tokens"] = json!(TOKENS);
        body["ignore_eos"] = json!(true);
        let key = &key;
        async move { server.stream_as(Some(key), "/v1/chat/completions", &body).await }
    });
    join_all(open).await
}

/// Tokens that the first tenant gets by the time at which the second has all of its own.
async fn made_beside(server: &Server) -> u64 {
    let rows = || server.runtime().catalog().models.values().map(|model| model.meter.steps().1).sum::<u64>();
    let first = open(server, 1).await;
    let alone = rows();
    let mut second = open(server, 2).await;
    for stream in &mut second {
        stream.chunks().await;
    }
    let made = rows() - alone;
    drop(first);
    // Rows of steps, of which a few fed prompts.
    made - STREAMS as u64 * TOKENS
}

#[tokio::test]
async fn of_a_busy_model_tenants_get_parts_in_the_proportion_of_their_shares() {
    let even = made_beside(&server("", "")).await;
    let third = made_beside(&server("share = 1", "share = 3")).await;
    let all = STREAMS as u64 * TOKENS;
    assert!((all * 8 / 10..all * 12 / 10).contains(&even), "{even} beside {all}");
    assert!((all / 4..all / 2).contains(&third), "{third} beside {all}");
}

#[tokio::test]
async fn a_tenant_of_higher_priority_goes_first() {
    let made = made_beside(&server("share = 1000", "priority = 1")).await;
    assert!(made < STREAMS as u64 * TOKENS / 4, "{made}");
}
