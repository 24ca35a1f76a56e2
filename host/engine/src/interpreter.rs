//! An engine that also serves journeys in another model's tokens.
//!
//! Everything before it, policies included, knows a journey in the tokens of its route's entry model. Where the model here has
//! another tokenizer, rows are respelled on their way in, and draws on their way out: a drawn token becomes the home tokens of
//! the same bytes, and the next draws give the rest of them without a step. Bytes are never changed. What a client or a policy
//! says of tokens (bias, mask, distributions, log-probabilities) holds for those that both models have.
//!
//! For other journeys it costs one look whether there are any.

mod drawn;
mod speech;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use journey::{Draw, JourneyId, Sampled};

use crate::{Cores, Engine, EngineError, Head, KvUsage, Lexicon, ModelSpec, Profile, Row};
use drawn::{OwnAdjust, certain, sampled_at};
use speech::Speech;

/// What it takes to serve one journey in another model's tokens.
#[derive(Debug)]
pub struct Translation {
    lexicon: Arc<Lexicon>,
    home_prompt: Vec<u32>,
    own_prompt: Vec<u32>,
}

impl Translation {
    /// For a journey of this prompt, which the model here reads as `own_prompt`: by its own chat template, for example.
    /// `None` if that has no tokens.
    #[must_use]
    pub fn new(lexicon: Arc<Lexicon>, home_prompt: Vec<u32>, own_prompt: Vec<u32>) -> Option<Self> {
        (!own_prompt.is_empty()).then_some(Self { lexicon, home_prompt, own_prompt })
    }
}

/// An engine, and the journeys at it that are in another model's tokens.
pub struct Interpreter {
    inner: Box<dyn Engine>,
    speeches: BTreeMap<JourneyId, Speech>,
}

/// What a row becomes.
enum Plan {
    /// It is in the model's tokens.
    Plain,
    /// These own tokens are fed, and nothing is drawn.
    Feed(Range<usize>),
    /// Its only draw has been made.
    Certain(u32),
    /// These own tokens are fed; the draws follow the last so many.
    Draw { feed: Range<usize>, draws: usize },
}

impl Interpreter {
    /// In front of an engine.
    #[must_use]
    pub fn new(inner: Box<dyn Engine>) -> Self {
        Self { inner, speeches: BTreeMap::new() }
    }

    /// From now on this journey's rows are in another model's tokens, until it is released. A second time changes nothing.
    pub fn interpret(&mut self, journey: JourneyId, translation: &Arc<Translation>) {
        self.speeches.entry(journey).or_insert_with(|| Speech::new(translation));
    }

    /// Tells a journey's speech the row, and plans what to do.
    fn plan(&mut self, row: &Row<'_>) -> Result<Plan, EngineError> {
        let &Row { journey, from, tokens, draws, .. } = row;
        let Some(speech) = self.speeches.get_mut(&journey) else { return Ok(Plan::Plain) };
        if tokens.is_empty() {
            return Err(EngineError::EmptyRow { journey });
        }
        if draws.len() > tokens.len() {
            return Err(EngineError::TooManyDraws { journey, draws: draws.len(), tokens: tokens.len() });
        }
        if from > speech.home().len() {
            return Err(EngineError::Gap { journey, from, held: speech.home().len() });
        }
        speech.tell(from, tokens, draws.len());
        let held = self.inner.held(journey).min(speech.fed);
        if draws.is_empty() {
            let end = speech.to_feed();
            return Ok(Plan::Feed(held.min(end)..end));
        }
        if let Some(token) = speech.certain() {
            return Ok(Plan::Certain(token));
        }
        let first = speech.within(first_length(speech, draws));
        let end = speech.own().len();
        Ok(Plan::Draw { feed: held.min(first - 1)..end, draws: end + 1 - first })
    }

    /// How each own draw of a row is adjusted, by home draw; and counts what penalties count.
    fn adjusts(&mut self, row: &Row<'_>, plan: &Plan) -> Vec<Option<OwnAdjust>> {
        let (Plan::Draw { .. }, Some(speech)) = (plan, self.speeches.get_mut(&row.journey)) else {
            return Vec::new();
        };
        if row.draws.iter().any(|draw| draw.adjust.is_some_and(|adjust| adjust.wishes.penalise())) {
            speech.count_to(speech.within(first_length(speech, row.draws)));
        }
        let lexicon = &speech.translation().lexicon;
        row.draws.iter().map(|draw| draw.adjust.map(|adjust| OwnAdjust::new(lexicon, &adjust))).collect()
    }

    /// The results of a row, from those of the engine's.
    fn translate(&mut self, row: &Row<'_>, plan: &Plan, own: &[Sampled]) -> Vec<Sampled> {
        let Some(speech) = self.speeches.get_mut(&row.journey) else { return own.to_vec() };
        match plan {
            Plan::Plain => Vec::new(),
            Plan::Feed(feed) => {
                speech.fed = feed.end;
                Vec::new()
            }
            Plan::Certain(token) => {
                let vocabulary = speech.translation().lexicon.home_size();
                vec![Sampled { scores: speech.scores.clone(), ..certain(*token, &row.draws[0], vocabulary) }]
            }
            Plan::Draw { feed, .. } => {
                speech.fed = feed.end;
                let first = first_length(speech, row.draws);
                let home = row.draws.iter().zip(first..);
                let mut drawn: Vec<Sampled> =
                    home.map(|(draw, length)| sampled_at(speech, (length, first), draw, own)).collect();
                if let (Some(last), Some(fresh)) = (drawn.last_mut(), own.last()) {
                    last.token = speech.draw(fresh.token);
                    speech.scores.clone_from(&fresh.scores);
                }
                drawn
            }
        }
    }
}

impl Engine for Interpreter {
    fn spec(&self) -> &ModelSpec {
        self.inner.spec()
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        if self.speeches.is_empty() {
            return self.inner.step(rows);
        }
        let plans = rows.iter().map(|row| self.plan(row)).collect::<Result<Vec<Plan>, _>>()?;
        let adjusts: Vec<_> = rows.iter().zip(&plans).map(|(row, plan)| self.adjusts(row, plan)).collect();
        let both = || rows.iter().zip(&plans);
        let draws: Vec<Vec<Draw<'_>>> = both()
            .zip(&adjusts)
            .map(|((row, plan), adjusts)| match (plan, self.speeches.get(&row.journey)) {
                (&Plan::Draw { draws, .. }, Some(speech)) => own_draws(speech, row, draws, adjusts),
                _ => Vec::new(),
            })
            .collect();
        let speeches = &self.speeches;
        let own_rows: Vec<Row<'_>> = both()
            .zip(&draws)
            .filter_map(|((row, plan), draws)| own_row(speeches, row, plan, draws))
            .collect();
        let sampled = if own_rows.is_empty() { Vec::new() } else { self.inner.step(&own_rows)? };
        let counts = both().zip(&draws).map(|((row, plan), draws)| match plan {
            Plan::Plain => row.draws.len(),
            _ => draws.len(),
        });
        let counts: Vec<usize> = counts.collect();
        let (mut results, mut left) = (Vec::with_capacity(sampled.len()), sampled.into_iter());
        for ((row, plan), count) in both().zip(counts) {
            match plan {
                Plan::Plain => results.extend(left.by_ref().take(count)),
                _ => {
                    let own: Vec<Sampled> = left.by_ref().take(count).collect();
                    results.extend(self.translate(row, plan, &own));
                }
            }
        }
        Ok(results)
    }

    fn release(&mut self, journey: JourneyId) {
        self.speeches.remove(&journey);
        self.inner.release(journey);
    }

    fn park(&mut self, journey: JourneyId) {
        self.inner.park(journey);
    }

    fn held(&self, journey: JourneyId) -> usize {
        let held = self.inner.held(journey);
        self.speeches.get(&journey).map_or(held, |speech| speech.held(held))
    }

    fn fork(&mut self, from: JourneyId, to: JourneyId) {
        match self.speeches.get(&from).cloned() {
            Some(speech) => self.speeches.insert(to, speech),
            None => self.speeches.remove(&to),
        };
        self.inner.fork(from, to);
    }

    fn share_cores(&mut self, cores: &Arc<Cores>) {
        self.inner.share_cores(cores);
    }

    fn attach(&mut self, heads: Vec<Head>) -> Result<(), EngineError> {
        self.inner.attach(heads)
    }

    fn kv(&self) -> KvUsage {
        self.inner.kv()
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}

/// How many home tokens stand before the first draw.
fn first_length(speech: &Speech, draws: &[Draw<'_>]) -> usize {
    speech.home().len() + 1 - draws.len()
}

/// The draws of a row after each of its last own tokens.
fn own_draws<'a>(
    speech: &'a Speech,
    row: &Row<'a>,
    count: usize,
    adjusts: &'a [Option<OwnAdjust>],
) -> Vec<Draw<'a>> {
    let (home, own) = (first_length(speech, row.draws), speech.own().len());
    let first = own + 1 - count;
    let draw = |length: usize| {
        let ix = speech.draw_at(home..home + row.draws.len(), length) - home;
        let drafted = &speech.own()[first..length];
        let adjust = adjusts[ix].as_ref().map(|adjust| adjust.at(speech.tally(), drafted));
        Draw {
            adjust,
            logprobs_of: &[],
            keep: row.draws[ix].keep || !row.draws[ix].logprobs_of.is_empty(),
            ..row.draws[ix]
        }
    };
    (first..=own).map(draw).collect()
}

/// A row in the model's tokens, if there is anything to feed.
fn own_row<'a>(
    speeches: &'a BTreeMap<JourneyId, Speech>,
    row: &Row<'a>,
    plan: &Plan,
    draws: &'a [Draw<'a>],
) -> Option<Row<'a>> {
    let feed = match plan {
        Plan::Plain => return Some(*row),
        Plan::Certain(_) => return None,
        Plan::Feed(feed) | Plan::Draw { feed, .. } => feed.clone(),
    };
    let own = speeches.get(&row.journey)?.own().get(feed.clone()).filter(|own| !own.is_empty())?;
    Some(Row { from: feed.start, tokens: own, draws, ..*row })
}
