//! The weights of the pair, embedded in the binary in the Hugging Face layout.
//!
//! Separate from [`crate::problems`] because most callers want only one of the two. Nothing here parses a file: the
//! engine that loads a checkpoint from a directory loads these bytes the same way.

/// One model of the pair, as the files of a Hugging Face repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedModel {
    /// The name the pair is known by: `small` or `large`.
    pub name: &'static str,
    /// File name and content, in the order of the names.
    pub files: &'static [(&'static str, &'static [u8])],
}

impl EmbeddedModel {
    /// The content of the file called `name`, if the model has one.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| *bytes)
    }
}

/// The model that decodes: cheap, and wrong about one problem in two.
pub const SMALL: EmbeddedModel = EmbeddedModel { name: "small", files: embedded_files!("small") };

/// The model that hard tokens are handed to.
pub const LARGE: EmbeddedModel = EmbeddedModel { name: "large", files: embedded_files!("large") };

/// Both models, the small one first.
pub const ALL: [EmbeddedModel; 2] = [SMALL, LARGE];

/// The embedded model called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<EmbeddedModel> {
    ALL.into_iter().find(|model| model.name == name)
}

/// The five files of one checkpoint; a macro because `include_bytes!` wants a literal path.
macro_rules! embedded_files {
    ($model:literal) => {
        &[
            ("config.json", include_bytes!(concat!("../models/", $model, "/config.json"))),
            (
                "generation_config.json",
                include_bytes!(concat!("../models/", $model, "/generation_config.json")),
            ),
            ("model.safetensors", include_bytes!(concat!("../models/", $model, "/model.safetensors"))),
            ("tokenizer.json", include_bytes!(concat!("../models/", $model, "/tokenizer.json"))),
            (
                "tokenizer_config.json",
                include_bytes!(concat!("../models/", $model, "/tokenizer_config.json")),
            ),
        ]
    };
}
use embedded_files;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_models_are_found_by_name() {
        assert_eq!(by_name("small"), Some(SMALL));
        assert_eq!(by_name("large"), Some(LARGE));
        assert_eq!(by_name("medium"), None);
    }

    #[test]
    fn both_models_share_one_tokenizer() {
        assert_eq!(SMALL.file("tokenizer.json"), LARGE.file("tokenizer.json"));
    }

    #[test]
    fn the_pair_stays_under_twelve_megabytes() {
        let bytes: usize = ALL.iter().flat_map(|model| model.files).map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 12_000_000, "{bytes} bytes");
    }
}
