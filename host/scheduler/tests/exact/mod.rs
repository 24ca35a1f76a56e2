//! The exact optimum of taking turns on one device: every state, every choice, by value iteration.

/// Models with fixed step times between which journeys pass by chance; every row gives a token.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// Seconds of a step of each model.
    pub(crate) fixed_s: Vec<f64>,
    /// `routes[i][j]`: probability that a journey leaves `i` for `j` after a step.
    pub(crate) routes: Vec<Vec<f64>>,
    /// Journeys.
    pub(crate) journeys: usize,
}

/// Most tokens per second that any rule can reach which runs one model at a time and knows the state.
pub(crate) fn optimum(instance: &Instance) -> f64 {
    best_among(instance, |_, _| true)
}

/// Tokens per second of a rule that says whose turn it is.
pub(crate) fn of_rule(instance: &Instance, rule: impl Fn(&[usize]) -> usize) -> f64 {
    best_among(instance, |state, model| rule(state) == model)
}

fn best_among(instance: &Instance, allowed: impl Fn(&[usize], usize) -> bool) -> f64 {
    let states = placements(instance.journeys, instance.fixed_s.len());
    let name = |state: &Vec<usize>| states.binary_search(state).expect("every placement is listed");
    let shortest_s = instance.fixed_s.iter().copied().fold(f64::INFINITY, f64::min);
    let choices: Vec<Vec<Choice>> = states
        .iter()
        .map(|state| {
            let models = (0..state.len()).filter(|model| state[*model] > 0 && allowed(state, *model));
            models
                .map(|model| {
                    let to = followers(instance, state, model);
                    let seconds = instance.fixed_s[model];
                    Choice {
                        rate: state[model] as f64 / seconds,
                        turn: 0.9 * shortest_s / seconds,
                        to: to.into_iter().map(|(next, p)| (name(&next), p)).collect(),
                    }
                })
                .collect()
        })
        .collect();
    let mut value = vec![0.0; states.len()];
    for _ in 0..200_000 {
        let next: Vec<f64> = choices
            .iter()
            .zip(&value)
            .map(|(choices, here)| {
                let of = |choice: &Choice| {
                    let then: f64 = choice.to.iter().map(|(state, p)| p * value[*state]).sum();
                    choice.rate + choice.turn * then + (1.0 - choice.turn) * here
                };
                choices.iter().map(of).fold(f64::NEG_INFINITY, f64::max)
            })
            .collect();
        let gains = || next.iter().zip(&value).map(|(next, value)| next - value);
        let (least, most) =
            (gains().fold(f64::INFINITY, f64::min), gains().fold(f64::NEG_INFINITY, f64::max));
        if most - least < 1e-6 * most {
            return 0.5 * (least + most);
        }
        let base = next[0];
        value = next.into_iter().map(|v| v - base).collect();
    }
    panic!("value iteration did not converge");
}

/// A model that can run in a state.
struct Choice {
    /// Tokens per second while it runs.
    rate: f64,
    /// Its share of a turn: turns are made equally long, so that a long step ends in one of them with this chance.
    turn: f64,
    /// What follows.
    to: Vec<(usize, f64)>,
}

/// Every way to place so many journeys at so many models, in order.
fn placements(journeys: usize, models: usize) -> Vec<Vec<usize>> {
    if models == 1 {
        return vec![vec![journeys]];
    }
    (0..=journeys)
        .flat_map(|here| {
            placements(journeys - here, models - 1).into_iter().map(move |rest| [vec![here], rest].concat())
        })
        .collect()
}

/// Where the journeys may be after a step of this model.
fn followers(instance: &Instance, state: &[usize], model: usize) -> Vec<(Vec<usize>, f64)> {
    let mut rest = state.to_vec();
    let rows = std::mem::take(&mut rest[model]);
    let mut chances = instance.routes[model].clone();
    chances[model] =
        1.0 - chances.iter().enumerate().filter(|(to, _)| *to != model).map(|(_, p)| p).sum::<f64>();
    let mut all = std::collections::BTreeMap::from([(rest, 1.0)]);
    for _ in 0..rows {
        let mut next = std::collections::BTreeMap::new();
        for (state, p) in all {
            for (to, chance) in chances.iter().enumerate() {
                let mut state: Vec<usize> = state.clone();
                state[to] += 1;
                *next.entry(state).or_insert(0.0) += p * chance;
            }
        }
        all = next;
    }
    all.into_iter().filter(|(_, p)| *p > 1e-14).collect()
}
