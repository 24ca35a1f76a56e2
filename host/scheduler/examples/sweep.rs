//! The full grid of the scheduling study as comma-separated values: `sweep shared|separate VISIT_TOKENS [PART OF]`.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use scheduler::study::{Grid, compare};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |at: usize, default: &str| arguments.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let number = |at: usize, default: &str| text(at, default).parse::<usize>().expect("a number");
    let grid = Grid::full(text(1, "shared") == "shared", number(2, "1") as u32);
    println!(
        "a/c,R,p,k,N,y,load,compute_bound,ours,eager,step_sync,model_sync,paper,oracle,batch,oracle_batch,predicted"
    );
    for pair in grid.cells().iter().skip(number(3, "0")).step_by(number(4, "1")) {
        let cell = compare(&grid, pair);
        let ac = pair.small.fixed_s / pair.small.row_s;
        println!(
            "{ac:.1},{:.0},{},{},{},{:.3},{:?},{},{:.5},{:.5},{:.5},{:.5},{:.5},{:.5},{},{},{:.5}",
            pair.large.step_s(1.0),
            pair.share,
            pair.visit_tokens,
            pair.journeys,
            pair.ratio(),
            cell.regime.load,
            cell.regime.is_compute_bound,
            cell.ours.tokens_per_s,
            cell.eager,
            cell.step_sync,
            cell.model_sync,
            cell.paper.unwrap_or(0.0),
            cell.oracle.unwrap_or(0.0),
            cell.ours.batch.get(1).copied().unwrap_or(1),
            cell.oracle_batch.unwrap_or(0),
            cell.ours.predicted_tokens_per_s.unwrap_or(0.0),
        );
    }
}
