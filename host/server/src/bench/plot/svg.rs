//! Writes SVG elements; knows nothing about charts.

use std::fmt::{self, Write};

use crate::terminal::palette::Ink;

/// A document being written.
pub(super) struct Svg {
    body: String,
    inks: Vec<Ink>,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new(), inks: Vec::new() }
    }

    /// Adds an element that is written out by the caller.
    pub(super) fn push(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ok = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// Adds a line of text. `attributes` as in the file, `class` among them.
    pub(super) fn text(&mut self, at: (f64, f64), attributes: &str, text: &str) {
        let (x, y, text) = (at.0, at.1, escaped(text));
        self.push(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>"));
    }

    /// Number of an ink: `f` and the number is the class that fills with it, `l` and the number the one that draws.
    pub(super) fn ink(&mut self, ink: Ink) -> usize {
        if let Some(known) = self.inks.iter().position(|known| *known == ink) {
            return known;
        }
        self.inks.push(ink);
        self.inks.len() - 1
    }

    /// The whole document; `title` is for readers who do not see it.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        let mut light = String::from(LIGHT);
        let mut dark = String::from(DARK);
        for (ix, ink) in self.inks.iter().enumerate() {
            for (rules, colour) in [(&mut light, ink.light), (&mut dark, ink.dark)] {
                let _ok = write!(rules, ".f{ix}{{fill:{colour}}}.l{ix}{{stroke:{colour}}}");
            }
        }
        let (body, title) = (self.body, escaped(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\" font-family=\"{FONT}\" font-size=\"13\">\n\
             <style>\n{SHAPES}\n{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n</style>\n\
             <rect class=\"paper edge\" x=\"0.5\" y=\"0.5\" width=\"{:.1}\" height=\"{:.1}\" rx=\"10\"/>\n{body}</svg>\n",
            width - 1.0,
            height - 1.0,
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const FONT: &str = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif";
const SHAPES: &str = "text{font-variant-numeric:tabular-nums}.title{font-size:20px;font-weight:700}\
    .label{font-weight:600;paint-order:stroke;stroke-width:4px;stroke-linejoin:round}\
    .line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}.level{stroke-width:1.5}\
    .mark{stroke-width:1.5}.grid,.edge,.axis,.span{stroke-width:1}";
const LIGHT: &str = ".paper{fill:#ffffff}.label,.mark{stroke:#ffffff}.edge,.grid{stroke:#d8dee4}.ink{fill:#1f2328}\
    .faint{fill:#59636e}.axis,.span{stroke:#59636e}";
const DARK: &str = ".paper{fill:#0d1117}.label,.mark{stroke:#0d1117}.edge,.grid{stroke:#30363d}.ink{fill:#f0f6fc}\
    .faint{fill:#9198a1}.axis,.span{stroke:#9198a1}";
