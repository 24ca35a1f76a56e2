//! Prints the golden cells of claim C2.
use scheduler::conductor::{Mode, Thresholds};
use scheduler::law::Affine;
use scheduler::plan::{Order, Pair};
use scheduler::simulate::{Scenario, run};

fn main() {
    for (shared, n, p, k, ac, r) in [(true, 2., 0.2, 1., 200., 5.), (true, 8., 0.05, 1., 200., 10.), (true, 64., 0.05, 1., 200., 10.), (true, 64., 0.05, 4., 200., 10.), (true, 32., 0.2, 1., 32., 5.), (true, 16., 0.1, 1., 4., 10.), (true, 256., 0.02, 1., 32., 20.),
        (false, 8., 0.05, 1., 200., 10.), (false, 64., 0.05, 1., 200., 10.), (false, 8., 0.4, 1., 200., 5.), (false, 16., 0.4, 1., 200., 2.), (false, 64., 0.4, 1., 200., 20.), (false, 32., 0.2, 1., 200., 20.), (false, 32., 0.4, 4., 200., 20.), (false, 32., 0.4, 1., 0.5, 10.)] {
        let pair = Pair { journeys: n, share: p, visit_tokens: k, small: Affine { fixed_s: 1.0, row_s: 1.0 / ac }, large: Affine { fixed_s: r, row_s: r / ac } };
        let mut s = Scenario::pair(&pair, shared);
        s.tokens = 600_000;
        let t = std::time::Instant::now();
        let ours = run(&s, Mode::Ours);
        let el = t.elapsed();
        let order = if shared { Order::Exclusive } else { Order::Parallel };
        let ana = run(&s, Mode::FixedB(Thresholds::without_timers(ours.batch.clone(), order)));
        println!("{shared} {n} {p} {k} {ac} {r}: B {:?} pred {:?} | lock {:.3} imm {:.3} ana {:.3} ours {:.3} | model-sync {:.3} stuck {} {:?}", ours.batch, ours.predicted_tokens_per_s, run(&s, Mode::StepSync).tokens_per_s, run(&s, Mode::EagerAsync).tokens_per_s, ana.tokens_per_s, ours.tokens_per_s, run(&s, Mode::ModelSync).tokens_per_s, ours.is_stuck, el);
    }
}
