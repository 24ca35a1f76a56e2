//! What can go wrong between a checkpoint and a token, classed by fault.
//!
//! One enum for the crate, so that a caller decides by class: the model's files, the caller's text, the caller's
//! rows, or ours. Messages name the file and key and say what to do; causes are only in `source`.

use journey::JourneyId;

use crate::HeadError;

/// A failure of the engine or of loading it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    // The model's files.
    /// A file of the checkpoint is not there.
    #[error("{file} is missing from {place}; a checkpoint needs {needs}")]
    MissingFile {
        /// The file.
        file: String,
        /// The directory or the embedded model.
        place: String,
        /// What would be enough.
        needs: &'static str,
    },
    /// A file is there and cannot be read.
    #[error("reading {file}; check that it is a readable file")]
    Read {
        /// The file, with its directory.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not the JSON that it should be.
    #[error("parsing {file}; it must be valid JSON of the Hugging Face layout")]
    Json {
        /// The file.
        file: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A key has a value that this engine cannot follow.
    #[error("{file}: {key} {problem}")]
    Config {
        /// The file.
        file: String,
        /// The key, with dots for nesting.
        key: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The architecture is not one that this engine decodes.
    #[error(
        "{file}: the architecture is {found:?}; this engine decodes the text models Llama, Mistral, Qwen2, Qwen3, \
         Gemma2 and Gemma3 (such as LlamaForCausalLM)"
    )]
    Architecture {
        /// The file.
        file: String,
        /// What it says.
        found: Vec<String>,
    },
    /// A directory does not say which model is meant.
    #[error("{place} holds {}; give the path of one of them", files.join(", "))]
    SeveralModels {
        /// The directory or the embedded model.
        place: String,
        /// The files.
        files: Vec<String>,
    },
    /// A file of weights is torn, or is not of the format that its name says.
    #[error("{file} is damaged: {problem}; copy or download it again")]
    Damaged {
        /// The file.
        file: String,
        /// What does not fit.
        problem: String,
    },
    /// A weight is not in the checkpoint.
    #[error("tensor {tensor} is missing from {file}; the checkpoint does not fit its config")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// The file, or the index of several.
        file: String,
    },
    /// A weight has another shape than the config says.
    #[error("tensor {tensor} in {file} has shape {found:?}, but the config asks for {expected:?}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape by the config.
        expected: Vec<usize>,
    },
    /// A weight is stored in a way that is not read.
    #[error(
        "tensor {tensor} in {file} is stored as {found}; convert the checkpoint to F32, F16 or BF16, or to a GGUF with \
         Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q6_K"
    )]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
        /// The stored type.
        found: String,
    },
    /// `tokenizer.json` is not a tokenizer that this engine understands.
    #[error("{file}: {problem}")]
    Tokenizer {
        /// The file.
        file: String,
        /// What is wrong, as the tokenizer library says it.
        problem: String,
    },

    // Heads.
    /// A head does not fit the model that it is attached to.
    #[error("attaching a head")]
    Head {
        /// What does not fit.
        source: Box<HeadError>,
    },
    /// The engine runs no heads.
    #[error(
        "{model} cannot run heads: they do not run on a GPU yet; set the model's device to \"cpu\", or leave its heads out"
    )]
    NoHeads {
        /// The model.
        model: String,
    },

    // The caller's text.
    /// The tokenizer refused a text.
    #[error("tokenising: {problem}")]
    Encode {
        /// Why, as the tokenizer library says it.
        problem: String,
    },
    /// The chat template refused the messages, or is not a valid template.
    #[error("chat template: {message}")]
    Template {
        /// The template's own words, or the parser's.
        message: String,
    },
    /// The model has no chat template, so it cannot chat.
    #[error(
        "the model has no chat template; use text completion, or add chat_template.jinja to the checkpoint"
    )]
    NoTemplate,

    // The caller's rows.
    /// A row has no tokens.
    #[error("{journey} has a row without tokens")]
    EmptyRow {
        /// Whose row.
        journey: JourneyId,
    },
    /// A journey has two rows in one step.
    #[error("{journey} has two rows in one step")]
    RepeatedJourney {
        /// Whose rows.
        journey: JourneyId,
    },
    /// A row begins beyond what the KV holds.
    #[error("{journey} is fed from position {from}, but its KV holds {held} positions")]
    Gap {
        /// Whose row.
        journey: JourneyId,
        /// Where it begins.
        from: usize,
        /// Positions held.
        held: usize,
    },
    /// There is not enough memory for the KV of a step.
    #[error(
        "{journey} needs {needed} more KV blocks and {obtainable} can be had; \
         run fewer journeys at once, or raise the model's kv_mib"
    )]
    KvFull {
        /// The row that did not fit.
        journey: JourneyId,
        /// Blocks that it needs beyond those it holds.
        needed: usize,
        /// Blocks that are free or can be freed.
        obtainable: usize,
    },
    /// A row ends beyond the model's context.
    #[error("{journey} needs {needed} positions; the model's context is {context}")]
    ContextFull {
        /// Whose row.
        journey: JourneyId,
        /// Positions with this row.
        needed: usize,
        /// Positions there are.
        context: usize,
    },
    /// A token id is not in the model's vocabulary.
    #[error("{journey} names token {token}; the model has {vocabulary} tokens")]
    UnknownToken {
        /// Whose row.
        journey: JourneyId,
        /// The id.
        token: u32,
        /// Number of ids.
        vocabulary: usize,
    },
    /// A row has more draws than tokens that they could follow.
    #[error("{journey} has {draws} draws for a row of {tokens} tokens")]
    TooManyDraws {
        /// Whose row.
        journey: JourneyId,
        /// Its draws.
        draws: usize,
        /// Its tokens.
        tokens: usize,
    },
    /// A mask, or the tokens barred beside it, leave nothing to choose.
    #[error(
        "{journey} allows none of the model's tokens at a position; its grammar or its mask has no way on"
    )]
    NothingAllowed {
        /// Whose row.
        journey: JourneyId,
    },

    // The model's numbers, and ours.
    /// The model gave logits that are not numbers, so nothing can be sampled; or a head gave such a score.
    #[error(
        "{journey}: the model's logits, or the scores of its heads, are not finite numbers; the weights are probably \
         damaged"
    )]
    NotFinite {
        /// Whose row.
        journey: JourneyId,
    },
    /// A weight is not a finite number.
    #[error(
        "tensor {tensor} holds a weight that is not a finite number; copy or download the checkpoint again"
    )]
    NotFiniteWeights {
        /// The tensor.
        tensor: String,
    },
    /// There is not enough memory for weights or KV.
    #[error(
        "reserving {bytes} bytes; use a smaller model, one with fewer bits per weight, or less memory for KV (kv_mib)"
    )]
    Memory {
        /// How many were asked for.
        bytes: usize,
        /// Why.
        source: std::io::Error,
    },
    /// The binary cannot use a GPU.
    #[error(
        "this binary was built without CUDA; build it with --features cuda, or set the device to \"cpu\""
    )]
    NoCuda,
    /// A device failed.
    #[error("{doing}; see the cause, and whether other programs hold the device's memory")]
    Device {
        /// What it was to do.
        doing: &'static str,
        /// Why, as the tensor library says it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's threads could not be started.
    #[error("starting {threads} threads for a model; ask for fewer")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// Why.
        source: std::io::Error,
    },
}
