//! Streamed text is the whole text, byte for byte, whatever its characters, stops and hops.
//!
//! The models are twins, so the single one's answer is right for every route. A bias leaves them bytes that make characters
//! of one to four, seldom in the right order; stop strings are made of the same.

use e2e::Server;
use futures_util::future::join_all;
use journey::Vocabulary;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use serde_json::{Map, Value, json};

const TWINS: &str = r#"
[models.a]
files = "embedded:small"
[models.b]
files = "embedded:small"
[routes.every]
models = ["a", "b"]
policy = "builtin:entropy"
settings = { threshold = 0.0, tokens = 1 }
[routes.random]
models = ["b", "a"]
policy = "builtin:random-share"
settings = { share = 0.5 }
"#;
/// Bytes that an answer is made of: one set for each.
const ALPHABETS: [&[u8]; 4] =
    [b"ab\xC3\xA9\n", b"x\xF0\x9F\xAB\xA0", b"\xE9\xBE\x9Cy", b"\xF0\x9F\x98\x80\xE2\x80\x8D"];
const STOPS: [&str; 9] =
    ["ab", "a\u{e9}", "\u{e9}\u{e9}b", "\n", "x\u{1FAE0}", "\u{9F9C}y", "yyy", "\u{FFFD}x", "\u{200D}"];
const PROMPTS: [&str; 5] =
    ["12 + 30 =", "Z\u{e4}hle \u{1F468}\u{200D}\u{1F469}:", "\u{9F9C}\u{9F9C}", "Tom has", "<|im_end|>"];
const COUNT: u64 = 2000;
const AT_ONCE: usize = 40;

/// A request of the kind that is tried, for any of the routes.
fn request(seed: u64, vocabulary: &Vocabulary) -> Value {
    let rng = &mut StdRng::seed_from_u64(seed);
    let alphabet = ALPHABETS[rng.random_range(0..ALPHABETS.len())];
    let is_letter = |id: &u32| matches!(vocabulary.bytes(*id), [byte] if alphabet.contains(byte));
    let bias = (0..vocabulary.len() as u32).filter(is_letter).map(|id| (id.to_string(), json!(100)));
    let most = rng.random_range(1..28);
    let stops: Vec<&str> =
        (0..rng.random_range(0..3)).map(|_| STOPS[rng.random_range(0..STOPS.len())]).collect();
    let prompt = format!("{}{}", PROMPTS[rng.random_range(0..PROMPTS.len())], rng.random_range(0..1000));
    let mut body = json!({
        "seed": seed, "temperature": 2, "max_tokens": most, "min_tokens": rng.random_range(0..=most),
        "logit_bias": bias.collect::<Map<_, _>>(), "stop": stops, "return_token_ids": true,
        "frequency_penalty": f64::from(rng.random_range(0..4)) / 2.0, "ignore_eos": rng.random_bool(0.5),
    });
    if rng.random_bool(0.5) {
        body["prompt"] = json!(prompt);
        body["logprobs"] = json!(1);
        body["echo"] = json!(rng.random_bool(0.3));
    } else {
        body["messages"] = json!([{"role": "user", "content": prompt}]);
        body["logprobs"] = json!(true);
    }
    body
}

/// What is told of an answer, whichever way it came.
#[derive(Debug, PartialEq)]
struct Told {
    text: String,
    ids: Vec<Value>,
    /// The texts of the tokens, as their log-probabilities name them.
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    reason: Value,
}

impl Told {
    /// Of the choices of a whole answer, or of all chunks, one after the other.
    fn of<'a>(choices: impl Iterator<Item = &'a Value>) -> Self {
        let mut told =
            Self { text: String::new(), ids: vec![], tokens: vec![], logprobs: vec![], reason: Value::Null };
        for choice in choices {
            let text =
                ["/text", "/message/content", "/delta/content"].iter().find_map(|at| choice.pointer(at));
            told.text += text.and_then(Value::as_str).unwrap_or_default();
            let list = |at: &str| choice.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
            told.ids.extend(list("/token_ids"));
            told.tokens.extend(list("/logprobs/tokens"));
            told.logprobs.extend([list("/logprobs/token_logprobs"), list("/logprobs/content")].concat());
            if !choice["finish_reason"].is_null() {
                assert!(told.reason.is_null(), "it ends once");
                told.reason = choice["finish_reason"].clone();
            }
        }
        told
    }
}

/// What the answer's text must be, from its tokens alone.
fn expected(ids: &[Value], stops: &Value, vocabulary: &Vocabulary) -> String {
    let ids: Vec<u32> = ids.iter().map(|id| id.as_u64().expect("an id") as u32).collect();
    let bytes = vocabulary.bytes_of(&ids);
    let mut whole = bytes.len();
    // A character that is only begun is left out; one that can never be is U+FFFD.
    if let Some(unfinished) = std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..])
        .err()
        .filter(|error| error.error_len().is_none())
    {
        whole = bytes.len().saturating_sub(3) + unfinished.valid_up_to();
    } else {
        for tail in 1..=3.min(bytes.len()) {
            let tail = &bytes[bytes.len() - tail..];
            if std::str::from_utf8(tail)
                .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
            {
                whole = bytes.len() - tail.len();
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
    let stops = stops.as_array().into_iter().flatten().filter_map(Value::as_str);
    match stops.filter_map(|stop| text.find(stop)).min() {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

async fn both(server: &Server, model: &str, body: &Value) -> Told {
    let mut body = body.clone();
    body["model"] = json!(model);
    let path = if body.get("prompt").is_some() { "/v1/completions" } else { "/v1/chat/completions" };
    let reply = server.post(path, &body).await;
    assert_eq!(reply.status, 200, "{body}: {}", reply.text);
    let whole = Told::of(reply.json()["choices"].as_array().expect("choices").iter());
    let chunks = server.stream(path, &body).await.chunks().await;
    let streamed = Told::of(chunks.iter().flat_map(|chunk| chunk["choices"].as_array().expect("choices")));
    assert_eq!(streamed, whole, "{body}");
    whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streamed_text_is_the_whole_text_over_two_thousand_prompts() {
    let server = Server::start(TWINS);
    let vocabulary = server.runtime().catalog().routes["a"].tokenizer.vocabulary();
    let (mut characters, mut replaced, mut stopped) = (0, 0, 0);
    for from in (0..COUNT).step_by(AT_ONCE) {
        let each = (from..COUNT.min(from + AT_ONCE as u64)).map(async |seed| {
            let (server, vocabulary) = (&server, &vocabulary);
            let body = request(seed, vocabulary);
            let route = ["every", "random"][seed as usize % 2];
            let told = both(server, route, &body).await;
            // Not every one alone: it is the same path.
            if seed % 5 == 0 {
                assert_eq!(both(server, "a", &body).await, told, "{body}");
            }
            let prompt = if body["echo"] == true { body["prompt"].as_str().expect("text") } else { "" };
            let answer = expected(&told.ids, &body["stop"], vocabulary);
            assert_eq!(told.text, format!("{prompt}{answer}"), "{body}");
            if body.get("prompt").is_some() {
                assert_eq!(told.tokens.iter().filter_map(Value::as_str).collect::<String>(), told.text);
            }
            let whole =
                answer.chars().filter(|c| c.len_utf8() > 1 && *c != char::REPLACEMENT_CHARACTER).count();
            (whole, answer.matches(char::REPLACEMENT_CHARACTER).count(), told.reason == "stop")
        });
        for (whole, broken, stop) in join_all(each).await {
            characters += whole;
            replaced += broken;
            stopped += usize::from(stop);
        }
    }
    assert!(characters > 1000 && replaced > 1000 && stopped > 100, "{characters} {replaced} {stopped}");
    let page = server.get("/metrics").await.text;
    let hops = page.lines().filter(|line| line.starts_with("tokenrouter_handoffs_total"));
    let hops: f64 = hops.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(hops > 10_000.0, "{hops} hops");
}
