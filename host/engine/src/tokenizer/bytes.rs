//! The bytes that each token stands for.
//!
//! Tokens are written in `tokenizer.json` as text in one of two alphabets. Byte-level tokenizers write each byte as
//! one printable character; sentencepiece-style ones write a space as a mark and a lone byte as `<0x0A>`. Decoding
//! token by token, as streaming needs, is only sound on bytes.

use std::collections::HashMap;

use journey::Vocabulary;
use serde_json::Value;

/// The bytes of every token id of a tokenizer, whose file is given as JSON too.
pub(super) fn vocabulary(tokenizer: &tokenizers::Tokenizer, json: &Value) -> Result<Vocabulary, String> {
    let alphabet = Alphabet::of(json)?;
    let tokens = tokenizer.get_vocab(true);
    let size = tokens.values().max().map_or(0, |max| *max as usize + 1);
    if size > 4 * tokens.len() + 1024 {
        return Err(format!("it has {} tokens but an id of {}", tokens.len(), size - 1));
    }
    let added = tokenizer.get_added_tokens_decoder();
    let mut bytes: Vec<Box<[u8]>> = vec![Box::default(); size];
    for (token, id) in tokens {
        bytes[id as usize] = match added.get(&id) {
            Some(added) if added.special => Box::default(),
            Some(added) => added.content.as_bytes().into(),
            None => alphabet.bytes(&token),
        };
    }
    Ok(Vocabulary::new(bytes))
}

/// How tokens are written.
enum Alphabet {
    /// One character per byte.
    ByteLevel(HashMap<char, u8>),
    /// Text, with `space` for a space, and `<0x0A>` for a byte if `lone_bytes`.
    Pieces { space: String, lone_bytes: bool },
}

impl Alphabet {
    /// Told by the decoder, which is what turns tokens into text.
    fn of(json: &Value) -> Result<Self, String> {
        let decoder = json.get("decoder").unwrap_or(&Value::Null);
        let several = decoder.get("decoders").and_then(Value::as_array);
        let decoders: Vec<&Value> = several.map_or_else(|| vec![decoder], |several| several.iter().collect());
        let find = |kind: &str| decoders.iter().find(|decoder| decoder["type"] == kind);
        if find("ByteLevel").is_some() {
            return Ok(Self::ByteLevel(byte_level()));
        }
        let lone_bytes = find("ByteFallback").is_some();
        let space = match (find("Metaspace"), find("Replace")) {
            (Some(metaspace), _) => metaspace["replacement"].as_str(),
            (None, Some(replace)) if replace["content"] == " " => replace["pattern"]["String"].as_str(),
            _ => None,
        };
        match space {
            Some(space) => Ok(Self::Pieces { space: space.to_owned(), lone_bytes }),
            None => Err(format!(
                "its decoder is {}; ByteLevel, Metaspace, and Replace with ByteFallback are understood",
                decoder["type"]
            )),
        }
    }

    fn bytes(&self, token: &str) -> Box<[u8]> {
        match self {
            // A token with other characters was not made from bytes; it stands for itself.
            Self::ByteLevel(bytes) => {
                let all: Option<Box<[u8]>> = token.chars().map(|c| bytes.get(&c).copied()).collect();
                all.unwrap_or_else(|| token.as_bytes().into())
            }
            Self::Pieces { space, lone_bytes } => match lone_byte(token).filter(|_| *lone_bytes) {
                Some(byte) => Box::new([byte]),
                None => token.replace(space, " ").into_bytes().into(),
            },
        }
    }
}

/// Printable Latin-1 stands for itself; every other byte takes the next character from U+0100 on.
fn byte_level() -> HashMap<char, u8> {
    let mut next = 0x100..;
    let character = |byte: u8| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        _ => next.next().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    (0..=u8::MAX).map(character).zip(0..=u8::MAX).collect()
}

fn lone_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_byte_alphabet_is_that_of_the_tokenizer_library() {
        let theirs = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let ours = byte_level();
        assert_eq!(ours.len(), 256);
        assert!(theirs.iter().all(|c| ours.contains_key(c)));
        assert_eq!(
            (ours[&'a'], ours[&'\u{120}'], ours[&'\u{10a}'], ours[&'\u{ff}']),
            (b'a', b' ', b'\n', 0xFF)
        );
    }

    #[test]
    fn pieces_show_spaces_and_lone_bytes() {
        let json = json!({"decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]}});
        let alphabet = Alphabet::of(&json).unwrap();
        assert_eq!(&*alphabet.bytes("\u{2581}caf\u{e9}"), " caf\u{e9}".as_bytes());
        assert_eq!(&*alphabet.bytes("<0x0A>"), b"\n");
        assert_eq!(&*alphabet.bytes("<0x0AB>"), b"<0x0AB>");
        let metaspace = json!({"decoder": {"type": "Metaspace", "replacement": "\u{2581}"}});
        assert_eq!(&*Alphabet::of(&metaspace).unwrap().bytes("<0x0A>\u{2581}"), b"<0x0A> ");
    }

    #[test]
    fn an_unknown_decoder_is_refused_by_name() {
        let refused = Alphabet::of(&json!({"decoder": {"type": "WordPiece", "prefix": "##"}}));
        assert!(refused.is_err_and(|problem| problem.contains("WordPiece")));
        assert!(Alphabet::of(&json!({})).is_err());
    }
}
