//! Grammars over the embedded models' tokens and over single bytes.

use journey::{Grammar, Standing, TokenMask, Vocabulary};
use serde_json::{Value, json};

use super::*;

/// Token 0 ends answers, tokens 1 to 255 are bytes, then come some words.
fn vocabulary() -> Vocabulary {
    let bytes = (1..=255u8).map(|byte| vec![byte]);
    let words = ["{\"", "\":", "true", "name", "\u{e9}", "  ", "<tool_call>", "\": \""]
        .map(|word| word.as_bytes().to_vec());
    let all = std::iter::once(Vec::new()).chain(bytes).chain(words);
    Vocabulary::new(all.map(Vec::into_boxed_slice).collect())
}

fn compiler() -> Compiler {
    Compiler::new(&vocabulary(), usize::MAX).unwrap()
}

fn of(schema: &Value) -> Result<Arc<dyn Grammar>, GrammarError> {
    compiler().compile(&json(schema)?)
}

fn mask(matcher: &mut dyn journey::Matcher) -> TokenMask {
    let mut mask = TokenMask::default();
    matcher.allow(&mut mask);
    mask
}

/// Whether a text can be written, and how it stands then.
fn written(grammar: &dyn Grammar, text: &str) -> Option<Standing> {
    let mut matcher = grammar.begin();
    text.bytes().all(|byte| matcher.take(u32::from(byte))).then(|| matcher.standing())
}

#[test]
fn only_what_satisfies_a_schema_can_be_written() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["name"], "additionalProperties": false});
    let grammar = of(&schema).unwrap();
    assert_eq!(written(&*grammar, r#"{"name": "x", "n": 3}"#), Some(Standing::Complete));
    assert_eq!(written(&*grammar, r#"{"name":"x"}"#), Some(Standing::Complete));
    assert_eq!(written(&*grammar, r#"{"name": "x""#), Some(Standing::Open));
    assert_eq!(written(&*grammar, r#"{"n""#), None);
    assert_eq!(written(&*grammar, r#"{"name": "x"} "#), None);
    let number = of(&json!({"type": "integer"})).unwrap();
    assert_eq!(written(&*number, "12"), Some(Standing::Accepting));
}

#[test]
fn the_mask_says_what_can_be_taken_and_going_back_changes_nothing() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let grammar = of(&schema).unwrap();
    let mut matcher = grammar.begin();
    let size = vocabulary().len() as u32;
    let mut masks = Vec::new();
    let text = "{\n  \"name\": \"\u{e9}<\"}";
    for byte in text.bytes() {
        let now = mask(&mut *matcher);
        for token in 0..size {
            let taken = matcher.take(token);
            assert_eq!(taken, now.allows(token), "token {token} before {byte}");
            if taken {
                matcher.rewind(1);
            }
        }
        assert_eq!(mask(&mut *matcher), now);
        masks.push(now);
        assert!(matcher.take(u32::from(byte)));
    }
    assert_eq!(matcher.standing(), Standing::Complete);
    assert!(mask(&mut *matcher).is_empty());
    for (count, expected) in masks.iter().rev().enumerate() {
        let mut matcher = grammar.begin();
        text.bytes().for_each(|byte| assert!(matcher.take(u32::from(byte))));
        matcher.rewind(count + 1);
        assert_eq!(mask(&mut *matcher), *expected);
    }
}

#[test]
fn blanks_are_bounded_whatever_the_schema_says() {
    let schema = json!({"type": "object", "x-guidance": {"whitespace_pattern": "[ ]*"}});
    let grammar = of(&schema).unwrap();
    assert!(written(&*grammar, "{ ").is_some());
    assert!(written(&*grammar, "{\n    \"a\": 1").is_some());
    assert!(written(&*grammar, "{  ").is_none());
    assert!(written(&*grammar, "{\n\n\n").is_none());
    assert!(written(&*grammar, "\n\n\n").is_none());
}

#[test]
fn what_cannot_be_followed_is_refused_in_words() {
    let refused = |schema: Value| of(&schema).err().unwrap().to_string();
    assert_eq!(refused(json!(true)), "a schema must be an object");
    let unknown = refused(json!({"type": "object", "dependentSchemas": {}}));
    assert!(unknown.contains("dependentSchemas"), "{unknown}");
    assert!(refused(json!({"type": "nothing"})).contains("nothing"));
    let lost = refused(json!({"$ref": "#/$defs/lost"}));
    assert!(lost.contains("lost"), "{lost}");
    let long = refused(json!({"type": "object", "description": "x".repeat(SOURCE_BYTES_MAX)}));
    assert!(long.contains("65536"), "{long}");
}

#[test]
fn costly_schemas_are_refused_in_time() {
    let begun = std::time::Instant::now();
    let bomb = json!({"type": "string", "pattern": "(a|b)*c(a|b){4000}(c|d){4000}"});
    let wide: serde_json::Map<String, Value> =
        (0..2000).map(|n| (format!("p{n}"), json!({"type": "string", "pattern": "^(x|y){9}z$"}))).collect();
    // Deeper is no JSON for the server.
    let deep = |key: &str| {
        (0..100).fold(json!({"type": "integer"}), |inner, _| json!({"type": "array", key: inner}))
    };
    for schema in [bomb, json!({"type": "object", "properties": wide}), deep("items"), deep("contains")] {
        // Refused, or compiled: neither may take long.
        drop(of(&schema));
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn patterns_of_any_depth_are_refused_or_compiled() {
    for depth in [50, 5_000, 30_000] {
        let pattern = format!("{}a{}", "(".repeat(depth), ")*".repeat(depth));
        drop(of(&json!({"type": "string", "pattern": pattern})));
        let many = "a?".repeat(depth);
        drop(of(&json!({"type": "string", "pattern": many})));
    }
}
