//! scratch
use scheduler::study::*;
fn main() {
    for n in [2usize,4,8,16,32,64] { let t = std::time::Instant::now(); let c = reference_chain(n); println!("{n}: {:?} imm {:?} in {:?}", c.best(), c.tokens_per_s(&[1,1]), t.elapsed()); }
}
