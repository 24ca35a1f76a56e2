//! Bodies as clients send them, and what becomes of them.

use serde_json::{Map, json};

use super::*;

fn chat(extra: &Value) -> Result<Wanted, ApiError> {
    let mut body = json!({"model": "small", "messages": [{"role": "user", "content": "hi"}]});
    let (Value::Object(body), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    body.extend(extra.clone());
    parse(Dialect::Chat, &serde_json::to_vec(body).unwrap())
}

fn text(extra: &Value) -> Result<Wanted, ApiError> {
    let mut body = json!({"model": "small", "prompt": "hi"});
    let (Value::Object(body), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    body.extend(extra.clone());
    parse(Dialect::Text, &serde_json::to_vec(body).unwrap())
}

/// Asserts what is refused: the field, the code, and a word of the message.
#[track_caller]
fn refused(outcome: Result<Wanted, ApiError>, param: Option<&str>, code: &str, word: &str) {
    let error = outcome.expect_err("must be refused");
    assert_eq!((error.param(), error.code()), (param, code), "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn a_plain_chat_has_the_defaults_of_openai() {
    let wanted = chat(&json!({})).unwrap();
    assert_eq!(wanted.sampling, Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0 });
    assert_eq!((wanted.seed, wanted.limit, wanted.shape), (None, None, Shape::default()));
    let hi = json!({"role": "user", "content": "hi"});
    assert_eq!(wanted.prompts, [Prompt::Chat(Chat { messages: vec![hi], tools: Vec::new() })]);
    assert_eq!(text(&json!({})).unwrap().limit, Some((16, "max_tokens")));
}

#[test]
fn null_is_absent() {
    let nulls = json!({"temperature": null, "stop": null, "seed": null, "tools": null, "stream_options": null, "logprobs": null});
    assert_eq!(chat(&nulls).unwrap(), chat(&json!({})).unwrap());
}

#[test]
fn what_is_no_object_is_refused() {
    let refuse = |body: &[u8], word| refused(parse(Dialect::Chat, body), None, "invalid_json", word);
    refuse(b"[]", "not an empty list");
    refuse(b"1", "not 1");
    refuse(b"", "EOF");
    refuse(b"{\"model\": \"\xff\"}", "line 1");
    refuse(b"{\"temperature\": NaN}", "line 1");
    refuse(b"{\"temperature\": 1e999}", "number out of range");
}

#[test]
fn a_wrong_type_names_the_field_and_what_is_right() {
    refused(
        chat(&json!({"temperature": "hot"})),
        Some("temperature"),
        "invalid_type",
        "a number from 0 to 2, not \"hot\"",
    );
    refused(chat(&json!({"stream": 1})), Some("stream"), "invalid_type", "true or false");
    refused(
        chat(&json!({"max_tokens": 1.5})),
        Some("max_tokens"),
        "invalid_type",
        "a whole number of at least 1",
    );
    refused(chat(&json!({"model": ["small"]})), Some("model"), "invalid_type", "a string, not a list");
    refused(chat(&json!({"seed": 0.5})), Some("seed"), "invalid_type", "64 bits");
    refused(chat(&json!({"stop": [1]})), Some("stop[0]"), "invalid_type", "a string");
    refused(chat(&json!({"metadata": "x"})), Some("metadata"), "invalid_type", "an object");
    refused(text(&json!({"prompt": {}})), Some("prompt"), "invalid_type", "a list of token ids");
    refused(text(&json!({"prompt": [1, -1]})), Some("prompt[1]"), "invalid_type", "a token id");
}

#[test]
fn a_value_out_of_range_is_refused() {
    refused(chat(&json!({"temperature": 2.5})), Some("temperature"), "invalid_value", "from 0 to 2");
    refused(chat(&json!({"temperature": -1})), Some("temperature"), "invalid_value", "from 0 to 2");
    refused(chat(&json!({"top_p": 0})), Some("top_p"), "invalid_value", "to 1");
    refused(chat(&json!({"top_k": -2})), Some("top_k"), "invalid_value", "from -1");
    refused(chat(&json!({"max_tokens": 0})), Some("max_tokens"), "invalid_value", "at least 1");
    refused(
        chat(&json!({"logprobs": true, "top_logprobs": 21})),
        Some("top_logprobs"),
        "invalid_value",
        "20",
    );
    refused(chat(&json!({"top_logprobs": 2})), Some("top_logprobs"), "invalid_value", "needs");
    refused(chat(&json!({"stop": ""})), Some("stop"), "invalid_value", "from 1 to 512");
    refused(chat(&json!({"stop": vec!["x"; 17]})), Some("stop"), "invalid_value", "16 strings, not 17");
    refused(chat(&json!({"stream_options": {}})), Some("stream_options"), "invalid_value", "needs");
    refused(text(&json!({"prompt": []})), Some("prompt"), "invalid_value", "an empty list");
    refused(text(&json!({"prompt": [[]]})), Some("prompt[0]"), "invalid_value", "at least one token");
}

#[test]
fn messages_are_checked_to_the_last_part() {
    let with = |messages: Value| chat(&json!({ "messages": messages }));
    refused(with(json!([])), Some("messages"), "invalid_value", "at least one");
    refused(with(json!("hi")), Some("messages"), "invalid_type", "a list");
    refused(with(json!([1])), Some("messages[0]"), "invalid_type", "an object");
    refused(
        with(json!([{"content": "x"}])),
        Some("messages[0].role"),
        "missing_required_parameter",
        "system",
    );
    refused(
        with(json!([{"role": "boss", "content": "x"}])),
        Some("messages[0].role"),
        "invalid_value",
        "\"boss\"",
    );
    refused(
        with(json!([{"role": "user", "content": 5}])),
        Some("messages[0].content"),
        "invalid_type",
        "not 5",
    );
    refused(
        with(json!([{"role": "user"}])),
        Some("messages[0].content"),
        "missing_required_parameter",
        "text parts",
    );
    let image = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]);
    refused(with(image), Some("messages[0].content[1].type"), "unsupported_parameter", "image_url");
    refused(
        with(json!([{"role": "user", "content": "x", "nmae": 1}])),
        Some("messages[0].nmae"),
        "unknown_parameter",
        "nmae",
    );
    let calls = json!([{"role": "user", "content": "x", "tool_calls": [{}]}]);
    refused(with(calls), Some("messages[0].tool_calls"), "unsupported_parameter", "remove");
}

#[test]
fn an_answer_can_be_sent_back_as_it_came() {
    let messages = json!([
        {"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
        {"role": "assistant", "content": "ok", "refusal": null, "annotations": [], "tool_calls": null},
        {"role": "tool", "content": "", "tool_call_id": "c1"},
    ]);
    let Some(Prompt::Chat(Chat { messages, .. })) =
        chat(&json!({ "messages": messages })).unwrap().prompts.pop()
    else {
        panic!("a chat")
    };
    let said = json!([
        {"role": "system", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
        {"role": "assistant", "content": "ok"},
        {"role": "tool", "content": "", "tool_call_id": "c1"},
    ]);
    assert_eq!(Value::from(messages), said);
}

#[test]
fn the_stricter_of_both_limits_holds() {
    let limit = |extra: Value| chat(&extra).unwrap().limit;
    assert_eq!(limit(json!({"max_tokens": 5, "max_completion_tokens": 7})), Some((5, "max_tokens")));
    assert_eq!(
        limit(json!({"max_tokens": 9, "max_completion_tokens": 7})),
        Some((7, "max_completion_tokens"))
    );
    assert_eq!(limit(json!({"max_completion_tokens": 7})), Some((7, "max_completion_tokens")));
    refused(
        text(&json!({"max_completion_tokens": 7})),
        Some("max_completion_tokens"),
        "unknown_parameter",
        "",
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name_unless_it_asks_for_nothing() {
    let neutral = json!({
        "n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "logit_bias": {},
        "presence_penalty": 0.0, "frequency_penalty": 0, "repetition_penalty": 1, "min_p": 0, "min_tokens": 0,
        "ignore_eos": false, "stop_token_ids": [], "parallel_tool_calls": true, "store": false,
        "metadata": {"a": "b"}, "service_tier": "auto", "modalities": ["text"],
    });
    assert_eq!(chat(&neutral).unwrap(), chat(&json!({})).unwrap());
    // Who asks changes no answer, and may be what an experiment goes by.
    assert_eq!(chat(&json!({"user": "u"})).unwrap().user.as_deref(), Some("u"));
    assert_eq!(text(&json!({"best_of": 1, "echo": false, "suffix": ""})).unwrap(), text(&json!({})).unwrap());
    for (key, value) in [("store", json!(true)), ("audio", json!({}))] {
        refused(chat(&json!({ key: value })), Some(key), "unsupported_parameter", "not supported");
    }
    for (key, value) in [("best_of", json!(2)), ("suffix", json!("x"))] {
        refused(text(&json!({ key: value })), Some(key), "unsupported_parameter", "not supported");
    }
    refused(text(&json!({"prompt": ["a", 1]})), Some("prompt[1]"), "invalid_type", "a string");
    refused(text(&json!({"prompt": [[1], "a"]})), Some("prompt[1]"), "invalid_type", "a list");
    refused(text(&json!({"prompt": ["a", "b"], "n": 65})), Some("n"), "invalid_value", "130 answers");
    refused(text(&json!({"prompt": vec!["a"; 129]})), Some("prompt"), "invalid_value", "129 answers");
    refused(chat(&json!({"n": "1"})), Some("n"), "invalid_type", "a whole number");
    refused(chat(&json!({"n": 0})), Some("n"), "invalid_value", "from 1 to 128");
    refused(text(&json!({"max_tokens": 0})), Some("max_tokens"), "invalid_value", "at least 1");
    assert_eq!(text(&json!({"max_tokens": 0, "echo": true})).unwrap().limit, Some((0, "max_tokens")));
}

#[test]
fn an_unknown_field_is_named() {
    refused(chat(&json!({"temprature": 1})), Some("temprature"), "unknown_parameter", "spelling");
    refused(
        chat(&json!({"stream": true, "stream_options": {"usage": true}})),
        Some("stream_options.usage"),
        "unknown_parameter",
        "",
    );
    refused(chat(&json!({"best_of": 1})), Some("best_of"), "unknown_parameter", "");
}

#[test]
fn prompts_come_as_text_or_as_tokens() {
    let prompts = |value: Value| text(&json!({ "prompt": value })).unwrap().prompts;
    let words = |words: &[&str]| words.iter().map(|&word| Prompt::Text(word.to_owned())).collect::<Vec<_>>();
    assert_eq!(prompts(json!("one")), words(&["one"]));
    assert_eq!(prompts(json!(["one", "two"])), words(&["one", "two"]));
    assert_eq!(prompts(json!([5, 6])), [Prompt::Tokens(vec![5, 6])]);
    assert_eq!(prompts(json!([[5, 6], [7]])), [Prompt::Tokens(vec![5, 6]), Prompt::Tokens(vec![7])]);
}

#[test]
fn extensions_are_read() {
    let wanted =
        chat(&json!({"seed": -1, "top_k": 5, "route_trace": true, "return_token_ids": true})).unwrap();
    assert_eq!((wanted.seed, wanted.sampling.top_k), (Some(u64::MAX), 5));
    assert!(wanted.shape.route_trace && wanted.shape.token_ids);
    assert_eq!(text(&json!({"logprobs": 0})).unwrap().shape.logprobs, Some(0));
}

#[test]
fn penalties_and_biases_are_read() {
    let wanted = text(&json!({
        "presence_penalty": -2, "frequency_penalty": 0.5, "repetition_penalty": 1.25, "min_p": 0.125,
        "logit_bias": {"70": -100, "9": 2.5, "11": null}, "stop_token_ids": [7, 8], "ignore_eos": true,
        "min_tokens": 5, "max_tokens": 5,
    }))
    .unwrap();
    let penalties = Adjustments { presence: -2.0, frequency: 0.5, repetition: 1.25, bias: Vec::new() };
    assert_eq!((wanted.adjustments, wanted.sampling.min_p), (penalties, 0.125));
    assert_eq!(wanted.bias, [(9, 2.5), (70, -100.0)]);
    assert_eq!((wanted.stop_tokens, wanted.ignore_eos, wanted.tokens_min), (vec![7, 8], true, 5));
}

#[test]
fn penalties_and_biases_out_of_range_name_the_field_and_the_range() {
    for key in ["presence_penalty", "frequency_penalty"] {
        refused(chat(&json!({ key: 2.1 })), Some(key), "invalid_value", "from -2 to 2");
        refused(chat(&json!({ key: "x" })), Some(key), "invalid_type", "from -2 to 2");
    }
    let refuse = |extra: Value, param, code, word| refused(text(&extra), Some(param), code, word);
    refuse(json!({"repetition_penalty": 0}), "repetition_penalty", "invalid_value", "from 0.01 to 100");
    refuse(json!({"min_p": 1.5}), "min_p", "invalid_value", "from 0 to 1");
    refuse(json!({"logit_bias": [5]}), "logit_bias", "invalid_type", "an object, not a list");
    refuse(json!({"logit_bias": {"x": 1}}), "logit_bias", "invalid_value", "token ids, not \"x\"");
    refuse(json!({"logit_bias": {"-1": 1}}), "logit_bias", "invalid_value", "token ids");
    refuse(json!({"logit_bias": {"05": 1}}), "logit_bias", "invalid_value", "token ids");
    refuse(json!({"logit_bias": {"5": 100.5}}), "logit_bias.5", "invalid_value", "from -100 to 100");
    refuse(json!({"logit_bias": {"5": true}}), "logit_bias.5", "invalid_type", "a number");
    let many: Map<String, Value> = (0..1025).map(|id| (id.to_string(), json!(1))).collect();
    refuse(json!({ "logit_bias": many }), "logit_bias", "invalid_value", "1024 tokens, not 1025");
    refuse(json!({"stop_token_ids": 5}), "stop_token_ids", "invalid_type", "a list of token ids");
    refuse(json!({"stop_token_ids": [1, -1]}), "stop_token_ids[1]", "invalid_type", "a token id");
    refuse(json!({"stop_token_ids": vec![1; 65]}), "stop_token_ids", "invalid_value", "64 token ids, not 65");
    refuse(json!({"min_tokens": -1}), "min_tokens", "invalid_value", "at least 0");
    refuse(json!({"min_tokens": 17}), "min_tokens", "invalid_value", "\"max_tokens\", which is 16, not 17");
    refuse(json!({"ignore_eos": 1}), "ignore_eos", "invalid_type", "true or false");
}
