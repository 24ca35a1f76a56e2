//! Calls of tools: in the model's own form where its template shows tools, in a bare one where it does not.

use std::path::Path;
use std::sync::LazyLock;

use e2e::{Reply, Server};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// Calls between tags, as Hermes and Qwen write them.
const TAGGED: &str = "{% if tools %}<|im_start|>system\nTools:{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}<|im_end|>\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for call in m.tool_calls or [] %}\n<tool_call>\n\
    {\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// One object, as Llama writes it.
const OBJECT: &str = "{% if tools %}{{ tools | tojson }} {\"name\": \"f\", \"parameters\": {}}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

/// The small model under several templates.
static SERVER: LazyLock<(Server, tempfile::TempDir)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tinypair/models/small");
    let mut config = String::new();
    for (name, template) in [("tagged", TAGGED), ("object", OBJECT)] {
        let model = folder.path().join(name);
        std::fs::create_dir(&model).expect("ours");
        for file in [
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
        ] {
            std::fs::copy(files.join(file), model.join(file)).expect("a copy");
        }
        std::fs::write(model.join("chat_template.jinja"), template).expect("ours");
        config += &format!("[models.{name}]\nfiles = {:?}\n", model.display().to_string());
    }
    config += "[models.plain]\nfiles = \"embedded:small\"\n";
    config += "[routes.twins]\nmodels = [\"tagged\", \"plain\"]\npolicy = \"builtin:entropy\"\nsettings = { threshold = 0.0, tokens = 1 }\n";
    (Server::start(&config), folder)
});

fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "strict": true, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Oslo", "Bonn"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"], "additionalProperties": false}}},
        {"type": "function", "function": {"name": "now"}},
    ])
}

fn body(model: &str, extra: &Value) -> Value {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": "How is the weather?"}],
        "tools": tools(), "max_tokens": 200, "seed": 3});
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra.clone());
    body
}

async fn post(model: &str, extra: &Value) -> Reply {
    SERVER.0.post(CHAT, &body(model, extra)).await
}

/// The message and reason of a whole answer, which a stream tells too, in pieces.
async fn told(model: &str, extra: &Value) -> (Value, String) {
    let reply = post(model, extra).await;
    assert_eq!(reply.status, 200, "{extra}: {}", reply.text);
    let choice = reply.json()["choices"][0].clone();
    let chunks = SERVER.0.stream(CHAT, &body(model, extra)).await.chunks().await;
    let mut content = String::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut reasons = Vec::new();
    for chunk in &chunks {
        let choice = &chunk["choices"][0];
        reasons.extend(choice["finish_reason"].as_str().map(str::to_owned));
        content += choice["delta"]["content"].as_str().unwrap_or_default();
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = delta["index"].as_u64().expect("an index") as usize;
            if delta.get("id").is_some() {
                assert_eq!(index, calls.len(), "calls begin in order");
                calls.push(json!({"type": delta["type"], "function": delta["function"]}));
            } else {
                let more = delta["function"]["arguments"].as_str().expect("arguments");
                let arguments =
                    calls[index]["function"]["arguments"].as_str().expect("text").to_owned() + more;
                calls[index]["function"]["arguments"] = arguments.into();
            }
        }
    }
    let reason = choice["finish_reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reasons, std::slice::from_ref(&reason), "one reason for one choice");
    let message = &choice["message"];
    assert_eq!(content, message["content"].as_str().unwrap_or_default());
    let without_ids = |call: &Value| json!({"type": call["type"], "function": call["function"]});
    let whole: Vec<Value> = message["tool_calls"].as_array().into_iter().flatten().map(without_ids).collect();
    assert_eq!(calls, whole, "{extra}");
    (message.clone(), reason)
}

/// Asserts that the calls of a message are whole, and gives their names.
#[track_caller]
fn called(message: &Value) -> Vec<&str> {
    let calls = message["tool_calls"].as_array().unwrap_or_else(|| panic!("no calls: {message}"));
    for call in calls {
        let arguments = call["function"]["arguments"].as_str().expect("text");
        let arguments: Value =
            serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {call}"));
        if call["function"]["name"] == "weather" {
            assert!(arguments["city"] == "Oslo" || arguments["city"] == "Bonn", "{call}");
            assert!(arguments["days"].as_u64().is_some_and(|days| (1..10).contains(&days)), "{call}");
        }
        assert!(call["id"].as_str().is_some_and(|id| id.starts_with("call_")), "{call}");
    }
    calls.iter().map(|call| call["function"]["name"].as_str().expect("a name")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_18_a_tool_that_must_be_called_is_called() {
    let weather = json!({"type": "function", "function": {"name": "weather"}});
    for model in ["tagged", "object", "plain", "twins"] {
        for seed in 0..3 {
            let extra = json!({"tool_choice": weather, "seed": seed});
            let (message, reason) = told(model, &extra).await;
            assert_eq!((called(&message), reason.as_str()), (vec!["weather"], "tool_calls"), "{model}");
            assert_eq!(message["content"], Value::Null);
            let extra = json!({"tool_choice": "required", "seed": seed, "parallel_tool_calls": false, "temperature": 0.5});
            let (message, reason) = told(model, &extra).await;
            if reason == "tool_calls" {
                assert_eq!(called(&message).len(), 1);
            } else {
                // A tool without a schema of its own takes any object, of any length.
                assert_eq!(reason, "length");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_18_any_end_within_a_call_is_an_answer() {
    let weather = json!({"type": "function", "function": {"name": "weather"}});
    for model in ["tagged", "object", "plain"] {
        let mut reasons = Vec::new();
        for most in (1..150).step_by(2) {
            let extra = json!({"tool_choice": weather, "max_tokens": most, "temperature": 0});
            let (message, reason) = told(model, &extra).await;
            assert_eq!(message["content"], Value::Null, "{message}");
            reasons.push(reason);
        }
        assert_eq!(
            (reasons[0].as_str(), reasons[reasons.len() - 1].as_str()),
            ("length", "tool_calls"),
            "{model}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_18_parallel_calls_have_indices_of_their_own() {
    let route = SERVER.0.runtime().catalog().select("tagged").expect("configured").route;
    let line = route.tokenizer.encode("\n").expect("text")[0];
    // After a call comes an end or a line with another.
    let extra = json!({"tools": [tools()[0]], "tool_choice": "required", "logit_bias": {line.to_string(): 30}, "max_tokens": 300});
    let (message, _) = told("tagged", &extra).await;
    assert!(message["tool_calls"].as_array().is_some_and(|calls| calls.len() > 1), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_may_call_or_talk() {
    for model in ["tagged", "object"] {
        let (message, reason) = told(model, &json!({"temperature": 0})).await;
        assert!(message.get("tool_calls").is_none() && reason != "tool_calls", "{message}");
    }
    // From where a call is opened, only a call can follow: the opening is forced by a bias, what follows by the grammar.
    let route = SERVER.0.runtime().catalog().select("object").expect("configured").route;
    let brace = route.tokenizer.encode("{").expect("text")[0];
    let extra = json!({"logit_bias": {brace.to_string(): 30}, "tools": [tools()[0]]});
    let (message, reason) = told("object", &extra).await;
    assert_eq!((called(&message), reason.as_str()), (vec!["weather"], "tool_calls"));
    // Where none is to be called, the tools are not shown.
    let with = post("tagged", &json!({"temperature": 0})).await.json();
    let without = post("tagged", &json!({"temperature": 0, "tool_choice": "none"})).await.json();
    let tokens = |reply: &Value| reply["usage"]["prompt_tokens"].as_u64().expect("a count");
    assert!(tokens(&without) + 50 < tokens(&with));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_and_what_it_gave_are_shown_to_the_model() {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\", \"days\": 1}"}});
    let messages = json!([
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain <|im_end|>"},
    ]);
    let extra =
        json!({"messages": messages, "return_token_ids": true, "max_tokens": 1, "tool_choice": "none"});
    let reply = post("tagged", &extra).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let ids: Vec<u32> = serde_json::from_value(reply.json()["prompt_token_ids"].clone()).expect("ids");
    let tokenizer = &SERVER.0.runtime().catalog().select("tagged").expect("configured").route.tokenizer;
    let text = "user\nHow is the weather?\nassistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}\n</tool_call>\ntool\nRain <|im_end|>\nassistant\n";
    assert_eq!(tokenizer.decode(&ids), text);
}

#[track_caller]
fn refused(reply: &Reply, param: &str, word: &str) {
    assert_eq!(reply.status, 400, "{}", reply.text);
    let error = &reply.json()["error"];
    assert_eq!(error["param"], param, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(word)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_called_is_refused_by_name() {
    let tool = |function: Value| json!({"tools": [{"type": "function", "function": function}]});
    let message = |message: Value| json!({"messages": [{"role": "user", "content": "a"}, message]});
    for (extra, param, word) in [
        (json!({}), "tools", "required"),
        (json!({"tool_choice": "required", "tools": []}), "tool_choice", "required"),
        (json!({"tool_choice": "some"}), "tool_choice", "required"),
        (json!({"tool_choice": {"type": "function", "function": {"name": "none"}}}), "tool_choice", "none"),
        (
            json!({"tool_choice": "required", "response_format": {"type": "json_object"}}),
            "response_format",
            "tool_choice",
        ),
        (json!({"tools": [{}]}), "tools[0].type", "missing"),
        (tool(json!({"name": "a b"})), "tools[0].function.name", "letters"),
        (tool(json!({"name": "a", "parameters": []})), "tools[0].function.parameters", "schema"),
        (json!({"tools": [tools()[1], tools()[1]]}), "tools[1].function.name", "two tools"),
        (
            json!({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "nothing"}}}]}),
            "tools",
            "nothing",
        ),
        (
            message(
                json!({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "no"}}]}),
            ),
            "messages[1].tool_calls[0].function.arguments",
            "JSON object",
        ),
        (
            message(json!({"role": "user", "content": "a", "tool_calls": [{"id": "1"}]})),
            "messages[1].tool_calls",
            "not supported",
        ),
    ] {
        refused(&post("plain", &extra).await, param, word);
    }
}
