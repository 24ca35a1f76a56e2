//! `tokenrouter policy new`: a working project, written from files inside this binary.

mod files;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::cli::CliError;
use crate::terminal::{Terminal, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The project needs nothing of this repository: the interface and what wraps it are written beside the policy. Rust needs
the target wasm32-wasip2 (rustup target add wasm32-wasip2), Python needs python3 with venv, JavaScript needs npm.

Examples:
  tokenrouter policy new doubt --lang rust
  tokenrouter policy new doubt --lang python --dir policies/doubt")]
pub(in crate::cli) struct New {
    /// What the policy is called: small letters, digits and hyphens.
    name: String,
    /// What it is written in.
    #[arg(long, value_name = "LANG")]
    lang: Language,
    /// Where; without it, a folder with the policy's name.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

// Without docs: clap would give each a paragraph in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Rust,
    Python,
    Js,
}

pub(in crate::cli) fn new(args: &New, terminal: &Terminal) -> Result<(), CliError> {
    let name = Name::parse(&args.name).ok_or_else(|| CliError::PolicyName { name: args.name.clone() })?;
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let occupied = std::fs::read_dir(&folder).is_ok_and(|mut inside| inside.next().is_some());
    if occupied || folder.is_file() {
        return Err(CliError::Occupied { folder });
    }
    for (file, text) in files::of(args.lang) {
        write(&folder.join(name.put(file)), &name.put(text))?;
    }
    let (build, component) = args.lang.built(&name);
    let style = palette::STRONG;
    terminal.line(format_args!(
        "wrote {}; build and try it:\n{style}  cd {} && {build}\n  tokenrouter policy test {component} \
         --conformance{style:#}",
        folder.display(),
        folder.display()
    ))?;
    Ok(())
}

impl Language {
    /// The command that builds the project, and what it makes.
    fn built(self, name: &Name) -> (String, String) {
        match self {
            Self::Rust => (
                "cargo build --release --target wasm32-wasip2".to_owned(),
                format!("target/wasm32-wasip2/release/{}.wasm", name.module()),
            ),
            Self::Python | Self::Js => {
                (format!("sh build.sh {}", name.module()), format!("{}.wasm", name.module()))
            }
        }
    }
}

/// A policy's name in the three ways in which it is written.
struct Name(String);

impl Name {
    fn parse(name: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        // `tokenrouter` and `wit` are beside it.
        let free = !["tokenrouter", "wit", "build", "policy", "test"].contains(&name);
        (begins && free && name.chars().all(allowed) && !name.ends_with('-')).then(|| Self(name.to_owned()))
    }

    /// As a module or a file is called.
    fn module(&self) -> String {
        self.0.replace('-', "_")
    }

    /// As a type is called.
    fn class(&self) -> String {
        let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
        self.0.split('-').filter(|part| !part.is_empty()).map(capital).collect()
    }

    /// A template with this name in place of its own.
    fn put(&self, text: &str) -> String {
        let named = text.replace("class Doubt", &format!("class {}", self.class()));
        let named = named.replace("struct Doubt", &format!("struct {}", self.class()));
        let named = ["(Doubt)", "for Doubt ", "<Doubt>"]
            .iter()
            .fold(named, |text, place| text.replace(place, &place.replace("Doubt", &self.class())));
        named
            .replace("\"doubt\"", &format!("\"{}\"", self.0))
            .replace("doubt.", &format!("{}.", self.module()))
    }
}

fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let failed = |source| CliError::Save { file: file.to_owned(), source };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(file, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_and_is_put_in_every_place() {
        for wrong in ["", "Doubt", "9lives", "a b", "../up", "a-", "tokenrouter"] {
            assert!(Name::parse(wrong).is_none(), "{wrong}");
        }
        let name = Name::parse("my-rule").expect("a name");
        for language in [Language::Rust, Language::Python, Language::Js] {
            for (file, text) in files::of(language) {
                let (file, text) = (name.put(file), name.put(text));
                assert!(!file.contains("doubt"), "{file}");
                // What wraps the interface does not know the policy.
                let own = !file.contains('/') || file == "src/lib.rs";
                assert!(!own || !text.contains("Doubt") && !text.contains("\"doubt\""), "{file}: {text}");
            }
        }
        assert!(name.put("struct Doubt; export(Doubt)").contains("struct MyRule; export(MyRule)"));
    }
}
