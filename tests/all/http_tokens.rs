//! Text to tokens and back, as programs that prepare prompts ask for it.

use e2e::Server;
use serde_json::{Value, json};

use super::http_keys::{key, line, server_of};
use super::questions::chat;

async fn ask(path: &str, body: Value) -> Value {
    let reply = Server::embedded().post(path, &body).await;
    assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text);
    reply.json()
}

#[tokio::test]
async fn tokens_are_those_that_an_answer_is_made_from() {
    let text = "Zähle: \u{1FAE0} 龜 12 + 30 =";
    for model in ["small", "pair/entropy"] {
        let body = json!({"model": model, "prompt": text, "max_tokens": 1, "return_token_ids": true});
        let answered = ask("/v1/completions", body).await;
        let made = ask("/tokenize", json!({"model": model, "prompt": text, "return_token_strs": true})).await;
        assert_eq!(made["tokens"], answered["choices"][0]["prompt_token_ids"]);
        assert_eq!(
            (made["count"].as_u64(), &made["max_model_len"]),
            (answered["usage"]["prompt_tokens"].as_u64(), &json!(1024))
        );
        assert_eq!(made["token_strs"].as_array().unwrap().len(), made["tokens"].as_array().unwrap().len());
        let back = ask("/detokenize", json!({"model": model, "tokens": made["tokens"]})).await;
        assert_eq!(back, json!({ "prompt": text }));

        let mut asked = chat(model, 1, 0.0);
        asked["max_tokens"] = json!(1);
        asked["return_token_ids"] = json!(true);
        let answered = ask("/v1/chat/completions", asked.clone()).await;
        let made = ask("/tokenize", json!({"model": model, "messages": asked["messages"]})).await;
        assert_eq!((&made["tokens"], &made["token_strs"]), (&answered["prompt_token_ids"], &Value::Null));
    }
}

#[tokio::test]
async fn special_tokens_are_themselves_unless_that_is_not_wanted() {
    let info = Server::embedded().get("/tokenizer_info").await.json();
    let end = info["eos_token"].as_str().expect("it has one").to_owned();
    let one = ask("/tokenize", json!({"prompt": end, "add_special_tokens": false})).await;
    assert_eq!(one["count"], 1);
    let plain = ask("/tokenize", json!({"prompt": end, "parse_special": false})).await;
    assert!(plain["count"].as_u64() > Some(1));
    for tokens in [&one["tokens"], &plain["tokens"]] {
        assert_eq!(ask("/detokenize", json!({ "tokens": tokens })).await["prompt"], end);
    }
    let answered = json!({"model": "small", "prompt": end, "max_tokens": 1, "return_token_ids": true});
    assert_eq!(ask("/v1/completions", answered).await["choices"][0]["prompt_token_ids"], plain["tokens"]);
    assert!(info["chat_template"].as_str().is_some_and(|template| template.contains("messages")));
    assert_eq!(info, Server::embedded().get("/tokenizer_info?model=pair/entropy").await.json());
}

#[tokio::test]
async fn what_cannot_become_tokens_or_text_is_refused_by_name() {
    for (path, body, param, code) in [
        ("/tokenize", json!({}), "prompt", "missing_required_parameter"),
        ("/tokenize", json!({"prompt": 1}), "prompt", "invalid_type"),
        ("/tokenize", json!({"prompt": "x", "tokens": []}), "tokens", "unknown_parameter"),
        (
            "/tokenize",
            json!({"messages": [{"role": "user"}]}),
            "messages[0].content",
            "missing_required_parameter",
        ),
        (
            "/tokenize",
            json!({"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": false}),
            "add_generation_prompt",
            "unsupported_parameter",
        ),
        ("/detokenize", json!({}), "tokens", "missing_required_parameter"),
        ("/detokenize", json!({"tokens": [5, 672]}), "tokens[1]", "invalid_value"),
        ("/detokenize", json!({"tokens": [-1]}), "tokens[0]", "invalid_type"),
    ] {
        let reply = Server::embedded().post(path, &body).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code)),
            "{body}"
        );
    }
    let reply = Server::embedded().post("/tokenize", &json!({"prompt": "x", "model": "nothing"})).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(Server::embedded().get("/tokenizer_info?name=small").await.status, 400);
    assert_eq!(Server::embedded().post_raw("/tokenize", "[]").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_asks_the_tokenizers_of_what_it_may_see() {
    let tenants = format!("[tenants.acme]\nmodels = [\"small\"]\nroutes = []\nkeys = [{}]", line(1, ""));
    let (server, _) = server_of(&tenants);
    let status = async |model: Option<&str>| {
        let tokenize = server.post_as(&key(1), "/tokenize", &json!({"model": model, "prompt": "x"})).await;
        let detokenize =
            server.post_as(&key(1), "/detokenize", &json!({"model": model, "tokens": [5]})).await;
        let query = model.map(|model| format!("?model={model}")).unwrap_or_default();
        let info = server.ask(Some(&key(1)), "GET", &format!("/tokenizer_info{query}"), "").await;
        let all = [tokenize.status, detokenize.status, info.status];
        assert!(all.iter().all(|status| *status == all[0]), "{model:?}: {all:?}");
        if let (404, Some(model)) = (tokenize.status, model) {
            let absent =
                server.post_as(&key(1), "/tokenize", &json!({"model": "nothing", "prompt": "x"})).await;
            assert_eq!(tokenize.text.replace(model, "nothing"), absent.text, "hidden is as absent");
        }
        all[0]
    };
    assert_eq!(status(Some("small")).await, 200);
    assert_eq!(status(None).await, 200);
    assert_eq!(status(Some("large")).await, 404);
    assert_eq!(status(Some("pair/entropy")).await, 404);
}
