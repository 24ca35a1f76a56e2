//! `tokenrouter policy pull` and `policy push`: components from and to OCI registries.

use std::path::PathBuf;

use super::{Opened, open, read};
use crate::cli::{CliError, ConfigFile, configuration};
use crate::registry::{Artifact, Client, Layer, Reference, RegistryError};
use crate::terminal::Terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Credentials are those that `registry.auth_file` of the configuration, DOCKER_AUTH_CONFIG or DOCKER_CONFIG name.

Examples:
  tokenrouter policy pull oci://registry.example/policies/doubt:1.0
  tokenrouter policy pull oci://localhost:5000/doubt -o doubt.wasm")]
pub(in crate::cli) struct Pull {
    /// What to pull; without a tag and a digest, `latest`.
    #[arg(value_name = "oci://HOST/REPOSITORY[:TAG][@sha256:DIGEST]", value_parser = Reference::parse)]
    reference: Reference,
    /// Where the component is written; without it, nowhere.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The component is checked first, as by `policy check`. The same component gives the same digest wherever it is pushed.

Examples:
  tokenrouter policy push doubt.wasm oci://registry.example/policies/doubt:1.0
  tokenrouter policy push doubt.wasm oci://localhost:5000/doubt:1.0 --signature doubt.sig")]
pub(in crate::cli) struct Push {
    /// The component (.wasm).
    file: PathBuf,
    /// Where to push it.
    #[arg(value_name = "oci://HOST/REPOSITORY[:TAG]", value_parser = Reference::parse)]
    reference: Reference,
    /// Signature of the component, as `policy sign` writes it.
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

pub(in crate::cli) fn pull(args: &Pull, terminal: &Terminal) -> Result<(), CliError> {
    let config = configuration(args.config.config.as_deref())?;
    let mut client = Client::new(&args.reference, &config.registry)?;
    let (manifest, digest) = client.manifest()?;
    let layer = Layer::of(&manifest)
        .map_err(|problem| RegistryError::NoComponent { reference: args.reference.to_string(), problem })?;
    let component = client.component(&layer, config.uploads.bytes_max.get() as u64)?;
    if let Some(file) = &args.output {
        std::fs::write(file, component).map_err(|source| CliError::Save { file: file.clone(), source })?;
    }
    named(&args.reference, digest, terminal)
}

pub(in crate::cli) fn push(args: &Push, terminal: &Terminal) -> Result<(), CliError> {
    if let Some(digest) = args.reference.digest {
        let problem = format!("@sha256:{digest} follows from the component; leave it out");
        return Err(CliError::Reference { reference: args.reference.to_string(), problem });
    }
    let Opened { revision, component, .. } = open(&args.file, &args.config)?;
    let config = configuration(args.config.config.as_deref())?;
    let signature = args.signature.as_ref().map(|file| read(file)).transpose()?;
    let signature = signature.map(|text| String::from_utf8_lossy(text.trim_ascii()).into_owned());
    let descriptor = revision.descriptor();
    let artifact = Artifact::of(&component, (&descriptor.name, &descriptor.doc), signature.as_deref());
    Layer::of(&artifact.manifest)
        .map_err(|problem| CliError::Reference { reference: args.reference.to_string(), problem })?;
    let digest = Client::new(&args.reference, &config.registry)?.push(&component, &artifact)?;
    named(&args.reference, digest, terminal)
}

/// How a configuration names it.
fn named(reference: &Reference, digest: store::Digest, terminal: &Terminal) -> Result<(), CliError> {
    let pinned = Reference { digest: Some(digest), ..reference.clone() };
    terminal.note(format_args!("For a route's `policy` in the configuration:"))?;
    Ok(terminal.line(format_args!("{pinned}"))?)
}
