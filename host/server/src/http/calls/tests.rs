//! What is said of texts in every form of call, whatever pieces they come in.

use super::*;

const LIST: CallForm = CallForm::List(9);

/// What is said of a text that comes in pieces of so many bytes.
fn read(reading: Reading, text: &str, piece: usize) -> (String, Vec<Value>, Vec<Said>) {
    let mut calls = Calls::new(reading, 7);
    let mut said = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = piece.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        said.extend(calls.push(1, &rest[..end]));
        rest = &rest[end..];
    }
    said.extend(calls.finish());
    let content =
        said.iter().filter_map(|part| if let Said::Text(text) = part { Some(text.as_str()) } else { None });
    (content.collect(), whole(&said), said)
}

/// The content, and each call's name and arguments, the same however the text is cut.
fn told(form: CallForm, only_calls: bool, text: &str) -> (String, Vec<(String, String)>) {
    let reading = Reading { form, only_calls };
    let (content, calls, _) = read(reading, text, usize::MAX);
    for piece in 1..9 {
        let (in_pieces, same_calls, said) = read(reading, text, piece);
        assert_eq!((&in_pieces, &same_calls), (&content, &calls), "{text:?} in pieces of {piece}");
        let mut joined = vec![String::new(); calls.len()];
        for delta in deltas(&said) {
            let index = delta["index"].as_u64().unwrap() as usize;
            joined[index] += delta["function"]["arguments"].as_str().unwrap();
        }
        let arguments: Vec<&str> =
            calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
        assert_eq!(joined, arguments);
    }
    let text = |call: &Value, key: &str| call["function"][key].as_str().unwrap().to_owned();
    (content, calls.iter().map(|call| (text(call, "name"), text(call, "arguments"))).collect())
}

fn pair(name: &str, arguments: &str) -> (String, String) {
    (name.to_owned(), arguments.to_owned())
}

#[test]
fn tagged_calls_are_told_from_text() {
    let of = |text: &str| told(CallForm::Tagged, false, text);
    let call =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"{\", \"b\": [1, {}]}}\n</tool_call>";
    let args = "{\"a\": \"}\\\"{\", \"b\": [1, {}]}";
    assert_eq!(of("1 < 2 <tool\n "), ("1 < 2 <tool\n ".to_owned(), vec![]));
    assert_eq!(of(&format!("Let me see.\n\n{call}")), ("Let me see.".to_owned(), vec![pair("f", args)]));
    assert_eq!(of(&format!("{call}\n{call}\n")), (String::new(), vec![pair("f", args), pair("f", args)]));
    // Another order, and no call at all.
    assert_eq!(
        of("<tool_call>{\"arguments\": {}, \"name\": \"g\"}</tool_call>"),
        (String::new(), vec![pair("g", "{}")])
    );
    assert_eq!(of("<tool_call>none</tool_call>!").0, "<tool_call>none!");
}

#[test]
fn lists_and_objects_are_read() {
    let text = "[{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}]";
    let both = vec![pair("f", "{\"x\": 1}"), pair("g", "{}")];
    assert_eq!(told(LIST, true, text), (String::new(), both));
    assert_eq!(told(LIST, false, "[1, 2]"), ("[1, 2]".to_owned(), vec![]));
    let llama = "{\"name\": \"f\", \"parameters\": {\"x\": 1}}";
    assert_eq!(told(CallForm::Object, false, llama), (String::new(), vec![pair("f", "{\"x\": 1}")]));
    assert_eq!(told(CallForm::Object, false, "No {}"), ("No {}".to_owned(), vec![]));
    let bare = "{\"name\": \"f\", \"arguments\": {\"x\": 1}}";
    assert_eq!(told(CallForm::Unknown, true, bare), (String::new(), vec![pair("f", "{\"x\": 1}")]));
}

#[test]
fn calls_that_are_cut_off_keep_what_is_there() {
    let text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"xyz\"}}\n</tool_call>";
    for end in 0..text.len() {
        let (content, calls) = told(CallForm::Tagged, true, &text[..end]);
        assert!(calls.len() <= 1 && !content.contains('{'), "{content:?}");
        assert!(calls.iter().all(|(name, arguments)| name == "f" && text.contains(arguments)));
    }
}

#[test]
fn a_special_token_opens_a_list() {
    let mut calls = Calls::new(Reading { form: LIST, only_calls: false }, 1);
    let mut said = calls.push(1, "Well.");
    said.extend(calls.push(9, ""));
    said.extend(calls.push(2, "[{\"name\": \"f\", \"arguments\": {}}]"));
    said.extend(calls.finish());
    assert_eq!(said[0], Said::Text("Well.".to_owned()));
    assert!(matches!(&said[1], Said::Call { id, name, .. } if id.len() == 9 && name == "f"));
    assert!(calls.any());
}
