//! Whether tokens of one model mean the same in another.
//!
//! A journey that moves between models carries token ids. Checking once, when a route is made, that every id stands
//! for the same bytes is what makes that sound.

use std::fmt;

use sha2::{Digest, Sha256};

use super::Tokenizer;

/// A digest of what every token id means; equal for tokenizers whose tokens can be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first difference between two tokenizers, in an order fit for telling a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// An id means different things.
    #[error("token {id} is {a:?} in one model and {b:?} in the other")]
    Token {
        /// The first such id.
        id: u32,
        /// Its text in the first tokenizer.
        a: String,
        /// Its text in the second.
        b: String,
    },
    /// One knows more ids.
    #[error("one model has {a} tokens and the other {b}")]
    Size {
        /// Ids of the first.
        a: usize,
        /// Ids of the second.
        b: usize,
    },
    /// A special token plays its part under different ids.
    #[error("{name} is token {a:?} in one model and {b:?} in the other")]
    Special {
        /// `bos_token` or `eos_token`.
        name: &'static str,
        /// Its id in the first, if it has one.
        a: Option<u32>,
        /// Its id in the second, if it has one.
        b: Option<u32>,
    },
}

/// Whether tokens of one model mean the same in another, so that a journey can move between them without being
/// tokenised again.
///
/// # Errors
/// The first [`Mismatch`].
pub fn compare_tokenizers(a: &Tokenizer, b: &Tokenizer) -> Result<(), Mismatch> {
    let sizes = (a.vocabulary.len(), b.vocabulary.len());
    for id in 0..sizes.0.min(sizes.1) as u32 {
        let (in_a, in_b) = (Meaning::of(a, id), Meaning::of(b, id));
        if in_a != in_b {
            return Err(Mismatch::Token { id, a: in_a.text(), b: in_b.text() });
        }
    }
    if sizes.0 != sizes.1 {
        return Err(Mismatch::Size { a: sizes.0, b: sizes.1 });
    }
    for (name, a, b) in [("bos_token", a.bos, b.bos), ("eos_token", a.eos, b.eos)] {
        if a != b {
            return Err(Mismatch::Special { name, a, b });
        }
    }
    Ok(())
}

pub(super) fn fingerprint(tokenizer: &Tokenizer) -> Fingerprint {
    let mut hash = Sha256::new();
    let mut field = |tag: u8, bytes: &[u8]| {
        hash.update([tag]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for id in 0..tokenizer.vocabulary.len() as u32 {
        match Meaning::of(tokenizer, id) {
            Meaning::Special(name) => field(0, name.as_bytes()),
            Meaning::Bytes(bytes) => field(1, bytes),
        }
    }
    for special in [tokenizer.bos, tokenizer.eos] {
        field(2, special.map(u32::to_le_bytes).as_ref().map_or(&[], |id| id));
    }
    Fingerprint(hash.finalize().into())
}

/// What a token stands for.
#[derive(PartialEq, Eq)]
enum Meaning<'a> {
    /// A part to play, known by its name.
    Special(&'a str),
    /// Text.
    Bytes(&'a [u8]),
}

impl<'a> Meaning<'a> {
    fn of(tokenizer: &'a Tokenizer, id: u32) -> Self {
        match tokenizer.sealed.special(id) {
            Some(name) => Self::Special(name),
            None => Self::Bytes(tokenizer.vocabulary.bytes(id)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Special(name) => (*name).to_owned(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}
