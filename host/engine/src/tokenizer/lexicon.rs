//! Two models' tokens, set against each other by the bytes that they stand for.
//!
//! What a journey has is bytes; each model spells them in tokens of its own. A spelling made here stands for exactly the
//! bytes it was asked for, whatever the tokenizer does to text at its beginning, and inside a character too.

use std::collections::HashMap;
use std::sync::Arc;

use journey::{Distribution, TokenMask, Vocabulary};

use super::Tokenizer;

/// The tokens of a route's entry model, *home*, and those of another model of the route, its *own*.
#[derive(Debug)]
pub struct Lexicon {
    home: Spelling,
    own: Spelling,
    /// By home token: the own token that stands for the same, or [`NONE`].
    to_own: Box<[u32]>,
    /// By own token: the home token that stands for the same, or [`NONE`].
    to_home: Box<[u32]>,
    home_eos: u32,
    /// Own tokens that show nothing at home and have no counterpart there: they end the answer.
    ending: Box<[u32]>,
}

impl Lexicon {
    /// Sets two models' tokens against each other; each comes with the tokens that end its answers. `None` if the entry
    /// model has none, as nothing could tell it then that the other has ended.
    #[must_use]
    pub fn new(home: (&Arc<Tokenizer>, &[u32]), own: (&Arc<Tokenizer>, &[u32])) -> Option<Self> {
        let home_eos = *home.1.first()?;
        let ((home, home_ends), (own, own_ends)) = (home, own);
        let (home, own) = (Spelling::new(home), Spelling::new(own));
        let mut to_own = home.counterparts_in(&own);
        let mut to_home = own.counterparts_in(&home);
        for &end in home_ends {
            set(&mut to_own, end, own_ends.first().copied().unwrap_or(NONE));
        }
        for &end in own_ends {
            set(&mut to_home, end, home_eos);
        }
        let ending = |token: &u32| match to_home[*token as usize] {
            NONE => own.vocabulary.bytes(*token).is_empty(),
            counterpart => home_ends.contains(&counterpart),
        };
        let ending: Box<[u32]> = (0..own.vocabulary.len() as u32).filter(ending).collect();
        Some(Self { to_own, to_home, home_eos, ending, home, own })
    }

    /// How many of the own model's tokens the entry model has too.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.to_home.iter().filter(|token| **token != NONE).count()
    }

    /// Number of home token ids.
    pub(crate) fn home_size(&self) -> usize {
        self.to_own.len()
    }

    /// The bytes of a home token; a special one has none.
    pub(crate) fn home_bytes(&self, token: u32) -> &[u8] {
        self.home.vocabulary.bytes(token)
    }

    /// The bytes of an own token; a special one has none.
    pub(crate) fn own_bytes(&self, token: u32) -> &[u8] {
        self.own.vocabulary.bytes(token)
    }

    /// The own token that stands for the same as a home token.
    pub(crate) fn to_own(&self, token: u32) -> Option<u32> {
        self.to_own.get(token as usize).copied().filter(|own| *own != NONE)
    }

    /// The home token that stands for the same as an own one.
    pub(crate) fn to_home(&self, token: u32) -> Option<u32> {
        self.to_home.get(token as usize).copied().filter(|home| *home != NONE)
    }

    /// Own tokens that end an answer, at home.
    pub(crate) fn ending(&self) -> &[u32] {
        &self.ending
    }

    /// The own tokens that a mask of home tokens allows; walks the vocabulary once, as making a mask does.
    pub(crate) fn mask(&self, home: &TokenMask) -> TokenMask {
        let mut words = vec![0; self.to_home.len().div_ceil(32)];
        for (own, &token) in self.to_home.iter().enumerate() {
            if token != NONE && home.allows(token) {
                words[own / 32] |= 1 << (own % 32);
            }
        }
        TokenMask::from_words(words)
    }

    /// An own distribution over home tokens: what only one of both models has is impossible.
    pub(crate) fn distribution(&self, own: &Distribution) -> Option<Arc<Distribution>> {
        let logprob = |own_token: &u32| match *own_token {
            NONE => f32::NEG_INFINITY,
            token => own.logprob(token) as f32,
        };
        Distribution::new(self.to_own.iter().map(logprob).collect()).map(Arc::new)
    }

    /// Own tokens for some bytes; what no own token spells is left out.
    pub(crate) fn spell_own(&self, bytes: &[u8]) -> Vec<u32> {
        self.own.spell(bytes)
    }

    /// Home tokens for an own token, at least one; for one that says nothing there, the end of the answer.
    pub(crate) fn spell_home(&self, own: u32) -> Vec<u32> {
        if let Some(home) = self.to_home(own) {
            return vec![home];
        }
        self.spell_home_bytes(self.own_bytes(own))
    }

    /// As [`Self::spell_home`], for what is left of a token.
    pub(crate) fn spell_home_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let spelled = self.home.spell(bytes);
        if spelled.is_empty() { vec![self.home_eos] } else { spelled }
    }
}

/// How one model spells.
struct Spelling {
    tokenizer: Arc<Tokenizer>,
    vocabulary: Arc<Vocabulary>,
    /// The lowest id of each run of bytes.
    by_bytes: HashMap<Box<[u8]>, u32>,
    longest: usize,
}

impl Spelling {
    fn new(tokenizer: &Arc<Tokenizer>) -> Self {
        let vocabulary = tokenizer.vocabulary();
        let mut by_bytes: HashMap<Box<[u8]>, u32> = HashMap::with_capacity(vocabulary.len());
        for token in (0..vocabulary.len() as u32).rev() {
            let bytes = vocabulary.bytes(token);
            if !bytes.is_empty() {
                by_bytes.insert(bytes.into(), token);
            }
        }
        let longest = by_bytes.keys().map(|bytes| bytes.len()).max().unwrap_or(0);
        Self { tokenizer: Arc::clone(tokenizer), vocabulary, by_bytes, longest }
    }

    /// By token: the other's token of the same bytes or, of special tokens, the same name.
    fn counterparts_in(&self, other: &Self) -> Box<[u32]> {
        let special = |token: u32| self.tokenizer.sealed.special(token);
        let counterpart = |token: u32| match self.vocabulary.bytes(token) {
            [] => special(token).and_then(|name| other.tokenizer.sealed.id(name)),
            bytes => other.by_bytes.get(bytes).copied(),
        };
        (0..self.vocabulary.len() as u32).map(|token| counterpart(token).unwrap_or(NONE)).collect()
    }

    /// As the tokenizer would, where that gives these very bytes; otherwise the longest token that fits, again and again.
    fn spell(&self, bytes: &[u8]) -> Vec<u32> {
        if let Some(&token) = self.by_bytes.get(bytes) {
            return vec![token];
        }
        let of_text = |text| journey::Encode::encode(&*self.tokenizer, text);
        if let Some(tokens) = std::str::from_utf8(bytes).ok().map(of_text)
            && self.vocabulary.bytes_of(&tokens) == bytes
        {
            return tokens;
        }
        let (mut tokens, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let lengths = (1..=self.longest.min(rest.len())).rev();
            let fits = lengths.filter_map(|len| Some((*self.by_bytes.get(&rest[..len])?, len)));
            // A vocabulary without a byte cannot say it.
            let (token, len) = fits.map(|(token, len)| (Some(token), len)).next().unwrap_or((None, 1));
            tokens.extend(token);
            rest = &rest[len..];
        }
        tokens
    }
}

impl std::fmt::Debug for Spelling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tokenizer.fmt(f)
    }
}

fn set(map: &mut [u32], token: u32, to: u32) {
    if let Some(place) = map.get_mut(token as usize) {
        *place = to;
    }
}

/// No token.
const NONE: u32 = u32::MAX;
