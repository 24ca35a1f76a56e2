//! Stationary distributions of small chains.

/// The stationary distribution of a chain by the elimination of Grassmann, Taksar and Heyman, which never subtracts.
///
/// `flows[i][j]` is the probability of going from `i` to `j`. `last` must be a state to which the chain
/// returns; states that cannot be left are none, but for `last`. `O(states^3)`.
pub(super) fn stationary(flows: &[Vec<f64>], last: usize) -> Vec<f64> {
    let states = flows.len();
    let name = |state: usize| if state == last { 0 } else { state + usize::from(state < last) };
    let mut dense = vec![vec![0.0; states]; states];
    for (from, line) in flows.iter().enumerate() {
        for (to, chance) in line.iter().enumerate() {
            dense[name(from)][name(to)] = *chance;
        }
    }
    for gone in (1..states).rev() {
        let (kept, rest) = dense.split_at_mut(gone);
        let out = &rest[0][..gone];
        let leaving: f64 = out.iter().sum();
        for line in kept {
            let into = line[gone] / leaving;
            line[gone] = into;
            if into > 0.0 {
                line[..gone].iter_mut().zip(out).for_each(|(slot, chance)| *slot += into * chance);
            }
        }
    }
    let mut mass = vec![1.0; states];
    for state in 1..states {
        mass[state] = (0..state).map(|from| mass[from] * dense[from][state]).sum();
    }
    let total: f64 = mass.iter().sum();
    (0..states).map(|state| mass[name(state)] / total).collect()
}

#[cfg(test)]
mod tests {
    use super::stationary;

    /// 0 -> 1 always, 1 -> 0 or 2 by halves, 2 -> 1 always: half of the time in 1, a quarter in each other.
    #[test]
    fn a_chain_of_three_is_solved_whichever_state_is_last() {
        let flows = [vec![0.0, 1.0, 0.0], vec![0.5, 0.0, 0.5], vec![0.0, 1.0, 0.0]];
        for last in 0..3 {
            let share = stationary(&flows, last);
            for (got, expected) in share.iter().zip([0.25, 0.5, 0.25]) {
                assert!((got - expected).abs() < 1e-12, "{share:?}");
            }
        }
    }
}
