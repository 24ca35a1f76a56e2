//! One tour round the models: what is drawn at each, and what has been answered so far.

use std::ops::Range;
use std::sync::Arc;

use super::drafting::Drafting;
use crate::decision::Mixture;
use crate::distribution::Distribution;
use crate::ids::Role;
use crate::journey::Journey;
use crate::question::{Answer, Ask, Found, Judgement};
use crate::step::{Draw, Sampled};

/// A tour.
#[derive(Debug)]
pub(in crate::journey) struct Errand {
    pub(super) job: Job,
    pub(super) home: Role,
    /// The journey's `run` at home.
    pub(super) run: u32,
    /// Models that have not answered; the first is where the journey is or goes.
    pub(super) tour: Vec<Role>,
    /// Length of `history` that the suffix follows.
    pub(super) base: usize,
    /// What follows S, or S and the offer, for the question only.
    pub(super) suffix: Vec<u32>,
    /// Whether a text of the policy is part of that.
    pub(super) has_side: bool,
    pub(super) answers: Vec<Answer>,
    pub(super) distributions: Vec<(Role, Arc<Distribution>)>,
    judged: Vec<Judgement>,
    drafting: Drafting,
}

/// What the tour is for.
#[derive(Debug)]
pub(super) enum Job {
    /// Answers. `named`: the tokens whose log-probabilities are wanted.
    Ask { ask: Ask, named: Vec<u32> },
    /// Distributions.
    Mix(Mixture),
}

/// What follows from a token drawn on a tour.
pub(super) enum Progress {
    /// Another draw of the same row is to come.
    More,
    /// The model goes on.
    Decode,
    /// The model has answered.
    Answered,
}

impl Errand {
    pub(super) fn new(
        job: Job,
        (home, run): (Role, u32),
        tour: Vec<Role>,
        (base, suffix): (usize, Vec<u32>),
    ) -> Self {
        let (answers, distributions, judged) = (Vec::new(), Vec::new(), Vec::new());
        let drafting = Drafting::default();
        let has_side = false;
        Self { job, home, run, tour, base, suffix, has_side, answers, distributions, judged, drafting }
    }

    /// Tokens that are left for certain at this model.
    pub(in crate::journey) fn left(&self) -> Option<u32> {
        let drafts = matches!(self.job, Job::Ask { ask: Ask::Drafts(_), .. });
        (!drafts && !self.tour.is_empty()).then_some(1)
    }

    /// Whether what is drawn must follow the answer's grammar: drafts do, which may become part of it. After a text of the
    /// policy they cannot.
    pub(in crate::journey) fn follows_grammar(&self) -> bool {
        matches!(self.job, Job::Ask { ask: Ask::Drafts(_), .. }) && !self.has_side && !self.tour.is_empty()
    }

    /// The positions after which is drawn, in a history of so many tokens.
    pub(in crate::journey) fn wanted(&self, length: usize) -> Range<usize> {
        match &self.job {
            // A token is judged by what is drawn before it. The prompt is not the policy's to judge, and has a token.
            Job::Ask { ask: Ask::Last(count), .. } if !self.tour.is_empty() => {
                let left = (*count).min(length - 1) - self.judged.len();
                length - 1 - left..length - 1
            }
            _ => length - 1..length,
        }
    }

    /// The draw after a position of [`Self::wanted`]; `draw` is the journey's own.
    pub(in crate::journey) fn draw<'a>(
        &'a self,
        draw: Draw<'a>,
        position: usize,
        journey: &'a Journey,
    ) -> Draw<'a> {
        // What is asked is what the model itself says, whatever the request changes in its logits. Only drafts are chosen
        // as the answer's tokens are.
        let chosen = Draw { candidates: 0, keep: false, scores: false, ..draw };
        let plain = Draw { adjust: None, ..chosen };
        match &self.job {
            Job::Mix(_) => Draw { keep: true, ..plain },
            Job::Ask { ask, named } => match ask {
                Ask::Candidates(count) => Draw { candidates: *count, ..plain },
                Ask::Last(_) => {
                    let logprobs_of = &journey.history.tokens()[position + 1..position + 2];
                    Draw { candidates: 1, logprobs_of, ..plain }
                }
                Ask::Tokens(_) | Ask::Texts(_) => Draw { logprobs_of: named, ..plain },
                Ask::Scores => Draw { scores: true, ..plain },
                Ask::Drafts(wish) => self.drafting.draw(wish, chosen, (journey.request.seed, position)),
            },
        }
    }

    /// Takes what was drawn.
    pub(super) fn hear(&mut self, sampled: Sampled, journey: &mut Journey) -> Progress {
        let follows_grammar = self.follows_grammar();
        let found = match &self.job {
            Job::Mix(_) => {
                let Some(&role) = self.tour.first() else { return Progress::Answered };
                self.distributions.extend(sampled.kept.map(|kept| (role, kept)));
                return Progress::Answered;
            }
            Job::Ask { ask, .. } => match ask {
                Ask::Candidates(_) => Found::Candidates(sampled.candidates),
                Ask::Tokens(_) | Ask::Texts(_) => Found::Logprobs(sampled.logprobs),
                Ask::Scores => Found::Scores(sampled.scores),
                Ask::Last(_) => {
                    let wanted = self.wanted(journey.length());
                    let token = journey.history.tokens()[wanted.start + 1];
                    self.judged.push(judgement(token, &sampled));
                    if wanted.len() > 1 {
                        return Progress::More;
                    }
                    Found::Last(std::mem::take(&mut self.judged))
                }
                Ask::Drafts(wish) => match self.drafting.take(wish, (&sampled, follows_grammar), journey) {
                    Some(drafts) => Found::Drafts(drafts),
                    None => return Progress::Decode,
                },
            },
        };
        let role = self.tour.first().copied().unwrap_or(self.home);
        self.answers.push(Answer { role, found });
        Progress::Answered
    }
}

fn judgement(token: u32, sampled: &Sampled) -> Judgement {
    Judgement {
        token,
        logprob: sampled.logprobs.first().copied().unwrap_or(f32::NEG_INFINITY),
        entropy: sampled.signals.entropy,
        top1: sampled.signals.top1,
        best: sampled.candidates.first().map_or(sampled.token, |best| best.token),
    }
}
