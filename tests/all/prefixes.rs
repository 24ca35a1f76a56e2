//! The prefix cache changes no answer, in whatever order prompts come and clients leave.

use e2e::Server;
use serde_json::{Value, json};

use super::http_life::await_idle;

const PAIR: &str = "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
    [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\n";

fn prompt(n: u32, length: u32) -> Vec<u32> {
    (0..length).map(|i| if i < 70 { i * 13 % 600 + 5 } else { (i * n + n) % 600 + 5 }).collect()
}

fn body(prompt: &[u32]) -> Value {
    json!({"model": "pair", "prompt": prompt, "temperature": 0, "max_tokens": 24, "ignore_eos": true,
        "return_token_ids": true})
}

async fn ids(server: &Server, prompt: &[u32]) -> Value {
    let reply = server.post("/v1/completions", &body(prompt)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["choices"][0]["token_ids"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_a_cold_server_in_every_order() {
    // All begin alike; the second goes on as the first, the third is its beginning, the fourth turns off.
    let first = prompt(3, 300);
    let longer = [&first[..], &[9; 40]].concat();
    let prompts = [first.clone(), longer, first[..171].to_vec(), prompt(7, 300)];
    let mut cold = Vec::new();
    for prompt in &prompts {
        cold.push(ids(&Server::start(PAIR), prompt).await);
    }
    let server = Server::start(PAIR);
    for order in [[0, 1, 0, 2], [3, 2, 1, 0], [2, 2, 3, 3], [1, 0, 3, 1]] {
        for ix in order {
            assert_eq!(ids(&server, &prompts[ix]).await, cold[ix], "prompt {ix} in {order:?}");
        }
        // Somebody leaves while the prompt is read, and asks again.
        let left = server.stream("/v1/completions", &body(&prompts[order[0]])).await;
        drop(left);
        assert_eq!(ids(&server, &prompts[order[0]]).await, cold[order[0]]);
        await_idle(&server).await;
    }
    // All of them at once, several times.
    let many: Vec<usize> = (0..16).map(|n| n % 4).collect();
    let answers = futures_util::future::join_all(many.iter().map(|&ix| ids(&server, &prompts[ix]))).await;
    assert!(many.iter().zip(answers).all(|(&ix, answer)| answer == cold[ix]));
}
