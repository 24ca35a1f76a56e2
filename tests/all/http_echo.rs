//! Prompts that are shown and scored: what lm-eval asks for.

use e2e::Server;
use serde_json::{Value, json};

use super::questions::question;

const TEXT: &str = "/v1/completions";
const LISTS: [&str; 4] = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];

fn with(mut body: Value, extra: &Value) -> Value {
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra.clone());
    body
}

async fn choice(body: &Value) -> Value {
    let reply = Server::embedded().post(TEXT, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["choices"][0].clone()
}

fn list<'a>(choice: &'a Value, key: &str) -> &'a Vec<Value> {
    choice["logprobs"][key].as_array().unwrap_or_else(|| panic!("{key} in {choice}"))
}

/// Asserts what holds of the log-probabilities of any choice.
fn aligned(choice: &Value) {
    let text = choice["text"].as_str().expect("text");
    let tokens: Vec<&str> =
        list(choice, "tokens").iter().map(|token| token.as_str().expect("a text")).collect();
    assert_eq!(tokens.concat(), text);
    let mut offset = 0;
    for (token, told) in tokens.iter().zip(list(choice, "text_offset")) {
        assert_eq!(told, &json!(offset), "of {token:?} in {text:?}");
        offset += token.chars().count();
    }
    assert!(LISTS.iter().all(|key| list(choice, key).len() == tokens.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_echoed_prompt_is_scored_and_aligned_with_its_text() {
    let prompt = tinypair::problems::prompt(&question(2));
    let split = "a \u{1FAE0} \u{9F9C}e\u{301} \u{1F468}\u{200D}\u{1F469} 12 + 30 =";
    for (model, prompt) in [("small", &*prompt), ("pair/entropy", split), ("pair/random", split)] {
        let body = json!({"model": model, "prompt": prompt, "seed": 9, "temperature": 1.2, "max_tokens": 20,
            "logprobs": 3, "stop": ["\n", "7"]});
        let (plain, echoed) =
            (choice(&body).await, choice(&with(body.clone(), &json!({"echo": true}))).await);
        let text = echoed["text"].as_str().unwrap();
        assert_eq!(
            text.strip_prefix(prompt),
            plain["text"].as_str(),
            "the prompt, and the answer as it is without"
        );
        assert_eq!(echoed["finish_reason"], plain["finish_reason"]);
        aligned(&plain);
        aligned(&echoed);
        assert!(list(&echoed, "token_logprobs")[0].is_null() && list(&echoed, "top_logprobs")[0].is_null());
        let after = list(&echoed, "tokens").len() - list(&plain, "tokens").len();
        assert!(list(&echoed, "token_logprobs")[1..].iter().all(|logprob| logprob.as_f64() <= Some(0.0)));
        for key in &LISTS[..3] {
            assert_eq!(list(&echoed, key)[after..], list(&plain, key)[..], "{key}");
        }
        let mut events = Server::embedded().stream(TEXT, &with(body, &json!({"echo": true}))).await;
        let chunks = events.chunks().await;
        let joined: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
        assert_eq!(joined, text);
        for key in LISTS {
            let lists = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"][key].as_array());
            assert_eq!(&lists.flatten().cloned().collect::<Vec<_>>(), list(&echoed, key), "{key}");
        }
    }
}

/// A score is what the same model says of the same token when it makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_are_those_of_the_tokens_when_they_are_made() {
    let prompt = tinypair::problems::prompt(&question(3));
    for model in ["small", "large"] {
        let body = json!({"model": model, "prompt": prompt, "temperature": 1, "seed": 6, "max_tokens": 200,
            "ignore_eos": true, "logprobs": 2, "return_token_ids": true});
        let made = choice(&body).await;
        let ids: Vec<&Value> = [&made["prompt_token_ids"], &made["token_ids"]]
            .iter()
            .flat_map(|ids| ids.as_array().unwrap())
            .collect();
        for (most, extra) in [(0, 0), (1, 1)] {
            let body = json!({"model": model, "prompt": ids, "echo": true, "max_tokens": most, "logprobs": 2,
                "temperature": 0});
            let scored = choice(&body).await;
            aligned(&scored);
            assert_eq!(
                (scored["finish_reason"].as_str(), list(&scored, "tokens").len()),
                (Some("length"), ids.len() + extra)
            );
            let after = made["prompt_token_ids"].as_array().unwrap().len();
            // Draws for a prompt and for an answer are the same bits, however its tokens were cut into steps.
            assert_eq!(list(&scored, "token_logprobs")[after..ids.len()], list(&made, "token_logprobs")[..]);
        }
    }
}

#[tokio::test]
async fn a_prompt_is_echoed_without_scores_and_without_an_answer() {
    for prompt in [json!("12 + 30 ="), json!([[5, 6, 7]]), json!("x")] {
        let body = json!({"model": "pair/entropy", "prompt": prompt, "echo": true, "max_tokens": 0});
        let reply = Server::embedded().post(TEXT, &body).await.json();
        let (choice, usage) = (&reply["choices"][0], &reply["usage"]);
        assert_eq!((&usage["completion_tokens"], &choice["finish_reason"]), (&json!(0), &json!("length")));
        if let Some(text) = prompt.as_str() {
            assert_eq!(choice["text"], text);
        }
        let chunks = Server::embedded().stream(TEXT, &body).await.chunks().await;
        let joined: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
        assert_eq!(joined, choice["text"].as_str().unwrap());
    }
}

/// Many prompts in one request, each scored, as lm-eval sends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_of_a_list_are_scored_each_by_itself() {
    let prompts: Vec<Vec<u32>> =
        (1..40u32).map(|n| (0..n * 7 % 97 + 1).map(|i| (i * n) % 600 + 5).collect()).collect();
    let body = |prompt: Value| json!({"model": "large", "prompt": prompt, "echo": true, "max_tokens": 1, "logprobs": 1, "temperature": 0});
    let all = Server::embedded().post(TEXT, &body(json!(prompts))).await.json();
    for (prompt, choice_of_all) in prompts.iter().zip(all["choices"].as_array().unwrap()) {
        let alone = choice(&body(json!(prompt))).await;
        assert_eq!(choice_of_all["logprobs"], alone["logprobs"]);
    }
}
