//! scratch
use scheduler::study::*;
fn main() {
    for n in [2usize,4,8,12,16] { let t = std::time::Instant::now(); let r = reference(&[n]); let b = r.iter().find(|r| r.is_best).unwrap(); let c = reference_chain(n).tokens_per_s(&[1, b.batch]).unwrap(); println!("{n}: {b:?} states {} in {:?}", c.states, t.elapsed()); }
    let g = Grid::full(false, 1); for pair in g.cells().iter().step_by(45) { let t = std::time::Instant::now(); let c = compare(&g, pair); println!("{:?} ours {:.3} eager {:.3} paper {:?} oracle {:?} {:?}", pair, c.ours.tokens_per_s, c.eager, c.paper, c.oracle, t.elapsed()); }
}
