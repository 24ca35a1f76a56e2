//! `tokenrouter policy keygen` and `policy sign`: ed25519, for servers that take only components that they know.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::read;
use crate::cli::CliError;
use crate::http::secret;
use crate::terminal::Terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tokenrouter policy keygen signing.key")]
pub(in crate::cli) struct Keygen {
    /// Where the secret key is written; only you can read it.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  tokenrouter policy sign doubt.wasm --key signing.key > doubt.sig
  tokenrouter policy upload doubt --component doubt.wasm --route pair/entropy --signature doubt.sig")]
pub(in crate::cli) struct Sign {
    /// The component (.wasm).
    component: PathBuf,
    /// The secret key, as `policy keygen` writes it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

pub(in crate::cli) fn keygen(args: &Keygen, terminal: &Terminal) -> Result<(), CliError> {
    let seed: [u8; 32] = secret();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
    let written = new_file(&args.file).and_then(|mut file| writeln!(file, "{}", hexadecimal(&seed)));
    written.map_err(|source| CliError::Save { file: args.file.clone(), source })?;
    terminal.note(format_args!("The public key, for `keys = [...]` of [uploads] in the configuration:"))?;
    Ok(terminal.line(format_args!("{}", hexadecimal(pair.public_key().as_ref())))?)
}

pub(in crate::cli) fn sign(args: &Sign, terminal: &Terminal) -> Result<(), CliError> {
    let pair = pair(&args.key)?;
    let signature = pair.sign(&read(&args.component)?);
    Ok(terminal.line(format_args!("{}", hexadecimal(signature.as_ref())))?)
}

fn pair(file: &Path) -> Result<Ed25519KeyPair, CliError> {
    let no_key = || CliError::SigningKey { file: file.to_owned() };
    let text = String::from_utf8(read(file)?).map_err(|_| no_key())?;
    // Written as a digest is: 32 bytes in hexadecimal.
    let seed: store::Digest = text.trim().parse().map_err(|_| no_key())?;
    Ed25519KeyPair::from_seed_unchecked(seed.as_bytes()).map_err(|_| no_key())
}

#[cfg(unix)]
fn new_file(file: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

#[cfg(not(unix))]
fn new_file(file: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).open(file)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
