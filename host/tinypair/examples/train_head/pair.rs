//! The embedded pair on the engine, fed by whole texts.
//!
//! Separate from labelling and routing, which both only say which texts they want tokens after. What a model has seen
//! of a text already is found by comparing, so going back or following another path costs only what differs. Greedy
//! throughout: the same texts give the same tokens in any batch.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use engine::{ChatMessage, CpuEngine, Engine as _, LoadOptions, ModelFiles, Row, Tokenizer};
use journey::{Draw, JourneyId, Sampled};
use tinypair::models::{self, EmbeddedModel};
use tinypair::problems::Problem;

/// Both models and the tokenizer they share.
pub(crate) struct Pair {
    /// The model that decodes; heads are attached to it.
    pub(crate) small: Model,
    /// The model that flagged tokens are handed to.
    pub(crate) large: Model,
    tokenizer: Arc<Tokenizer>,
    /// The token that ends an answer.
    end: u32,
}

impl Pair {
    /// Loads the embedded pair.
    pub(crate) fn load(threads: usize) -> Result<Self> {
        let (small, tokenizer) = Model::load(models::SMALL, threads)?;
        let (large, _) = Model::load(models::LARGE, threads)?;
        let end = *small.engine.spec().eos.first().context("the small model ends no answer")?;
        Ok(Self { small, large, tokenizer, end })
    }

    /// Empties every lane and gives the prompts of `problems`, one for each lane.
    pub(crate) fn begin(&mut self, problems: &[Problem]) -> Result<Vec<Text>> {
        self.small.restart(problems.len());
        self.large.restart(problems.len());
        let prompt = |problem: &Problem| {
            let (role, content) = ("user".to_owned(), problem.question.clone());
            let tokens = self.tokenizer.encode_chat(&[ChatMessage { role, content }])?;
            Ok(Text { prompt: tokens.len(), tokens })
        };
        problems.iter().map(prompt).collect()
    }

    /// Whether an answer is over.
    pub(crate) fn is_over(&self, text: &Text) -> bool {
        let ended = text.tokens.len() > text.prompt && text.tokens.last() == Some(&self.end);
        ended || text.tokens.len() >= POSITIONS
    }

    /// Whether an answer is right.
    pub(crate) fn is_right(&self, text: &Text, problem: &Problem) -> bool {
        problem.is_solved_by(&self.tokenizer.decode(&text.tokens[text.prompt..]))
    }

    /// Lets the large model finish `texts`, each in the lane it names.
    pub(crate) fn finish(&mut self, texts: &mut [(usize, Text)]) -> Result<()> {
        loop {
            let going: Vec<usize> = (0..texts.len()).filter(|&at| !self.is_over(&texts[at].1)).collect();
            if going.is_empty() {
                return Ok(());
            }
            let ask = |&at: &usize| Ask { lane: texts[at].0, text: &texts[at].1.tokens, draws: 1 };
            let asks: Vec<Ask<'_>> = going.iter().map(ask).collect();
            let sampled = self.large.step(&asks)?;
            for (at, sampled) in going.into_iter().zip(sampled) {
                texts[at].1.tokens.push(sampled.token);
            }
        }
    }
}

/// A prompt and as much of an answer as there is.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Prompt and answer.
    pub(crate) tokens: Vec<u32>,
}

/// What is wanted of a model: the tokens it would choose after each of the last `draws` tokens of `text`.
pub(crate) struct Ask<'a> {
    /// The problem it belongs to; at most once in a step.
    pub(crate) lane: usize,
    /// The whole text.
    pub(crate) text: &'a [u32],
    /// At least 1.
    pub(crate) draws: usize,
}

/// One model with what it has seen of every lane's text.
pub(crate) struct Model {
    /// The model.
    pub(crate) engine: CpuEngine,
    lanes: Vec<Lane>,
    /// The journeys of later lanes have higher numbers.
    journeys: u64,
}

/// A sequence in the engine.
struct Lane {
    journey: JourneyId,
    fed: Vec<u32>,
}

impl Model {
    fn load(model: EmbeddedModel, threads: usize) -> Result<(Self, Arc<Tokenizer>)> {
        let files = ModelFiles::Embedded { name: model.name, files: model.files };
        let options = LoadOptions { threads, share_prefixes: false, ..LoadOptions::default() };
        let loaded = engine::load(model.name, &files, options, &mut |_| ())?;
        Ok((Self { engine: loaded.engine, lanes: Vec::new(), journeys: 0 }, loaded.tokenizer))
    }

    fn restart(&mut self, lanes: usize) {
        for lane in self.lanes.drain(..) {
            self.engine.release(lane.journey);
        }
        for _ in 0..lanes {
            self.journeys += 1;
            self.lanes.push(Lane { journey: JourneyId(self.journeys), fed: Vec::new() });
        }
    }

    /// Feeds what is new of every text and samples; the draws of an ask in order, asks in order.
    pub(crate) fn step(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Sampled>> {
        let most = asks.iter().map(|ask| ask.draws).max().unwrap_or(0);
        let draws = vec![Draw { scores: true, ..Draw::GREEDY }; most];
        let row = |ask: &Ask<'_>| {
            let Lane { journey, fed } = &self.lanes[ask.lane];
            let known = fed.iter().zip(ask.text).take_while(|(a, b)| a == b).count();
            let from = known.min(ask.text.len() - ask.draws);
            (*journey, from)
        };
        let places: Vec<(JourneyId, usize)> = asks.iter().map(row).collect();
        let rows = asks.iter().zip(&places).map(|(ask, &(journey, from))| {
            let (tokens, draws) = (&ask.text[from..], &draws[..ask.draws]);
            Row { journey, salt: 0, from, tokens, draws }
        });
        let sampled = self.engine.step(&rows.collect::<Vec<_>>())?;
        for (ask, (_, from)) in asks.iter().zip(places) {
            let fed = &mut self.lanes[ask.lane].fed;
            fed.truncate(from);
            fed.extend(&ask.text[from..]);
        }
        Ok(sampled)
    }
}

/// Problems that are worked on together.
pub(crate) const LANES: usize = 128;
/// Longest prompt and answer together.
const POSITIONS: usize = 512;
