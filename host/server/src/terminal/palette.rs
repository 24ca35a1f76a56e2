//! The colours of models and curves, the same in the terminal and in pictures.
//!
//! Each ink exists three times: for light paper, for dark paper, and as one of the 256 terminal colours, which reads on
//! both. Neighbours differ in lightness too, so that they stay apart without colour vision.

use anstyle::{Ansi256Color, AnsiColor, Color, Style};

/// One colour for all its surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// On light paper, as `#rrggbb`.
    pub light: &'static str,
    /// On dark paper, as `#rrggbb`.
    pub dark: &'static str,
    /// In a terminal.
    pub terminal: Ansi256Color,
}

impl Ink {
    /// As the colour of terminal text.
    #[must_use]
    pub fn style(self) -> Style {
        Style::new().fg_color(Some(Color::Ansi256(self.terminal)))
    }
}

/// The ink of a model, by its role in the route.
#[must_use]
pub fn role(ix: usize) -> Ink {
    ROLES[ix % ROLES.len()]
}

const fn ink(light: &'static str, dark: &'static str, terminal: u8) -> Ink {
    Ink { light, dark, terminal: Ansi256Color(terminal) }
}

/// The entry model's.
pub const TEAL: Ink = ink("#0f766e", "#2dd4bf", 37);
/// The second model's.
pub const ORANGE: Ink = ink("#c2410c", "#fb923c", 208);
/// A third model's, and a curve's.
pub const BLUE: Ink = ink("#1d4ed8", "#7cb0ff", 69);
/// A curve's.
pub const PURPLE: Ink = ink("#86198f", "#e879f9", 170);
/// A curve's.
pub const OLIVE: Ink = ink("#4d7c0f", "#a3e635", 112);
/// A curve's.
pub const ROSE: Ink = ink("#be123c", "#fb7185", 204);
/// A curve's.
pub const AMBER: Ink = ink("#854d0e", "#eab308", 178);
/// Controls and what is not the point.
pub const GREY: Ink = ink("#6b7280", "#9ca3af", 245);

const ROLES: [Ink; 6] = [TEAL, ORANGE, BLUE, PURPLE, OLIVE, ROSE];

/// Words that say all is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Words that want attention.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// Words that report a failure.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Headings.
pub const STRONG: Style = Style::new().bold();
/// What may be skipped.
pub const FAINT: Style = Style::new().dimmed();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_a_route_have_different_inks() {
        for first in 0..ROLES.len() {
            for second in 0..first {
                assert_ne!(role(first), role(second));
            }
        }
        assert_eq!(role(0), TEAL);
        assert_eq!(role(1), ORANGE);
    }
}
