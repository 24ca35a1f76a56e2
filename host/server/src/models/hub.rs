//! Models of the Hugging Face Hub: their names, which of a repository's files they need, and where the cache has them.

use std::fmt;
use std::path::PathBuf;

use hf_hub::{Cache, Repo, RepoType};

/// `ORG/NAME`, with `@REVISION` and, where a repository holds several GGUF files, `:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    /// Organisation and name.
    pub repository: String,
    /// Branch, tag or commit; `main` unless given.
    pub revision: String,
    /// A GGUF file's name, or a part that only one of them has, such as `Q4_K_M`.
    pub file: Option<String>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubFile {
    /// Path in the repository.
    pub name: String,
    /// Its length in bytes, where the hub says it.
    pub bytes: Option<u64>,
    /// SHA-256 in hexadecimal; the hub gives it for large files.
    pub sha256: Option<String>,
}

/// A hub model that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The name is not `ORG/NAME[@REVISION][:FILE]`.
    #[error(
        "{name:?} is not ORG/NAME, ORG/NAME@REVISION or ORG/NAME:FILE (as in hf:Qwen/Qwen2.5-0.5B-Instruct)"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// Nothing of it is in the cache.
    #[error("hf:{model} is not in the Hugging Face cache; run `tokenrouter model pull hf:{model}`")]
    NotPulled {
        /// The model.
        model: String,
    },
    /// The repository has no model that can be loaded.
    #[error("hf:{model} holds neither config.json with safetensors files nor a GGUF file")]
    NoModel {
        /// The model.
        model: String,
    },
    /// A Hugging Face checkpoint without the tokenizer in one file.
    #[error("hf:{model} has no tokenizer.json; only tokenizers in that form can be read")]
    NoTokenizer {
        /// The model.
        model: String,
    },
    /// Not one GGUF file is meant.
    #[error("hf:{model} must name one GGUF file, as in hf:{repository}:Q4_K_M; there are {files}")]
    WhichFile {
        /// The model.
        model: String,
        /// Its repository.
        repository: String,
        /// What there is.
        files: String,
    },
}

impl HubModel {
    /// Reads what comes after `hf:`.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn parse(name: &str) -> Result<Self, HubError> {
        let wrong = || HubError::Name { name: name.to_owned() };
        let (rest, file) = match name.split_once(':') {
            Some((rest, file)) => (rest, Some(file.to_owned())),
            None => (name, None),
        };
        let (repository, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let (organisation, model) = repository.split_once('/').ok_or_else(wrong)?;
        // These become parts of a URL and of paths in the cache.
        let plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !text.is_empty() && !text.starts_with('.') && text.chars().all(allowed)
        };
        let revision_is_plain = revision.split('/').all(plain);
        let file_is_plain = file.as_deref().is_none_or(|file| file.split('/').all(plain));
        if !plain(organisation) || !plain(model) || !revision_is_plain || !file_is_plain {
            return Err(wrong());
        }
        Ok(Self { repository: repository.to_owned(), revision: revision.to_owned(), file })
    }

    /// The files that loading needs, of all that the repository has.
    ///
    /// # Errors
    /// [`HubError`], naming what is missing or the files to choose from.
    pub fn choose(&self, all: &[HubFile]) -> Result<Vec<HubFile>, HubError> {
        let has = |name: &str| all.iter().any(|file| file.name == name);
        let checkpoint: Vec<HubFile> =
            all.iter().filter(|file| is_part_of_a_checkpoint(&file.name)).cloned().collect();
        let weights = checkpoint.iter().any(|file| file.name.ends_with(".safetensors"));
        if self.file.is_none() && weights && has("config.json") {
            if !has("tokenizer.json") {
                return Err(HubError::NoTokenizer { model: self.to_string() });
            }
            return Ok(checkpoint);
        }
        let ggufs: Vec<&HubFile> = all.iter().filter(|file| is_gguf(&file.name)).collect();
        if ggufs.is_empty() {
            return Err(HubError::NoModel { model: self.to_string() });
        }
        let names = ggufs.iter().map(|file| file.name.as_str());
        let chosen = self.pick(names.clone()).ok_or_else(|| self.which(names))?;
        Ok(ggufs.into_iter().filter(|file| file.name == chosen).cloned().collect())
    }

    /// Where the cache has it: the folder of a checkpoint, or the path of a GGUF file.
    ///
    /// # Errors
    /// [`HubError::NotPulled`], or [`HubError::WhichFile`] when several GGUF files were pulled.
    pub fn cached(&self, cache: &Cache) -> Result<PathBuf, HubError> {
        let missing = || HubError::NotPulled { model: self.to_string() };
        let cached = cache.repo(self.repo());
        if self.file.is_none()
            && let Some(folder) = cached.get("config.json").as_deref().and_then(std::path::Path::parent)
        {
            return Ok(folder.to_owned());
        }
        let folder = cached.get("").ok_or_else(missing)?;
        let listed = std::fs::read_dir(&folder).map_err(|_| missing())?;
        let mut names: Vec<String> =
            listed.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| is_gguf(name));
        names.sort();
        if names.is_empty() {
            return Err(missing());
        }
        let names = names.iter().map(String::as_str);
        match self.pick(names.clone()) {
            Some(name) => Ok(folder.join(name)),
            // The one that is meant may not have been pulled yet.
            None if self.file.is_some() => Err(missing()),
            None => Err(self.which(names)),
        }
    }

    /// The repository at the revision that was asked for.
    pub(super) fn repo(&self) -> Repo {
        Repo::with_revision(self.repository.clone(), RepoType::Model, self.revision.clone())
    }

    /// The one file that is meant.
    fn pick<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        let wanted = self.file.as_deref().unwrap_or_default();
        if let Some(exact) = names.clone().find(|name| *name == wanted) {
            return Some(exact);
        }
        let wanted = wanted.to_lowercase();
        let mut like = names.filter(|name| name.to_lowercase().contains(&wanted));
        like.next().filter(|_| like.next().is_none())
    }

    fn which<'a>(&self, names: impl Iterator<Item = &'a str>) -> HubError {
        let files = names.collect::<Vec<_>>().join(", ");
        HubError::WhichFile { model: self.to_string(), repository: self.repository.clone(), files }
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if self.revision != "main" {
            write!(f, "@{}", self.revision)?;
        }
        self.file.as_ref().map_or(Ok(()), |file| write!(f, ":{file}"))
    }
}

fn is_gguf(name: &str) -> bool {
    name.to_lowercase().ends_with(".gguf")
}

/// What the loader reads. Other formats of the same weights, images and scripts stay where they are.
fn is_part_of_a_checkpoint(name: &str) -> bool {
    let shard = name.strip_prefix("model-").is_some_and(|rest| rest.ends_with(".safetensors"));
    shard || FILES.contains(&name)
}

const FILES: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<HubFile> {
        let file = |name: &&str| HubFile { name: (*name).to_owned(), bytes: None, sha256: None };
        names.iter().map(file).collect()
    }

    fn chosen(model: &str, names: &[&str]) -> Result<Vec<String>, String> {
        let model = HubModel::parse(model).expect("a name");
        let chosen = model.choose(&files(names)).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn names_have_a_revision_and_a_file_where_they_are_given() {
        let model = HubModel::parse("Qwen/Qwen2.5-0.5B@refs/pr/3:q4_k_m.gguf").expect("a name");
        assert_eq!((model.repository.as_str(), model.revision.as_str()), ("Qwen/Qwen2.5-0.5B", "refs/pr/3"));
        assert_eq!(model.file.as_deref(), Some("q4_k_m.gguf"));
        assert_eq!(model.to_string(), "Qwen/Qwen2.5-0.5B@refs/pr/3:q4_k_m.gguf");
        assert_eq!(HubModel::parse("a/b").expect("a name").to_string(), "a/b");
    }

    #[test]
    fn names_that_could_leave_the_cache_are_refused() {
        for wrong in
            ["b", "", "/b", "a/", "a/..", "a/b@../x", "a/b:../../x", "a/b/c", "a/b@", "a b/c", "a/b:"]
        {
            assert!(HubModel::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_checkpoint_is_what_the_loader_reads_and_no_more() {
        let all = ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors", "pytorch_model.bin"];
        let all = [&all[..], &["model-00002-of-00002.safetensors", "model.safetensors.index.json", "x.gguf"]]
            .concat();
        let chosen = chosen("a/b", &all).expect("a checkpoint");
        assert_eq!(chosen.len(), 5, "{chosen:?}");
        assert!(!chosen.iter().any(|name| name.ends_with(".bin") || name.ends_with(".gguf")));
    }

    #[test]
    fn one_gguf_file_is_chosen_by_a_part_of_its_name() {
        let all = ["README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf"];
        assert_eq!(chosen("a/b:q8_0", &all).expect("one"), ["m-Q8_0.gguf"]);
        assert_eq!(chosen("a/b:m-Q4_K_M.gguf", &all).expect("one"), ["m-Q4_K_M.gguf"]);
        let refused = chosen("a/b", &all).expect_err("two fit");
        assert!(refused.contains("m-Q4_K_M.gguf, m-Q8_0.gguf") && refused.contains("hf:a/b:"), "{refused}");
        assert_eq!(chosen("a/b", &["only.gguf"]).expect("one"), ["only.gguf"]);
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(
            chosen("a/b", &["config.json", "model.safetensors"]).expect_err("no").contains("tokenizer.json")
        );
        assert!(chosen("a/b", &["pytorch_model.bin"]).expect_err("no").contains("GGUF"));
    }
}
