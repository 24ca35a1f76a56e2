//! The prompt as text, token by token, for answers that begin with it.

use journey::Vocabulary;
use journey::text::TextStream;

use crate::http::prepare::Shown;

/// The text that becomes visible with each token of a prompt; joined, they are what the client sent. Of tokens that no text
/// was sent for they are the tokens' text, with U+FFFD for what is none.
pub(super) fn texts(prompt: &Shown, vocabulary: &Vocabulary) -> Vec<String> {
    let mut stream = TextStream::new(Vec::new());
    let mut texts: Vec<String> =
        prompt.tokens.iter().map(|&token| stream.push(vocabulary.bytes(token))).collect();
    let all = vocabulary.bytes_of(&prompt.tokens);
    let (whole, shown) = (String::from_utf8_lossy(&all), texts.iter().map(String::len).sum());
    if let (Some(last), Some(unfinished)) = (texts.last_mut(), whole.get(shown..)) {
        last.push_str(unfinished);
    }
    // Some tokenizers put a space before a text, which is not the client's.
    let added = prompt.text.as_ref().and_then(|text| whole.strip_suffix(text.as_str()));
    let mut added = added.map_or(0, str::len);
    for text in &mut texts {
        let cut = added.min(text.len());
        text.drain(..cut);
        added -= cut;
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_prompt_join_to_what_was_sent() {
        let tokens: [&[u8]; 5] = [b"", b" ", b"a\xC3", b"\xA9b", b"\xF0\x9F"];
        let vocabulary = Vocabulary::new(tokens.iter().map(|&bytes| bytes.into()).collect());
        let of = |tokens: &[u32], text: Option<&str>| {
            texts(
                &Shown { tokens: tokens.to_vec(), own: Vec::new(), text: text.map(str::to_owned) },
                &vocabulary,
            )
        };
        assert_eq!(of(&[0, 1, 2, 3], Some("a\u{e9}b")), ["", "", "a", "\u{e9}b"]);
        assert_eq!(of(&[0, 1, 2, 3], Some(" a\u{e9}b")), ["", " ", "a", "\u{e9}b"]);
        assert_eq!(of(&[1, 2, 4], None), [" ", "a", "\u{FFFD}\u{FFFD}"]);
        assert_eq!(of(&[], None), [""; 0]);
    }
}
