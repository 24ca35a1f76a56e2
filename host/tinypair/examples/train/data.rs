//! Batches of tokenised problems, drawn without end from a seed.
//!
//! A batch is a list of packs of about a thousand tokens. The gradients of the packs are added before one update, and
//! a pack is small enough that its activations stay in the processor's second-level cache.

use anyhow::{Context as _, Result, anyhow};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tinypair::problems::{self, Problem, Training};
use tokenizers::Tokenizer;

use crate::model::Packed;

/// The endless stream of training batches.
pub(crate) struct Batches {
    problems: Training,
    rng: StdRng,
    tokenizer: Tokenizer,
}

impl Batches {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64, tokenizer: Tokenizer) -> Self {
        Self { problems: Training::new(seed), rng: StdRng::seed_from_u64(seed), tokenizer }
    }

    /// The packs of the next update.
    pub(crate) fn next_batch(&mut self) -> Result<Vec<Packed>> {
        let mut packs = Vec::new();
        let mut tokens = 0;
        while tokens < BATCH_TOKENS {
            let pack = self.next_pack()?;
            tokens += pack.tokens.len();
            packs.push(pack);
        }
        Ok(packs)
    }

    fn next_pack(&mut self) -> Result<Packed> {
        let mut pack = Packed { tokens: Vec::new(), starts: vec![0], rows: Vec::new(), targets: Vec::new() };
        while pack.tokens.len() < PACK_TOKENS {
            let problem = self.problems.next().context("the stream of problems ended")?;
            let system = problems::system_message(&mut self.rng);
            append(&mut pack, &self.tokenizer, system, &problem)?;
        }
        Ok(pack)
    }
}

/// The token ids of `text`.
pub(crate) fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>> {
    let encoding =
        tokenizer.encode_fast(text, false).map_err(|error| anyhow!("tokenising {text:?}: {error}"))?;
    Ok(encoding.get_ids().to_vec())
}

/// Adds one problem; only the tokens of its answer, and the mark that ends it, are to be learnt.
fn append(pack: &mut Packed, tokenizer: &Tokenizer, system: Option<&str>, problem: &Problem) -> Result<()> {
    let prompt = encode(tokenizer, &problems::prompt_with_system(system, &problem.question))?;
    let answer = encode(tokenizer, &format!("{}<|im_end|>", problem.answer))?;
    let first = pack.tokens.len() + prompt.len();
    pack.tokens.extend(prompt.iter().chain(&answer));
    // The last token predicts nothing, so it is left out of the sequence.
    pack.tokens.pop();
    pack.starts.push(pack.tokens.len());
    pack.rows.extend((first - 1..pack.tokens.len()).map(|row| row as u32));
    pack.targets.extend(&answer);
    Ok(())
}

/// Tokens per update.
const BATCH_TOKENS: usize = 6144;
/// Tokens per pack.
const PACK_TOKENS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counted_row_is_followed_by_its_target() {
        let bytes = tinypair::models::SMALL.file("tokenizer.json").unwrap();
        let mut batches = Batches::new(1, Tokenizer::from_bytes(bytes).unwrap());
        for pack in batches.next_batch().unwrap() {
            assert_eq!(pack.rows.len(), pack.targets.len());
            for (row, target) in pack.rows.iter().zip(&pack.targets) {
                let next = *row as usize + 1;
                if !pack.starts.contains(&next) {
                    assert_eq!(pack.tokens[next], *target);
                }
            }
        }
    }
}
