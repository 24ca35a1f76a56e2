//! Least squares in four unknowns that may not be negative.

/// A system `gram * x = moment` in four unknowns; `gram` is symmetric and positive definite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normal {
    pub(super) gram: [[f64; 4]; 4],
    pub(super) moment: [f64; 4],
}

impl Normal {
    /// The minimiser of `x' gram x / 2 - moment' x` over `x >= 0`.
    ///
    /// Of the sixteen sets of unknowns that may be positive one satisfies the conditions of optimality; the search goes
    /// over all of them, as sixteen small systems are quicker than anything cleverer.
    pub(super) fn not_negative(&self) -> [f64; 4] {
        let mut best = ([0.0; 4], 0.0);
        for active in 1u8..16 {
            let Some(x) = self.among(active) else { continue };
            let value = self.value(&x);
            if x.iter().all(|v| *v >= 0.0) && value < best.1 {
                best = (x, value);
            }
        }
        best.0
    }

    fn value(&self, x: &[f64; 4]) -> f64 {
        let square: f64 = (0..4).map(|i| x[i] * super::dot(&self.gram[i], x)).sum();
        0.5 * square - super::dot(&self.moment, x)
    }

    /// The unconstrained solution with every unknown outside the set at zero; `None` where the system is singular.
    fn among(&self, active: u8) -> Option<[f64; 4]> {
        let on = |i: usize| active & (1 << i) != 0;
        let mut lower = [[0.0; 4]; 4];
        for i in (0..4).filter(|i| on(*i)) {
            for j in (0..=i).filter(|j| on(*j)) {
                let known: f64 = (0..j).map(|l| lower[i][l] * lower[j][l]).sum();
                let rest = self.gram[i][j] - known;
                if i == j {
                    if rest <= 1e-13 * self.gram[i][i] {
                        return None;
                    }
                    lower[i][i] = rest.sqrt();
                } else {
                    lower[i][j] = rest / lower[j][j];
                }
            }
        }
        let mut x = [0.0; 4];
        for i in (0..4).filter(|i| on(*i)) {
            let known: f64 = (0..i).map(|l| lower[i][l] * x[l]).sum();
            x[i] = (self.moment[i] - known) / lower[i][i];
        }
        for i in (0..4).rev().filter(|i| on(*i)) {
            let known: f64 = (i + 1..4).map(|l| lower[l][i] * x[l]).sum();
            x[i] = (x[i] - known) / lower[i][i];
        }
        Some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gram = diag(2, 3, 1, 1) with a coupling of 1 between the first two; moment = gram * (1, 2, 0, 4).
    #[test]
    fn a_positive_solution_is_found_exactly() {
        let mut gram = [[0.0; 4]; 4];
        for (i, value) in [2.0, 3.0, 1.0, 1.0].into_iter().enumerate() {
            gram[i][i] = value;
        }
        (gram[0][1], gram[1][0]) = (1.0, 1.0);
        let x = Normal { gram, moment: [4.0, 7.0, 0.0, 4.0] }.not_negative();
        for (got, expected) in x.iter().zip([1.0, 2.0, 0.0, 4.0]) {
            assert!((got - expected).abs() < 1e-12, "{x:?}");
        }
    }

    /// Minimise x^2 + y^2 + xy - x + y: free minimum (1, -1), with y = 0 it is x = 1/2.
    #[test]
    fn what_would_be_negative_is_zero_and_the_others_make_up_for_it() {
        let mut gram = [[0.0; 4]; 4];
        for (i, row) in gram.iter_mut().enumerate() {
            row[i] = 2.0;
        }
        (gram[0][1], gram[1][0]) = (1.0, 1.0);
        let x = Normal { gram, moment: [1.0, -1.0, -3.0, 0.0] }.not_negative();
        assert!((x[0] - 0.5).abs() < 1e-12 && x[1..].iter().all(|v| *v == 0.0), "{x:?}");
    }
}
