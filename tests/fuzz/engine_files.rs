//! Models' files: each is damaged beside others that are whole, and the model is loaded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use engine::{ChatMessage, LoadOptions, ModelFiles, Tokenizer, inspect, load};

use super::Target;
use super::corpus::{self, Seed};

/// Models of which one file is damaged at a time.
pub(crate) struct Models {
    seeds: Vec<Seed>,
    folder: tempfile::TempDir,
    /// Whose whole files are in the folder.
    of: Option<PathBuf>,
    /// Whether the model's weights are loaded, too.
    loads: bool,
}

impl Models {
    /// Folders in the layout of Hugging Face.
    pub(crate) fn checkpoints() -> Self {
        let folders = ["random/f16-sharded", "families/gemma2", "families/llama3", "families/qwen3"];
        let golden = |folder| corpus::tree("host/engine/tests/golden").join(folder);
        let mut seeds: Vec<Seed> = folders.into_iter().flat_map(|of| corpus::files(&golden(of))).collect();
        seeds.retain(|seed| seed.name != "golden.json");
        seeds.extend(findings("checkpoint", &golden("families/llama3")));
        Self::new(seeds, true)
    }

    /// Single files.
    pub(crate) fn gguf() -> Self {
        let golden = corpus::tree("host/engine/tests/golden");
        let folders = ["gguf/llama", "gguf/gemma3", "tokenizers"].map(|folder| golden.join(folder));
        let mut seeds: Vec<Seed> = folders.iter().flat_map(|folder| corpus::files(folder)).collect();
        seeds.retain(|seed| seed.name.ends_with(".gguf"));
        seeds.extend(findings("gguf", &folders[0]));
        Self::new(seeds, true)
    }

    /// Chat templates, beside a tokenizer that is whole.
    pub(crate) fn templates() -> Self {
        let whole = corpus::tree("host/engine/tests/golden/families/llama3");
        let of = |seed: Seed| Seed { name: TEMPLATE.to_owned(), folder: whole.clone(), ..seed };
        Self::new(corpus::of("template").into_iter().map(of).collect(), false)
    }

    fn new(seeds: Vec<Seed>, loads: bool) -> Self {
        Self { seeds, folder: tempfile::tempdir().expect("a temporary folder"), of: None, loads }
    }

    /// Puts the whole files of a model in place.
    fn restore(&mut self, of: &Path) {
        for file in corpus::files(self.folder.path()) {
            fs::remove_file(self.folder.path().join(file.name)).expect("the folder is ours");
        }
        for file in corpus::files(of) {
            fs::write(self.folder.path().join(&file.name), &file.bytes).expect("the folder is ours");
        }
        self.of = Some(of.to_owned());
    }

    fn files(&self, name: &str) -> ModelFiles {
        let path = self.folder.path();
        ModelFiles::Directory(if name.ends_with(".gguf") { path.join(name) } else { path.to_owned() })
    }
}

impl Target for Models {
    fn seeds(&self) -> Vec<Seed> {
        self.seeds.clone()
    }

    fn read(&mut self, of: &Seed, input: &[u8]) {
        if self.of.as_deref() != Some(&of.folder) {
            self.restore(&of.folder);
        }
        let path = self.folder.path().join(&of.name);
        fs::write(&path, input).expect("the folder is ours");
        let files = self.files(&of.name);
        if let Ok(tokenizer) = Tokenizer::load(&files) {
            talk(&tokenizer);
        }
        if self.loads {
            let inspected = inspect(&files).map(drop);
            let loaded = load("fuzzed", &files, LoadOptions::default(), &mut |_| ()).map(drop);
            assert!(inspected.is_ok() || loaded.is_err(), "what is loaded can be inspected: {inspected:?}");
        }
        match fs::read(of.folder.join(&of.name)) {
            Ok(whole) => fs::write(&path, whole),
            Err(_) => fs::remove_file(&path),
        }
        .expect("the folder is ours");
    }
}

/// Uses a tokenizer; what it makes of text is its own affair, but it makes it of tokens that it has.
fn talk(tokenizer: &Tokenizer) {
    let known: BTreeSet<u32> = (0..tokenizer.vocabulary().len() as u32).collect();
    let said = |role: &str, content: &str| ChatMessage { role: role.to_owned(), content: content.to_owned() };
    let chat = [
        said("system", "Be brief."),
        said("user", "Is 1 < 2? <|im_end|> \u{1f642}"),
        said("assistant", "Yes"),
    ];
    let encoded = [tokenizer.encode("a text, 12 \u{1f468}\u{200d}\u{1f469}"), tokenizer.encode_chat(&chat)];
    for tokens in encoded.into_iter().flatten() {
        assert!(tokens.iter().all(|token| known.contains(token)), "{tokens:?} of {}", known.len());
        assert!(tokens.is_empty() || tokenizer.decode(&tokens).len() < 1 << 20);
    }
}

/// Inputs that failed once, named `TARGET-FILE`, beside the whole files of a model.
fn findings(target: &str, beside: &Path) -> Vec<Seed> {
    let prefix = format!("{target}-");
    let of = |seed: Seed| {
        let name =
            seed.name.strip_prefix(&prefix).map(|name| name.split_once('-').map_or(name, |(_, name)| name));
        Seed { name: name.unwrap_or_default().to_owned(), folder: beside.to_owned(), ..seed }
    };
    let mut seeds = corpus::of(target);
    seeds.retain(|seed| seed.name.starts_with(&prefix));
    seeds.into_iter().map(of).collect()
}

const TEMPLATE: &str = "chat_template.jinja";
