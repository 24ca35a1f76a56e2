//! Grammars that answers must follow: JSON schemas, and the forms in which models call tools.
//!
//! A [`Compiler`] belongs to one vocabulary; it makes a [`journey::Grammar`] of what a request asks for. The work is
//! llguidance's; what is here is how much a request may ask for, and what is left of a grammar when it is taken along a
//! journey. Which tokens end an answer is not known here: the journey adds them where an answer may end.

pub mod calls;
mod matcher;
mod schema;

use std::sync::Arc;

use journey::Vocabulary;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory};
use toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use matcher::Compiled;
pub use schema::{json, json_text};

/// Why there is no grammar.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// It is longer than is taken.
    #[error("it has {bytes} bytes; at most {SOURCE_BYTES_MAX} are taken")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The schema is no object.
    #[error("a schema must be an object")]
    NotAnObject,
    /// It cannot be followed token by token, or takes too much to.
    #[error("{0}")]
    Refused(String),
    /// The vocabulary cannot be used; no fault of the request.
    #[error("the tokenizer's vocabulary cannot be used for grammars: {0}")]
    Vocabulary(String),
}

/// Makes grammars for the tokens of one vocabulary.
pub struct Compiler {
    factory: ParserFactory,
}

impl Compiler {
    /// For the tokens of a vocabulary with ids below `limit`, those that a model has logits for. Takes some tens of
    /// milliseconds for a vocabulary of 150,000 tokens, and a few megabytes.
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`].
    pub fn new(vocabulary: &Vocabulary, limit: usize) -> Result<Self, GrammarError> {
        let size = vocabulary.len().min(limit) as u32;
        let words: Vec<Vec<u8>> = (0..size).map(|token| vocabulary.bytes(token).to_vec()).collect();
        // Ends of answers are the journey's business; tokens without bytes are in no grammar.
        let trie = TokTrie::from(&TokRxInfo::new(size, INVALID_TOKEN), &words);
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| GrammarError::Vocabulary(error.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Self { factory })
    }

    /// A grammar in llguidance's form of Lark, as [`json`] and the forms of tool calls give it.
    ///
    /// # Errors
    /// [`GrammarError::TooLong`], [`GrammarError::Refused`] with llguidance's words.
    pub fn compile(&self, lark: &str) -> Result<Arc<dyn journey::Grammar>, GrammarError> {
        if lark.len() > SOURCE_BYTES_MAX {
            return Err(GrammarError::TooLong { bytes: lark.len() });
        }
        let parser = self.factory.create_parser(TopLevelGrammar::from_lark(lark.to_owned()));
        let mut matcher = Matcher::new(parser);
        // The first mask shows whether anything can follow at all.
        let first = matcher.compute_mask();
        if let Some(error) = matcher.get_error() {
            return Err(GrammarError::Refused(told(&error)));
        }
        if first.is_ok_and(|mask| mask.is_zero()) {
            return Err(GrammarError::Refused("nothing can satisfy it".to_owned()));
        }
        Ok(Arc::new(Compiled::new(matcher)))
    }
}

/// The first line of what llguidance says, which is what a person can use.
fn told(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim().to_owned()
}

/// What a grammar may cost. The times are those of one core.
fn limits() -> ParserLimits {
    ParserLimits {
        // About 20 ms to compile.
        initial_lexer_fuel: 1_000_000,
        // About 14 ms and 3 ms for a mask; what asks for more ends its answer.
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_items_in_row: 2000,
        // About 2 kB each, for each answer.
        max_lexer_states: 10_000,
        max_grammar_size: 100_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// Most bytes of a grammar; schemas that people write have a few thousand.
pub const SOURCE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests;
