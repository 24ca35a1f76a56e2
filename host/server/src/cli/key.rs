//! `tokenrouter key`: API keys of tenants.

use clap::Subcommand;
use tenant::key::Secret;

use super::CliError;
use crate::config::toml_key;
use crate::http::secret;
use crate::terminal::{Terminal, palette};
use crate::unix;

/// Make API keys.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter key new --tenant acme
  tokenrouter key new --tenant operators --admin")]
pub(super) enum Key {
    /// Make a key: its secret, shown once, and the line by which a configuration knows it.
    New(New),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tokenrouter key new --tenant acme")]
pub(super) struct New {
    /// The tenant on whose behalf it is used; its table is [tenants.NAME].
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// It also opens /metrics and /admin/.
    #[arg(long)]
    admin: bool,
}

pub(super) fn new(args: &New, terminal: &Terminal) -> Result<(), CliError> {
    let now = unix::now_s();
    let made = Secret::of(secret());
    let style = palette::STRONG;
    terminal
        .note(format_args!("The key, shown this once and kept nowhere; give it to whoever is to use it:"))?;
    terminal.line(format_args!("{style}{}{style:#}", made.reveal()))?;
    let table = toml_key(&args.tenant);
    terminal.note(format_args!(
        "\nThe line for `keys = [...]` of [tenants.{table}] in the configuration; it holds no secret. The key works once the \
         server has read it:"
    ))?;
    Ok(terminal.line(format_args!("{}", line(&made, args.admin, now)))?)
}

/// The key's entry in `keys`.
fn line(made: &Secret, admin: bool, now_unix_s: u64) -> String {
    let (id, digest) = (made.id(), String::from(made.digest()));
    let scope = if admin { "scope = \"admin\", " } else { "" };
    format!("{{ id = \"{id}\", {scope}created_unix_s = {now_unix_s}, digest = \"{digest}\" }},")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_line_fits_into_a_configuration_and_holds_no_secret() {
        let made = Secret::of(secret());
        for (admin, tenant) in [(false, "acme"), (true, "the operators")] {
            let line = line(&made, admin, 1_800_000_000);
            let hidden = made.reveal();
            assert!(!line.contains(hidden.rsplit('-').next().unwrap()));
            let head = toml_key(tenant);
            let text =
                format!("[models.a]\nfiles = \"embedded:small\"\n[tenants.{head}]\nkeys = [\n{line}\n]");
            let config = Config::parse(&text, Path::new("")).unwrap();
            let record = config.tenants[tenant].keys[0].record(tenant);
            assert_eq!(record, made.record(record.scope.clone(), 1_800_000_000));
            assert_eq!(record.scope == tenant::Scope::Admin, admin);
        }
    }
}
