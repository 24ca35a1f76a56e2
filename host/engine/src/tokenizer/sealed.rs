//! A tokenizer in which no text of a person can become a special token.
//!
//! Special tokens are renamed: each is known to the inner tokenizer only by a *seal*, its id between two U+FDD0.
//! Unicode keeps such noncharacters for programs' own use, so they are taken out of people's text and nobody can write
//! a seal. A template's output is the one place where special tokens are meant: there, before tokenising, the special
//! tokens' own texts are replaced by seals, except where people's text was marked by U+FDD1.
//!
//! Tokenising the sealed text whole, rather than piece by piece, keeps every rule of the tokenizer that looks at what
//! stands before or at the beginning of the text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tokenizers::AddedToken;

use crate::EngineError;

/// The renamed tokenizer.
pub(super) struct Sealed {
    inner: tokenizers::Tokenizer,
    /// Inner ids of added tokens to the model's.
    ids: HashMap<u32, u32>,
    /// Text and id of each special token, longest text first.
    specials: Vec<(String, u32)>,
    /// Ids that plain text must not give: all special ones but the unknown token's.
    forbidden: HashSet<u32>,
}

impl Sealed {
    /// Renames the special tokens of a tokenizer, whose file is given as JSON too.
    pub(super) fn new(original: &tokenizers::Tokenizer, json: &Value) -> Result<Self, String> {
        check_ids(original, json)?;
        let unknown = unknown_token(json).and_then(|token| original.token_to_id(token));
        let mut inner = without_added_tokens(original)?;
        let mut added: Vec<(u32, AddedToken)> = original.get_added_tokens_decoder().into_iter().collect();
        added.sort_unstable_by_key(|(id, _)| *id);

        let renamed: Vec<AddedToken> = added.iter().map(|(id, token)| renamed(*id, token)).collect();
        inner.add_tokens(renamed.clone()).map_err(|error| error.to_string())?;
        let of_model: HashSet<u32> = original.get_vocab(false).into_values().collect();
        let mut ids = HashMap::new();
        for ((id, token), renamed) in added.iter().zip(&renamed) {
            let inner_id = inner.token_to_id(&renamed.content).ok_or("an added token is lost")?;
            if token.special && of_model.contains(&inner_id) {
                return Err(
                    "the ids of the model's vocabulary have gaps; they must be 0, 1, 2, ...".to_owned()
                );
            }
            ids.insert(inner_id, *id);
        }
        let special = added.into_iter().filter(|(_, token)| token.special && !token.content.is_empty());
        let mut specials: Vec<(String, u32)> = special.map(|(id, token)| (token.content, id)).collect();
        specials.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let forbidden = specials.iter().map(|(_, id)| *id).filter(|id| Some(*id) != unknown).collect();
        Ok(Self { inner, ids, specials, forbidden })
    }

    /// Tokens of a text in which special tokens stand as seals.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|error| EngineError::Encode { problem: error.to_string() })?;
        let token = |&id: &u32| match self.ids.get(&id) {
            Some(&id) => Ok(id),
            // A tokenizer may know a special token's text as an ordinary piece too.
            None if self.forbidden.contains(&id) => Err(EngineError::Encode {
                problem: format!(
                    "the text contains {:?}, which would become a control token",
                    self.special(id).unwrap_or_default()
                ),
            }),
            None => Ok(id),
        };
        encoding.get_ids().iter().map(token).collect()
    }

    /// A person's text for a template: every place where a special token's text begins, or where the text ends within
    /// one that the template might complete, is marked after its first character.
    pub(super) fn marked(&self, text: &str) -> String {
        let text = sanitised(text);
        let mut marked = String::with_capacity(text.len());
        for (at, first) in text.char_indices() {
            marked.push(first);
            let rest = &text[at..];
            if self.specials.iter().any(|(special, _)| rest.starts_with(special) || special.starts_with(rest))
            {
                marked.push(MARK);
            }
        }
        marked
    }

    /// A template's output with seals for its special tokens, and without marks.
    pub(super) fn seal(&self, rendered: &str) -> String {
        let firsts: HashSet<char> =
            self.specials.iter().filter_map(|(text, _)| text.chars().next()).collect();
        let mut sealed = String::with_capacity(rendered.len());
        let mut rest = rendered;
        while let Some(first) = rest.chars().next() {
            let after = &rest[first.len_utf8()..];
            let special = (firsts.contains(&first) && !after.starts_with(MARK))
                .then(|| self.specials.iter().find(|(text, _)| rest.starts_with(text)))
                .flatten();
            match special {
                Some((text, id)) => {
                    sealed.push_str(&seal_of(*id));
                    rest = &rest[text.len()..];
                }
                None => {
                    if first != MARK {
                        sealed.push(first);
                    }
                    rest = after;
                }
            }
        }
        sealed
    }

    /// The special token of this text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.specials.iter().find(|(special, _)| special == text).map(|(_, id)| *id)
    }

    /// The texts of all special tokens, by id.
    pub(super) fn texts(&self) -> HashMap<u32, &str> {
        self.specials.iter().map(|(text, id)| (*id, text.as_str())).collect()
    }

    /// The text of a special token; `None` for others.
    pub(super) fn special(&self, id: u32) -> Option<&str> {
        self.specials.iter().find(|(_, special)| *special == id).map(|(text, _)| text.as_str())
    }
}

/// A tokenizer as far as it makes plain text to tokens.
fn without_added_tokens(original: &tokenizers::Tokenizer) -> Result<tokenizers::Tokenizer, String> {
    let mut bare = tokenizers::Tokenizer::new(original.get_model().clone());
    bare.with_normalizer(original.get_normalizer().cloned()).map_err(|error| error.to_string())?;
    bare.with_pre_tokenizer(original.get_pre_tokenizer().cloned());
    Ok(bare)
}

/// A person's text without the characters that seals and marks are made of.
pub(super) fn sanitised(text: &str) -> Cow<'_, str> {
    if text.contains([SEAL, MARK]) {
        Cow::Owned(text.replace([SEAL, MARK], "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn seal_of(id: u32) -> String {
    format!("{SEAL}{id}{SEAL}")
}

fn renamed(id: u32, token: &AddedToken) -> AddedToken {
    if token.special && !token.content.is_empty() {
        AddedToken { content: seal_of(id), normalized: false, ..token.clone() }
    } else {
        token.clone()
    }
}

/// The library gives an added token the next free id whatever its file says, and only warns.
fn check_ids(original: &tokenizers::Tokenizer, json: &Value) -> Result<(), String> {
    let added = json.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
    for token in added {
        let (Some(id), Some(content)) = (token["id"].as_u64(), token["content"].as_str()) else { continue };
        let given = original.token_to_id(content);
        if given.map(u64::from) != Some(id) {
            return Err(format!("added token {content:?} has id {id}, but would become {given:?}"));
        }
    }
    Ok(())
}

/// What the model calls its unknown token: a text, or for Unigram an index into its vocabulary.
fn unknown_token(json: &Value) -> Option<&str> {
    let model = json.get("model")?;
    let by_index = || model.get("vocab")?.get(model.get("unk_id")?.as_u64()? as usize)?.get(0)?.as_str();
    model.get("unk_token").and_then(Value::as_str).or_else(by_index)
}

/// Encloses the id of a special token.
const SEAL: char = '\u{FDD0}';

/// Follows the first character of what is not a special token.
const MARK: char = '\u{FDD1}';
