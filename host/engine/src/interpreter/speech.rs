//! One journey in two spellings: the tokens that it has, and those that the model here reads.
//!
//! What it is follows from what the journey was and what was drawn here, in this order; from neither KV nor steps. So what is
//! given up and fed again, or fed in other pieces, gives the same.

use std::ops::Range;
use std::sync::Arc;

use journey::Tally;

use super::Translation;

/// A journey's tokens at *home*, and the model's *own* for the same.
#[derive(Clone, Debug)]
pub(super) struct Speech {
    translation: Arc<Translation>,
    /// The journey's tokens, as far as any row has told them.
    home: Vec<u32>,
    /// By home token: bytes of the answer up to its end.
    home_ends: Vec<usize>,
    /// How many of `home` the last row has told.
    told: usize,
    /// The same for the model here; the last of it may go beyond `home`, see `drawn`.
    own: Vec<u32>,
    /// By own token: bytes of the answer up to its end.
    own_ends: Vec<usize>,
    /// By own token: how many home tokens it takes for all of it to be there. Never falls.
    until: Vec<usize>,
    /// How many of `own` are the prompt.
    prompt: usize,
    /// How many of `own` the model was fed; its KV may have lost some since.
    pub(super) fed: usize,
    /// The home tokens of the own token that was drawn last, and where in `home` they begin; it may have some of them.
    drawn: (usize, Vec<u32>),
    /// What the heads said of that token.
    pub(super) scores: Vec<f32>,
    /// Counts the first so many of `own`, from the first penalty on.
    tally: Option<(usize, Tally)>,
}

impl Speech {
    pub(super) fn new(translation: &Arc<Translation>) -> Self {
        Self {
            translation: Arc::clone(translation),
            home: Vec::new(),
            home_ends: Vec::new(),
            told: 0,
            own: Vec::new(),
            own_ends: Vec::new(),
            until: Vec::new(),
            prompt: 0,
            fed: 0,
            drawn: (0, Vec::new()),
            scores: Vec::new(),
            tally: None,
        }
    }

    pub(super) fn translation(&self) -> &Translation {
        &self.translation
    }

    pub(super) fn home(&self) -> &[u32] {
        &self.home
    }

    pub(super) fn own(&self) -> &[u32] {
        &self.own
    }

    /// A row tells the tokens at `from..from + tokens.len()`. Before draws nothing may follow them; otherwise they may be a
    /// part of what is known and is fed again.
    pub(super) fn tell(&mut self, from: usize, tokens: &[u32], draws: usize) {
        let known = self.home[from..].iter().zip(tokens).take_while(|(known, told)| known == told).count();
        self.told = from + tokens.len();
        let same = from + known;
        let goes_on = same < self.told;
        if same < self.home.len() && (goes_on || draws > 0) {
            self.cut(same);
        }
        for &token in &tokens[known..] {
            self.push(token);
        }
        // The beginning of a drawn token can be continued as it was; a draft that ends there is judged as any other text.
        let begun = self.next_drawn().is_some() && self.home.len() > self.drawn.0;
        if draws > 0 && !(draws == 1 && begun) && self.next_drawn().is_some() {
            self.drop_drawn();
        }
        // What comes in pieces is spelled once it is whole, or the pieces would show in it.
        if draws > 0 {
            self.spell();
        } else if self.own.is_empty() {
            self.begin();
        }
    }

    fn push(&mut self, token: u32) {
        if self.next_drawn().is_some_and(|next| next != token) {
            self.drop_drawn();
        }
        let asked = self.translation.home_prompt.get(self.home.len()).filter(|_| self.prompt > 0).copied();
        if asked.is_some_and(|asked| asked != token) {
            self.truncate(0);
        }
        let bytes = if asked.is_some() { 0 } else { self.translation.lexicon.home_bytes(token).len() };
        self.home_ends.push(self.home_end(self.home.len()) + bytes);
        self.home.push(token);
    }

    /// What the next home token is, where it belongs to an own token that was drawn before.
    pub(super) fn certain(&self) -> Option<u32> {
        self.next_drawn().filter(|_| self.told == self.home.len() && self.told > self.drawn.0)
    }

    /// How many own tokens are wholly within the first so many home tokens.
    pub(super) fn within(&self, home: usize) -> usize {
        self.until.partition_point(|&until| until <= home)
    }

    /// How many own tokens are wholly within what was told.
    pub(super) fn to_feed(&self) -> usize {
        self.within(self.told)
    }

    /// How many home tokens a model holds whose KV has so many positions.
    pub(super) fn held(&self, positions: usize) -> usize {
        self.until.get(positions.min(self.fed)).map_or(self.told, |until| self.told.min(until - 1))
    }

    /// Whether both spellings pause after so many home tokens; if not, how many bytes of the next own token are there.
    pub(super) fn begun(&self, home: usize) -> usize {
        self.home_end(home).saturating_sub(self.own_end(self.within(home)))
    }

    /// The own tokens that it takes to have the home token at this place, from the first that is not there before it.
    pub(super) fn span(&self, home: usize) -> Range<usize> {
        let first = self.within(home);
        let Some(&end) = self.home_ends.get(home) else { return first..first };
        let last = self.own_ends[first..].partition_point(|&own_end| own_end < end);
        first..(first + last + 1).min(self.own.len())
    }

    /// The last home draw, of those after `lengths` home tokens, whose place is not after so many own tokens.
    pub(super) fn draw_at(&self, lengths: Range<usize>, own: usize) -> usize {
        let end = self.own_end(own);
        let after = lengths.clone().skip(1).take_while(|&length| self.home_end(length) <= end).count();
        lengths.start + after
    }

    /// A token was drawn after all that is there. Returns its first home token.
    pub(super) fn draw(&mut self, own: u32) -> u32 {
        let lexicon = &self.translation.lexicon;
        let home = lexicon.spell_home(own);
        let (begins, first) = (self.home.len(), home[0]);
        self.own_ends.push(self.home_end(begins) + lexicon.own_bytes(own).len());
        self.own.push(own);
        self.until.push(begins + home.len());
        self.drawn = (begins, home);
        first
    }

    /// The counts of the first so many own tokens.
    pub(super) fn count_to(&mut self, own: usize) {
        let (counted, mut tally) = match self.tally.take() {
            Some(counted) if counted.0 >= self.prompt => counted,
            _ => (self.prompt, Tally::of_prompt(&self.own[..self.prompt])),
        };
        self.own[counted.min(own)..own].iter().for_each(|&token| tally.add(token));
        self.own[own.min(counted)..counted].iter().for_each(|&token| tally.remove(token));
        self.tally = Some((own, tally));
    }

    pub(super) fn tally(&self) -> Option<&Tally> {
        self.tally.as_ref().map(|(_, tally)| tally)
    }

    fn next_drawn(&self) -> Option<u32> {
        let (begins, home) = &self.drawn;
        home.get(self.home.len().checked_sub(*begins)?).copied()
    }

    /// The last own token is not what happened.
    fn drop_drawn(&mut self) {
        self.drawn.1.clear();
        self.truncate(self.own.len() - 1);
    }

    /// Forgets what follows the first so many home tokens.
    fn cut(&mut self, home: usize) {
        self.home.truncate(home);
        self.home_ends.truncate(home);
        let left = self.within(home);
        if left < self.own.len() {
            self.drawn.1.clear();
            self.truncate(left);
        }
        // Of a prompt one half says nothing of the other's.
        if home < self.translation.home_prompt.len() {
            self.truncate(0);
        }
    }

    fn truncate(&mut self, own: usize) {
        if self.tally.as_ref().is_some_and(|(counted, _)| *counted > own) {
            if own < self.prompt {
                self.tally = None;
            } else {
                self.count_to(own);
            }
        }
        self.own.truncate(own);
        self.own_ends.truncate(own);
        self.until.truncate(own);
        self.prompt = self.prompt.min(own);
        self.fed = self.fed.min(own);
    }

    /// Spells in own tokens what is in home tokens only.
    fn spell(&mut self) {
        if self.own.is_empty() {
            self.begin();
        }
        let translation = Arc::clone(&self.translation);
        let lexicon = &translation.lexicon;
        let mut next = self.until.last().copied().unwrap_or(0);
        let mut bytes = Vec::new();
        let end = self.own_end(self.own.len());
        if next > self.home.len() {
            return;
        }
        if let Some(left) = self.home_end(next).checked_sub(end).filter(|left| *left > 0) {
            let of_last = lexicon.home_bytes(self.home[next - 1]);
            bytes.extend_from_slice(&of_last[of_last.len() - left..]);
        }
        while let Some(&token) = self.home.get(next) {
            next += 1;
            match lexicon.home_bytes(token) {
                [] => {
                    self.add(&std::mem::take(&mut bytes), next - 1);
                    if let Some(own) = lexicon.to_own(token) {
                        self.own_ends.push(self.home_end(next));
                        self.own.push(own);
                        self.until.push(next);
                    }
                }
                of_token => bytes.extend_from_slice(of_token),
            }
        }
        self.add(&bytes, next);
    }

    /// Spells the bytes that end with the first so many home tokens.
    fn add(&mut self, bytes: &[u8], home: usize) {
        let lexicon = &self.translation.lexicon;
        let own = lexicon.spell_own(bytes);
        let mut end = self.home_end(home) - bytes.len();
        let mut until = self.until.last().copied().unwrap_or(0);
        for (ix, &token) in own.iter().enumerate() {
            end += lexicon.own_bytes(token).len();
            // What no own token says counts to the last.
            let end = if ix + 1 == own.len() { self.home_end(home) } else { end };
            while self.home_end(until) < end {
                until += 1;
            }
            self.own_ends.push(end);
            self.until.push(until);
        }
        self.own.extend(own);
    }

    /// The prompt, which the model here has in words of its own. What does not begin with it is spelled as it is.
    fn begin(&mut self) {
        let Translation { home_prompt, own_prompt, lexicon } = &*self.translation;
        let common = self.home.len().min(home_prompt.len());
        let asked = self.home[..common] == home_prompt[..common];
        self.prompt = 0;
        if asked {
            self.own.extend_from_slice(own_prompt);
            self.own_ends.resize(own_prompt.len(), 0);
            self.until.extend((1..own_prompt.len()).map(|own| own.min(home_prompt.len())));
            self.until.push(home_prompt.len());
            self.prompt = own_prompt.len();
        }
        let silent = if asked { common } else { 0 };
        let mut end = 0;
        for (ix, (&token, place)) in self.home.iter().zip(&mut self.home_ends).enumerate() {
            end += if ix < silent { 0 } else { lexicon.home_bytes(token).len() };
            *place = end;
        }
    }

    /// Bytes of the answer in the first so many home tokens.
    fn home_end(&self, home: usize) -> usize {
        home.checked_sub(1).map_or(0, |last| self.home_ends[last])
    }

    /// Bytes of the answer in the first so many own tokens.
    fn own_end(&self, own: usize) -> usize {
        own.checked_sub(1).map_or(0, |last| self.own_ends[last])
    }
}
