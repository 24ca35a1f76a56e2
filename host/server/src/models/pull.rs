//! Bringing a model from the Hugging Face Hub into the cache that the Python packages use too.
//!
//! All files are of one commit. A download that broke off goes on where it stopped, here or in a later call, and what
//! the hub gives a digest for is checked against it. The config comes last: a folder that has one is complete.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::hub::{HubError, HubFile, HubModel};

/// Who is told how far a download has come.
pub trait PullProgress {
    /// A file is on its way; bytes are those of all files of the model.
    fn at(&mut self, file: &str, done_bytes: u64, total_bytes: u64);
}

/// A model that could not be brought.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The repository has no such model.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The hub does not know it, or does not show it.
    #[error(
        "the hub answers {status} for hf:{model}: it does not exist, or needs an account that may see it; check the \
         name and the revision, and set HF_TOKEN for a private or gated model"
    )]
    Refused {
        /// The model.
        model: String,
        /// HTTP status.
        status: u16,
    },
    /// The hub cannot be reached or breaks off again and again.
    #[error(
        "cannot get {what} of hf:{model}; run the command again to go on where it stopped (HF_ENDPOINT names another hub)"
    )]
    Broken {
        /// The model.
        model: String,
        /// A file, or the list of files.
        what: String,
        /// Why.
        source: Box<ApiError>,
    },
    /// A file is not what the hub says it is.
    #[error(
        "{file} of hf:{model} is damaged: its SHA-256 is {found}, not {expected}; it was removed, run the command again"
    )]
    Damaged {
        /// The model.
        model: String,
        /// Which.
        file: String,
        /// What came.
        found: String,
        /// What should have come.
        expected: String,
    },
    /// The cache cannot be read or written.
    #[error("cannot use {}", .file.display())]
    Cache {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Brings the files that loading needs; returns the folder, or the GGUF file. What is there already is not brought
/// again. Without a `token` it is the one that Python's login left in the cache, if any.
///
/// # Errors
/// [`PullError`]. What has come stays for the next call.
pub fn pull(
    model: &HubModel,
    token: Option<String>,
    progress: &mut dyn PullProgress,
) -> Result<PathBuf, PullError> {
    let cache = Cache::from_env();
    let token = token.filter(|token| !token.is_empty()).or_else(|| cache.token());
    let builder = ApiBuilder::from_env().with_progress(false).with_token(token);
    let broken = |what: &str, source| broken(model, what, source);
    let api = builder.build().map_err(|source| broken("the list of files", source))?;
    let (commit, mut files) = list(&api, model).map_err(|source| broken("the list of files", source))?;
    files = model.choose(&files)?;
    files.sort_by_key(|file| file.name == "config.json");
    let pinned = Repo::with_revision(model.repository.clone(), RepoType::Model, commit.clone());
    let (remote, local) = (api.repo(pinned.clone()), cache.repo(pinned));
    let total_bytes = files.iter().filter_map(|file| file.bytes).sum();
    let mut before = 0;
    for file in &files {
        let mut bar = Bar { progress: &mut *progress, file: &file.name, before, done: 0, total_bytes };
        bar.tell();
        if local.get(&file.name).is_none() {
            let path =
                download(&remote, &file.name, &mut bar).map_err(|source| broken(&file.name, source))?;
            verify(model, file, &path)?;
        }
        before += file.bytes.unwrap_or(0);
    }
    let named = cache.repo(model.repo());
    named.create_ref(&commit).map_err(|source| PullError::Cache { file: cache.path().clone(), source })?;
    Ok(model.cached(&cache)?)
}

/// The commit of the revision, and all files of the repository.
fn list(api: &Api, model: &HubModel) -> Result<(String, Vec<HubFile>), ApiError> {
    let mut response =
        api.repo(model.repo()).info_request().query("blobs", "true").call().map_err(Box::new)?;
    let listing: Listing = response.body_mut().read_json().map_err(Box::new)?;
    let file = |file: Listed| HubFile {
        name: file.rfilename,
        bytes: file.size,
        sha256: file.lfs.map(|large| large.sha256),
    };
    Ok((listing.sha, listing.siblings.into_iter().map(file).collect()))
}

/// Downloads one file, going on after interruptions.
fn download(remote: &ApiRepo, file: &str, bar: &mut Bar<'_>) -> Result<PathBuf, ApiError> {
    let mut pauses = PAUSES.iter();
    loop {
        match remote.download_with_progress(file, &mut *bar) {
            Err(error) if is_passing(&error) => match pauses.next() {
                Some(pause) => wait(*pause),
                None => return Err(error),
            },
            outcome => return outcome,
        }
    }
}

/// Nothing tells when a connection works again.
#[expect(clippy::disallowed_methods, reason = "there is no event to wait for")]
fn wait(pause: Duration) {
    std::thread::sleep(pause);
}

/// Whether trying again may help.
fn is_passing(error: &ApiError) -> bool {
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => status >= 500 || status == 429,
            _ => true,
        },
        ApiError::IoError(_) => true,
        _ => false,
    }
}

fn broken(model: &HubModel, what: &str, source: ApiError) -> PullError {
    let model = model.to_string();
    if let ApiError::RequestError(error) = &source
        && let ureq::Error::StatusCode(status @ 400..500) = **error
    {
        return PullError::Refused { model, status };
    }
    PullError::Broken { model, what: what.to_owned(), source: Box::new(source) }
}

/// Compares a file with the digest that the hub gives; what differs is removed.
fn verify(model: &HubModel, file: &HubFile, path: &Path) -> Result<(), PullError> {
    let Some(expected) = &file.sha256 else { return Ok(()) };
    let failed = |source| PullError::Cache { file: path.to_owned(), source };
    // In the cache the name is a link to the content, which must go too.
    let content = path.canonicalize().map_err(failed)?;
    let mut digest = Sha256::new();
    let mut opened = std::fs::File::open(&content).map_err(failed)?;
    io::copy(&mut opened, &mut digest).map_err(failed)?;
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == *expected {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(failed)?;
    if content != path {
        std::fs::remove_file(&content).map_err(failed)?;
    }
    let (file, expected) = (file.name.clone(), expected.clone());
    Err(PullError::Damaged { model: model.to_string(), file, found, expected })
}

/// What the hub says about a repository.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Large>,
}

#[derive(Deserialize)]
struct Large {
    sha256: String,
}

/// The progress of one file within that of all.
struct Bar<'a> {
    progress: &'a mut dyn PullProgress,
    file: &'a str,
    /// Bytes of the files before it.
    before: u64,
    done: u64,
    total_bytes: u64,
}

impl Bar<'_> {
    fn tell(&mut self) {
        self.progress.at(self.file, self.before + self.done, self.total_bytes);
    }
}

impl hf_hub::api::Progress for &mut Bar<'_> {
    fn init(&mut self, _size: usize, _filename: &str) {
        self.done = 0;
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        self.tell();
    }

    fn finish(&mut self) {}
}

/// How long to wait before each new try.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
