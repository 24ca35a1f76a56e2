//! As much of JSON as it takes to show a call before it is whole.

use engine::CallForm;

/// The beginning of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// More text must come.
    More,
    /// It begins in another way.
    Odd,
    /// The name, and where the arguments begin.
    Found { name: String, end: usize },
}

/// Reads `{"name": "NAME", "arguments": ` in front of an object; a list's bracket may stand before it.
pub(super) fn head(text: &str, form: CallForm) -> Head {
    let mut cursor = Cursor { text, at: 0 };
    if matches!(form, CallForm::List(_)) && cursor.text.trim_start().starts_with('[') {
        cursor.at = text.find('[').map_or(0, |at| at + 1);
    }
    match cursor.head() {
        Ok(name) => Head::Found { name, end: cursor.at },
        Err(Stopped::Short) => Head::More,
        Err(Stopped::Odd) => Head::Odd,
    }
}

enum Stopped {
    Short,
    Odd,
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn head(&mut self) -> Result<String, Stopped> {
        self.expect("{")?;
        self.expect("\"name\"")?;
        self.expect(":")?;
        let name = self.string()?;
        self.expect(",")?;
        let before = self.at;
        if self.expect("\"arguments\"").is_err() {
            self.at = before;
            self.expect("\"parameters\"").or_else(|stopped| self.either(before, stopped))?;
        }
        self.expect(":")?;
        self.blanks();
        match self.text.as_bytes().get(self.at) {
            Some(b'{') => Ok(name),
            Some(_) => Err(Stopped::Odd),
            None => Err(Stopped::Short),
        }
    }

    /// Neither key is there; it may be that one of them has only begun.
    fn either(&mut self, before: usize, stopped: Stopped) -> Result<(), Stopped> {
        let begun = self.text[before..].trim_start();
        if "\"arguments\"".starts_with(begun) { Err(Stopped::Short) } else { Err(stopped) }
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn expect(&mut self, word: &str) -> Result<(), Stopped> {
        self.blanks();
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(if word.starts_with(rest) { Stopped::Short } else { Stopped::Odd })
    }

    fn string(&mut self) -> Result<String, Stopped> {
        self.expect("\"")?;
        let rest = &self.text[self.at..];
        let Some(end) = rest.find('"') else { return Err(Stopped::Short) };
        let name = &rest[..end];
        if name.is_empty() || name.contains('\\') {
            return Err(Stopped::Odd);
        }
        self.at += end + 1;
        Ok(name.to_owned())
    }
}

/// Where an object ends.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Arguments {
    /// How many bytes of a text are still the object's, and whether it is whole with them.
    pub(super) fn take(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
                _ => continue,
            }
            if self.depth == 0 && !self.in_string && matches!(byte, b'}' | b']') {
                return (at + 1, true);
            }
        }
        (text.len(), false)
    }
}
