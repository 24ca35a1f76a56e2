//! What the commands show: text, tables, progress and colours.
//!
//! The only place of the binary that writes to standard output. A command says what to show; whether that gets colours
//! and a moving bar, or plain text for another program, is decided here from where the streams go.

pub mod palette;
mod progress;
mod speakers;
mod table;
mod units;

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

pub use progress::{LoadBar, bar};
pub use speakers::Speakers;
pub use table::{Align, Table};
pub use units::{grouped, size};

/// Where a command's words go.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    colour: ColorChoice,
    interactive: bool,
}

impl Terminal {
    /// The process's own streams. Colours are left out on request, when `NO_COLOR` says so, and when standard output
    /// is no terminal.
    #[must_use]
    pub fn of_process(no_color: bool) -> Self {
        let choice = if no_color { ColorChoice::Never } else { AutoStream::choice(&io::stdout()) };
        Self { colour: choice, interactive: io::stdout().is_terminal() }
    }

    /// Whether a person reads standard output, as opposed to a file or a program.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Whether colours are shown.
    #[must_use]
    pub fn coloured(&self) -> bool {
        self.colour != ColorChoice::Never
    }

    /// Writes to standard output at once.
    ///
    /// # Errors
    /// The stream's, such as a closed pipe.
    pub fn write(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let mut stream = AutoStream::new(io::stdout(), self.colour).lock();
        stream.write_fmt(text)?;
        stream.flush()
    }

    /// Writes a line to standard output.
    ///
    /// # Errors
    /// The stream's, such as a closed pipe.
    pub fn line(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write(format_args!("{text}\n"))
    }

    /// Writes a line about the output rather than of it: to standard error when another program reads the output.
    ///
    /// # Errors
    /// The stream's.
    pub fn aside(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        if self.interactive { self.line(text) } else { self.note(text) }
    }

    /// Writes a line to standard error.
    ///
    /// # Errors
    /// The stream's.
    pub fn note(&self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let choice = match self.colour {
            ColorChoice::Never => ColorChoice::Never,
            _ => AutoStream::choice(&io::stderr()),
        };
        let mut stream = AutoStream::new(io::stderr(), choice).lock();
        stream.write_fmt(format_args!("{text}\n"))
    }
}
