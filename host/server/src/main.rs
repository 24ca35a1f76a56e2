//! The binary `tokenrouter`: parses the command line, performs the command, shows what went wrong.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use tokenrouter::cli::{Cli, CliError};
use tokenrouter::terminal::{Terminal, palette};

fn main() -> ExitCode {
    // A process of its own, with little memory and time, compiles what tenants upload.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|first| first == policy::compile_child::ARGUMENT) {
        return policy::compile_child::main();
    }
    // And another tries them.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|first| first == tokenrouter::trial::child::ARGUMENT) {
        return tokenrouter::trial::child::main();
    }
    match Cli::parse().perform() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            report(error);
            ExitCode::from(code)
        }
    }
}

/// One message: what failed, and why, as far as the causes say more than what they caused.
fn report(error: CliError) {
    let mut message = String::new();
    for cause in anyhow!(error).chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    let style = palette::BAD;
    // With standard error closed there is nobody to tell; the exit code still says it.
    drop(Terminal::of_process(false).note(format_args!("{style}error:{style:#} {message}")));
}
