//! Tokens to text: whole characters only, and nothing of a stop string.
//!
//! A token is a run of bytes, not of characters, and a stop string may be spread over several tokens (and over
//! several models), so both matchers live with the journey and survive every hop.

use std::fmt;

/// Makes tokens of text, as the models of a route do.
pub trait Encode: fmt::Debug + Send + Sync {
    /// The tokens of a text that stands in the middle of others: nothing is put before or after it.
    fn encode(&self, text: &str) -> Vec<u32>;
}

/// The bytes that each token stands for.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    bytes: Vec<Box<[u8]>>,
}

impl Vocabulary {
    /// A vocabulary from the bytes of each token, by id. Tokens that show nothing (special ones) have none.
    #[must_use]
    pub fn new(bytes: Vec<Box<[u8]>>) -> Self {
        Self { bytes }
    }

    /// The bytes of a token; empty for special and unknown tokens.
    #[must_use]
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], |bytes| bytes)
    }

    /// The bytes of several tokens.
    #[must_use]
    pub fn bytes_of(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|&token| self.bytes(token)).copied().collect()
    }

    /// Number of token ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no tokens at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The longest token that fits, again and again: right for a vocabulary of single bytes, a stand-in for others. Bytes that no
/// token begins with are left out.
impl Encode for Vocabulary {
    fn encode(&self, text: &str) -> Vec<u32> {
        let mut rest = text.as_bytes();
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let fits = |(_, bytes): &(u32, &[u8])| !bytes.is_empty() && rest.starts_with(bytes);
            let all = (0u32..).zip(self.bytes.iter().map(|bytes| &**bytes));
            let longest = all.filter(fits).max_by_key(|(_, bytes)| bytes.len());
            let (token, length) = longest.map_or((None, 1), |(token, bytes)| (Some(token), bytes.len()));
            tokens.extend(token);
            rest = &rest[length..];
        }
        tokens
    }
}

/// Text that becomes visible as tokens are committed.
#[derive(Clone, Debug)]
pub struct TextStream {
    /// First bytes of a character whose last bytes have not come yet (at most 3).
    tail: Vec<u8>,
    /// Characters that may be the beginning of a stop string.
    withheld: String,
    stops: Vec<String>,
    stopped: bool,
}

impl TextStream {
    /// A stream that ends before the first of `stops`.
    #[must_use]
    pub fn new(stops: Vec<String>) -> Self {
        Self { tail: Vec::new(), withheld: String::new(), stops, stopped: false }
    }

    /// Adds a token's bytes and returns the text that can be shown now.
    ///
    /// Bytes that can never become a character turn into U+FFFD, one for each maximal invalid run, as in
    /// [`String::from_utf8_lossy`]; a character that is only incomplete waits.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.stopped {
            return String::new();
        }
        self.tail.extend_from_slice(bytes);
        self.decode_whole_characters();
        self.release()
    }

    /// Ends the stream: shows what was withheld for a stop string that did not come. An unfinished character is
    /// left out.
    pub fn finish(&mut self) -> String {
        self.tail.clear();
        std::mem::take(&mut self.withheld)
    }

    /// Whether a stop string was met.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    fn decode_whole_characters(&mut self) {
        let mut decoded = 0;
        for chunk in self.tail.utf8_chunks() {
            self.withheld.push_str(chunk.valid());
            decoded += chunk.valid().len();
            let invalid = chunk.invalid();
            let unfinished = decoded + invalid.len() == self.tail.len() && is_prefix_of_character(invalid);
            if invalid.is_empty() || unfinished {
                break;
            }
            self.withheld.push(char::REPLACEMENT_CHARACTER);
            decoded += invalid.len();
        }
        self.tail.drain(..decoded);
    }

    fn release(&mut self) -> String {
        let first = self.stops.iter().filter_map(|stop| self.withheld.find(stop.as_str())).min();
        if let Some(at) = first {
            self.stopped = true;
            self.withheld.truncate(at);
            return std::mem::take(&mut self.withheld);
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.withheld, stop)).max().unwrap_or(0);
        let rest = self.withheld.split_off(self.withheld.len() - keep);
        std::mem::replace(&mut self.withheld, rest)
    }
}

/// Length in bytes of the longest proper prefix of `stop` that `text` ends with.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    (1..=longest)
        .rev()
        .find(|&n| stop.is_char_boundary(n) && text.as_bytes().ends_with(&stop.as_bytes()[..n]))
        .unwrap_or(0)
}

/// Whether these bytes, which are no character, could become one with more bytes.
fn is_prefix_of_character(bytes: &[u8]) -> bool {
    // `utf8_chunks` ends an invalid run at the first byte that cannot continue it, so a run of the right lead byte
    // and fewer bytes than the lead announces is a prefix of a valid character.
    let announced = match bytes.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => return false,
    };
    bytes.len() < announced
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(stops: &[&str]) -> TextStream {
        TextStream::new(stops.iter().map(|&s| s.to_owned()).collect())
    }

    #[test]
    fn a_character_split_over_tokens_appears_once_whole() {
        let mut text = stream(&[]);
        assert_eq!(text.push(&[0xF0, 0x9F]), "");
        assert_eq!(text.push(&[0xAB]), "");
        assert_eq!(text.push(&[0xA0]), "\u{1FAE0}");
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn an_unfinished_character_at_the_end_is_left_out() {
        let mut text = stream(&[]);
        assert_eq!(text.push(b"ok\xE9\xBE"), "ok");
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn bytes_that_can_never_be_a_character_are_replaced() {
        let mut text = stream(&[]);
        assert_eq!(text.push(b"a\xFFb"), "a\u{FFFD}b");
        assert_eq!(text.push(&[0xE0]), "");
        assert_eq!(text.push(b"x"), "\u{FFFD}x");
    }

    #[test]
    fn a_stop_string_over_three_tokens_shows_nothing_of_itself() {
        let mut text = stream(&["DEFGHIJ"]);
        assert_eq!(text.push(b"ABCD"), "ABC");
        assert_eq!(text.push(b"EFG"), "");
        assert_eq!(text.push(b"HIJKLM"), "");
        assert!(text.stopped());
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn a_stop_that_does_not_come_is_shown_at_the_end() {
        let mut text = stream(&["STOP"]);
        assert_eq!(text.push(b"go ST"), "go ");
        assert_eq!(text.push(b"ART S"), "START ");
        assert_eq!(text.finish(), "S");
    }

    #[test]
    fn the_earliest_of_several_stops_wins() {
        let mut text = stream(&["later", "now"]);
        assert_eq!(text.push(b"do it now or later"), "do it ");
        assert!(text.stopped());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_text_of_one_piece(text in "[ab\u{e9}\u{4e2d}\u{1F600}]{0,24}", cuts in proptest::collection::vec(0usize..96, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut whole = stream(&["ab\u{e9}", "\u{4e2d}a"]);
            let expected = whole.push(bytes) + &whole.finish();
            let mut split = stream(&["ab\u{e9}", "\u{4e2d}a"]);
            let mut got = String::new();
            for pair in cuts.windows(2) {
                got += &split.push(&bytes[pair[0]..pair[1]]);
            }
            got += &split.finish();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn any_bytes_decode_as_lossy_utf8(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut text = stream(&[]);
            let mut got = String::new();
            for byte in &bytes {
                got += &text.push(&[*byte]);
            }
            let lossy = String::from_utf8_lossy(&bytes).into_owned();
            // The stream leaves out an unfinished character at the very end, where lossy decoding shows U+FFFD.
            let with_unfinished = got.clone() + "\u{FFFD}";
            prop_assert!(lossy == got || lossy == with_unfinished, "{:?} against {:?}", got, lossy);
        }
    }
}
