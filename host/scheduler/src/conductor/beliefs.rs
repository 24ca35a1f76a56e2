//! What a conductor believes of steps, routing and overlap, and how it learns it.

use super::settings::{MemberSettings, Settings, Source};
use crate::Member;
use crate::law::{Affine, Fit, FitError, Load, RowMix, StepLaw};
use crate::plan::Pair;
use crate::plan::turns::Turns;
use crate::traffic::Traffic;

/// Speeds of the models of a shared device while another one runs too.
///
/// Their sum is the overlap: 1 is plain time slicing, 2 as good as a device each. It is measured from steps of which more
/// than half was overlapped, against what the law says they take alone.
#[derive(Clone, Debug)]
pub struct Overlap {
    known: Option<f64>,
    beside: Vec<Beside>,
}

/// Decayed sums over the steps of a model that ran beside another.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    /// What of them would have been done alone, seconds.
    work_s: f64,
    overlapped_s: f64,
    steps: u32,
}

impl Overlap {
    fn new(known: Option<f64>, members: usize) -> Self {
        Self { known, beside: vec![Beside::default(); members] }
    }

    fn reseat(&mut self, before: &[Option<Member>]) {
        let beside = |at: &Option<Member>| at.map_or_else(Beside::default, |at| self.beside[at.0]);
        self.beside = before.iter().map(beside).collect();
    }

    fn observe(&mut self, member: Member, alone_s: f64, lasted_s: f64, overlapped_s: f64) {
        // A ratio of sums: single steps are too noisy for a mean of ratios.
        let beside = &mut self.beside[member.0];
        beside.work_s = beside.work_s * SPEED_KEEP + alone_s - (lasted_s - overlapped_s);
        beside.overlapped_s = beside.overlapped_s * SPEED_KEEP + overlapped_s;
        beside.steps += 1;
    }

    /// The sum of two models' speeds (`eta`), within 0.5 and 2; 1 before anything was measured.
    #[must_use]
    pub fn value(&self) -> f64 {
        if let Some(known) = self.known {
            return known;
        }
        if !self.is_measured() {
            return 1.0;
        }
        let speeds = self.beside.iter().map(|beside| (beside.work_s / beside.overlapped_s).clamp(0.0, 1.0));
        (2.0 * speeds.sum::<f64>() / self.beside.len() as f64).clamp(0.5, 2.0)
    }

    /// Whether every model was seen often enough beside another.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.known.is_some() || self.beside.iter().all(|beside| beside.steps >= PROBE_STEPS)
    }
}

/// Step laws, routing and overlap as believed now.
#[derive(Clone, Debug)]
pub struct Beliefs {
    fits: Vec<Fit>,
    traffic: Traffic,
    told: Option<(Vec<StepLaw>, Vec<Vec<f64>>)>,
    overlap: Overlap,
    /// Share of the latest visits whose length was known in advance, for each model.
    timed: Vec<f64>,
    /// Share of the latest draws whose token was kept.
    kept: f64,
    /// Seconds from a step of one model to one of another of the device, where one runs at a time.
    switch_s: f64,
}

impl Beliefs {
    pub(super) fn new(settings: &Settings) -> Self {
        let laws: Vec<StepLaw> = settings.members.iter().map(|member| member.law).collect();
        let told = match &settings.beliefs {
            Source::Told(shares) => Some((laws.clone(), shares.clone())),
            Source::Learnt => None,
        };
        Self {
            traffic: Traffic::with_window(laws.len(), settings.window_tokens),
            fits: laws.into_iter().map(Fit::new).collect(),
            told,
            overlap: Overlap::new(settings.overlap, settings.members.len()),
            timed: vec![1.0; settings.members.len()],
            kept: 1.0,
            switch_s: 0.0,
        }
    }

    /// Other models from now on: by each, which one it was before.
    pub(super) fn reseat(&mut self, before: &[Option<Member>], members: &[MemberSettings]) {
        let old = |list: &[f64], at: &Option<Member>, new: f64| at.map_or(new, |at| list[at.0]);
        if let Some((laws, shares)) = &mut self.told {
            *laws = members.iter().map(|member| member.law).collect();
            let line = |from: &Option<Member>| {
                let line = from.map(|from| &shares[from.0]);
                before.iter().map(|to| line.map_or(0.0, |line| old(line, to, 0.0))).collect()
            };
            *shares = before.iter().map(line).collect();
        }
        let fit = |(at, member): (&Option<Member>, &MemberSettings)| {
            at.map_or_else(|| Fit::new(member.law), |at| self.fits[at.0].clone())
        };
        self.fits = before.iter().zip(members).map(fit).collect();
        self.timed = before.iter().map(|at| old(&self.timed, at, 1.0)).collect();
        self.traffic.reseat(before);
        self.overlap.reseat(before);
    }

    /// Tells the routing anew, where it is told at all.
    pub(super) fn tell(&mut self, shares: Vec<Vec<f64>>) {
        if let Some(told) = &mut self.told {
            told.1 = shares;
        }
    }

    /// A step has ended after `lasted_s`, of which another step ran on the device for `overlapped_s`.
    pub(super) fn observe_step(&mut self, member: Member, load: Load, lasted_s: f64, overlapped_s: f64) {
        if overlapped_s < ALONE * lasted_s {
            self.fits[member.0].observe(load, lasted_s);
        } else if overlapped_s > MOSTLY * lasted_s {
            let alone_s = self.law(member).step_s(load);
            self.overlap.observe(member, alone_s, lasted_s, overlapped_s);
        }
    }

    pub(super) fn observe_routing(
        &mut self,
        from: Member,
        tokens: usize,
        to: impl IntoIterator<Item = Member>,
    ) {
        self.traffic.observe(from, tokens, to);
    }

    pub(super) fn observe_visit(&mut self, at: Member, is_timed: bool) {
        let timed = &mut self.timed[at.0];
        *timed += VISIT_WEIGHT * (f64::from(u8::from(is_timed)) - *timed);
    }

    pub(super) fn observe_kept(&mut self, drawn: usize, kept: usize) {
        if drawn > 0 {
            let weight = (drawn as f64 / crate::traffic::WINDOW_TOKENS).min(0.5);
            self.kept += weight * (kept as f64 / drawn as f64 - self.kept);
        }
    }

    /// One model of a device went on this long after another's step, with work there all the time.
    pub(super) fn observe_switch(&mut self, gap_s: f64) {
        if self.told.is_none() {
            // A thread that was kept from running for a while says nothing about the next time, and nobody goes on before the
            // step that it went on after.
            let gap_s = gap_s.max(0.0).min(OUTLIER * self.switch_s + LEAST_OUTLIER_S);
            self.switch_s += SWITCH_WEIGHT * (gap_s - self.switch_s);
        }
    }

    /// Seconds that a change of model costs where one runs at a time.
    #[must_use]
    pub fn switch_s(&self) -> f64 {
        self.switch_s
    }

    /// Whether most visits to a model are of a length known in advance.
    #[must_use]
    pub fn is_timed(&self, member: Member) -> bool {
        self.timed[member.0] > 0.5
    }

    /// Share of the draws whose token is kept; a proposal that is routed is not.
    #[must_use]
    pub fn kept(&self) -> f64 {
        self.kept
    }

    /// The step law of a model.
    #[must_use]
    pub fn law(&self, member: Member) -> StepLaw {
        self.told.as_ref().map_or_else(|| self.fits[member.0].law(), |told| told.0[member.0])
    }

    /// The step law over rows alone, for rows as they are on average.
    #[must_use]
    pub fn per_row(&self, member: Member) -> Affine {
        let mix = if self.told.is_some() { RowMix::default() } else { self.fits[member.0].mix() };
        self.law(member).per_row(mix).possible()
    }

    /// How well recent steps of a model were predicted.
    #[must_use]
    pub fn fit_error(&self, member: Member) -> Option<FitError> {
        self.fits[member.0].error()
    }

    /// Probability per token decoded at `from` that the journey then goes to `to`.
    #[must_use]
    pub fn share(&self, from: Member, to: Member) -> f64 {
        self.told.as_ref().map_or_else(|| self.traffic.share(from, to), |told| told.1[from.0][to.0])
    }

    /// Probability per token decoded at `from` that the journey then leaves.
    #[must_use]
    pub fn leaving(&self, from: Member) -> f64 {
        (0..self.len()).map(|to| self.share(from, Member(to))).sum::<f64>().min(1.0)
    }

    /// Overlap of the models of a shared device.
    #[must_use]
    pub fn overlap(&self) -> &Overlap {
        &self.overlap
    }

    /// Whether everything that a plan needs was seen.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.told.is_some()
            || (self.traffic.is_known(self.feeder())
                && self.fits.iter().filter(|fit| fit.is_settled()).count() > 1)
    }

    /// Whether the step laws of all models are known well enough to judge by them what overlap costs.
    pub(super) fn are_laws_known(&self) -> bool {
        self.told.is_some() || self.fits.iter().all(|fit| fit.steps() >= LAW_STEPS)
    }

    /// Number of models.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fits.len()
    }

    /// Whether there are no models.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fits.is_empty()
    }

    /// The model whose steps cost least on their own: the one that is worth repeating so that others share theirs.
    #[must_use]
    pub fn feeder(&self) -> Member {
        let cost = |member: &usize| self.law(Member(*member)).fixed_s;
        Member((0..self.len()).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0))
    }

    /// The feeder and another model as the formulas see them: how many visits there are for each token of the feeder,
    /// whatever way they take, and how long a visit is.
    #[must_use]
    pub fn pair(&self, feeder: Member, large: Member, journeys: usize) -> Pair {
        let rates = self.row_rates();
        let visits: f64 = (0..self.len())
            .filter(|from| *from != large.0)
            .map(|from| rates[from] * self.share(Member(from), large))
            .sum();
        Pair {
            journeys: journeys as f64,
            share: visits / rates[feeder.0].max(1e-9),
            visit_tokens: 1.0 / self.leaving(large).max(1e-9),
            small: self.per_row(feeder),
            large: self.per_row(large),
        }
    }

    /// The rule for turns among all models.
    #[must_use]
    pub fn turns(&self) -> Turns {
        let members = || (0..self.len()).map(Member);
        let laws: Vec<Affine> = members().map(|member| self.per_row(member)).collect();
        // A visit of known length is one burst, after which everybody leaves.
        let leaving = members().map(|member| match self.is_timed(member) && member != self.feeder() {
            true => 1.0,
            false => self.leaving(member),
        });
        Turns::new(&laws, self.row_rates(), leaving.collect())
    }

    /// Probabilities per token from each model to each.
    #[must_use]
    pub fn shares(&self) -> Vec<Vec<f64>> {
        let line = |from| (0..self.len()).map(|to| self.share(Member(from), Member(to))).collect();
        (0..self.len()).map(line).collect()
    }

    /// The share of all row-steps that each model does: the stationary distribution of one journey over models.
    #[must_use]
    pub fn row_rates(&self) -> Vec<f64> {
        let models = self.len();
        let mut rates = vec![1.0 / models as f64; models];
        for _ in 0..RATE_TURNS {
            let mut next = vec![0.0; models];
            for (from, rate) in rates.iter().enumerate() {
                // Rates at which probability flows do not depend on how long it stays, so stays are cut short: the
                // iteration then mixes quickly, and the stays come in at the end.
                let leaving = self.leaving(Member(from)).max(1e-9);
                next[from] += 0.5 * rate;
                for (to, next) in next.iter_mut().enumerate() {
                    *next += 0.5 * rate * self.share(Member(from), Member(to)) / leaving;
                }
            }
            rates = next;
        }
        for (member, rate) in rates.iter_mut().enumerate() {
            *rate /= self.leaving(Member(member)).max(1e-9);
        }
        let total: f64 = rates.iter().sum();
        rates.into_iter().map(|rate| rate / total.max(1e-300)).collect()
    }
}

/// Overlapped share of a step up to which it counts as run alone.
const ALONE: f64 = 0.02;
/// Overlapped share of a step from which on it tells the speed beside another.
const MOSTLY: f64 = 0.5;
const SWITCH_WEIGHT: f64 = 0.02;
/// How many times the mean, and how much more, a gap counts at most.
const OUTLIER: f64 = 4.0;
const LEAST_OUTLIER_S: f64 = 50e-6;
const VISIT_WEIGHT: f64 = 0.05;
/// Steps alone that a law is learnt from before overlap is judged by it.
const LAW_STEPS: u64 = 24;
const SPEED_KEEP: f64 = 0.97;
/// Overlapped steps of each model that a measurement takes.
const PROBE_STEPS: u32 = 12;
const RATE_TURNS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_model_never_takes_less_than_no_time() {
        let mut beliefs = Beliefs::new(&Settings::learning(Vec::new()));
        for at in 0..1000 {
            beliefs.observe_switch(if at % 3 == 0 { 20e-6 } else { -30e-6 });
            assert!((0.0..20e-6).contains(&beliefs.switch_s()), "{}", beliefs.switch_s());
        }
    }
}
