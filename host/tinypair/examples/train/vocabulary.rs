//! Builds the byte-level BPE tokenizer both models share.
//!
//! Only needed to start from nothing: training keeps the committed tokenizer unless told otherwise, because new
//! tokens make the committed weights useless. Digits are split so that arithmetic sees one digit per token.

use anyhow::{Result, anyhow};
use tinypair::problems::Training;
use tokenizers::decoders::byte_level::ByteLevel as ByteDecoder;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, NormalizerWrapper, PostProcessorWrapper, Tokenizer, TokenizerBuilder};

/// A tokenizer of `vocab` tokens trained on the problems of `seed`.
pub(crate) fn build(vocab: usize, seed: u64) -> Result<Tokenizer> {
    let digits = Digits::new(true);
    let bytes = ByteLevel::default().add_prefix_space(false);
    let special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(|text| AddedToken::from(text, true));
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocab)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .show_progress(false)
        .build();
    let mut tokenizer = TokenizerBuilder::<_, NormalizerWrapper, _, PostProcessorWrapper, _>::new()
        .with_model(BPE::default())
        .with_normalizer(None)
        .with_pre_tokenizer(Some(Sequence::new(vec![digits.into(), bytes.into()])))
        .with_post_processor(None)
        .with_decoder(Some(ByteDecoder::default()))
        .build()
        .map_err(|error| anyhow!("assembling the tokenizer: {error}"))?;
    tokenizer.train(&mut trainer, texts(seed)).map_err(|error| anyhow!("training the tokenizer: {error}"))?;
    let json = tokenizer.to_string(false).map_err(|error| anyhow!("writing the tokenizer: {error}"))?;
    Tokenizer::from_bytes(json).map_err(|error| anyhow!("reading the tokenizer back: {error}"))
}

/// Questions and answers, and the words of the chat format.
fn texts(seed: u64) -> impl Iterator<Item = String> {
    let chat = ["system", "user", "assistant", "\n"].into_iter().flat_map(|word| vec![word.to_owned(); 200]);
    Training::new(seed).take(SAMPLES).flat_map(|problem| [problem.question, problem.answer]).chain(chat)
}

const SAMPLES: usize = 30_000;
