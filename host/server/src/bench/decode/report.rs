//! What was measured, as numbers and as tables.

use std::time::Duration;

use engine::{KvType, ModelSpec};

use super::bounds::{self, Work};
use super::rounds::Times;
use super::{Bound, Machine, Plan};
use crate::terminal::{Align, Table};

/// One batch.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Sequences decoded at once.
    pub batch: usize,
    /// Of feeding all prompts.
    pub prefill: Speed,
    /// Of the steps after that.
    pub decode: Speed,
    /// Share of the decode time outside matrix products and attention, if the engine tells.
    pub elsewhere: Option<f64>,
}

/// Tokens per second over the batch.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Of the fastest round.
    pub best: f64,
    /// Of the middle one.
    pub median: f64,
    /// What the machine allows.
    pub bound: Bound,
}

impl Speed {
    fn of(tokens: usize, mut times: Vec<Duration>, bound: Bound) -> Self {
        times.sort_unstable();
        let speed = |time: Option<&Duration>| {
            time.map_or(0.0, |time| tokens as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
        };
        // Of an even number of rounds the slower of the two in the middle.
        Self { best: speed(times.first()), median: speed(times.get(times.len() / 2)), bound }
    }

    fn share(&self) -> f64 {
        self.best / self.bound.tokens_per_s
    }
}

/// Everything measured in one run.
#[derive(Clone, Debug)]
pub struct Report {
    spec: ModelSpec,
    plan: Plan,
    machine: Machine,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(spec: &ModelSpec, plan: &Plan, machine: Machine) -> Self {
        Self { spec: spec.clone(), plan: plan.clone(), machine, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, batch: usize, times: &[Times]) {
        let (spec, plan, machine) = (&self.spec, &self.plan, &self.machine);
        let prefill = Work::prefill(spec, batch, plan.prompt).bound(spec, machine);
        // The sequences grow by a token per step; their mean length stands for all steps.
        let decode = Work::decode(spec, batch, plan.prompt + plan.tokens / 2).bound(spec, machine);
        let each = |time: fn(&Times) -> Duration| times.iter().map(time).collect();
        let elsewhere: Vec<f64> = times.iter().filter_map(|times| times.elsewhere).collect();
        self.rows.push(Row {
            batch,
            prefill: Speed::of(batch * plan.prompt, each(|times| times.prefill), prefill),
            decode: Speed::of(batch * plan.tokens, each(|times| times.decode), decode),
            elsewhere: elsewhere.into_iter().reduce(f64::min),
        });
    }

    /// One row per batch.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The model and what it was asked for, on one line.
    #[must_use]
    pub fn title(&self) -> String {
        let Plan { prompt, tokens, rounds, threads, .. } = self.plan;
        let (name, dtype) = (&self.spec.name, self.spec.dtype);
        format!(
            "{name} ({dtype}): {prompt} tokens fed, {tokens} decoded, {threads} threads, best of {rounds}"
        )
    }

    /// The numbers, for programs. Speeds are tokens per second over the batch, shares are fractions of 1.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "model": self.spec.name,
            "threads": self.plan.threads,
            "prompt": self.plan.prompt,
            "tokens": self.plan.tokens,
            "rounds": self.plan.rounds,
            "rows": self.rows.iter().map(Self::json_row).collect::<Vec<_>>(),
            "bounds": self.json_bounds(),
        })
    }

    fn json_row(row: &Row) -> serde_json::Value {
        let Row { batch, prefill, decode, elsewhere } = row;
        serde_json::json!({
            "batch": batch,
            "prefill_tokens_per_s": prefill.best,
            "prefill_tokens_per_s_median": prefill.median,
            "prefill_bound": prefill.bound,
            "prefill_share_of_bound": prefill.share(),
            "decode_tokens_per_s": decode.best,
            "decode_tokens_per_s_median": decode.median,
            "decode_bound": decode.bound,
            "decode_share_of_bound": decode.share(),
            "decode_share_elsewhere": elsewhere,
        })
    }

    fn json_bounds(&self) -> serde_json::Value {
        let Machine { weights_bytes, memory_bytes, peaks, .. } = self.machine;
        serde_json::json!({
            "weights_bytes": weights_bytes,
            "weights_read_gb_per_s": self.machine.weights_read_gb_per_s,
            "memory_bytes": memory_bytes,
            "memory_read_gb_per_s": self.machine.memory_read_gb_per_s,
            "int8_gmac_per_s": peaks.int8_gmac_per_s,
            "f32_gmac_per_s": peaks.f32_gmac_per_s,
            "instructions": peaks.instructions,
            "weight_bytes_per_step": bounds::weight_bytes(&self.spec),
            "kv_bytes_per_position": self.spec.kv_bytes_per_token(KvType::Auto),
            "multiply_adds_per_token": bounds::multiply_adds(&self.spec),
        })
    }

    /// The speeds, for people.
    #[must_use]
    pub fn speeds(&self) -> Table {
        let mut table = Table::new(&[Align::Right; 9]);
        let (batch, median, share) = (&"batch", &"median", &"of bound");
        table.row([batch, &"prefill/s", median, share, &"decode/s", median, share, &"step", &"bound by"]);
        for Row { batch, prefill, decode, elsewhere: _ } in &self.rows {
            let step = format!("{:.2} ms", 1e3 * *batch as f64 / decode.best.max(f64::MIN_POSITIVE));
            let [prefill_best, prefill_median, prefill_share] = cells(prefill);
            let [best, median, share] = cells(decode);
            table.row([
                batch,
                &prefill_best,
                &prefill_median,
                &prefill_share,
                &best,
                &median,
                &share,
                &step,
                &decode.bound.by,
            ]);
        }
        table
    }

    /// What the bounds are made of, for people.
    #[must_use]
    pub fn bounds(&self) -> Table {
        let Machine { weights_bytes, memory_bytes, peaks, .. } = self.machine;
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        let read = |bytes: u64| format!("read {} MB over and over", megabytes(bytes as f64));
        let (weights, memory) = (self.machine.weights_read_gb_per_s, self.machine.memory_read_gb_per_s);
        let reads = format!(
            "a step reads {} MB of weights, and {:.1} KB of KV per position and sequence",
            megabytes(bounds::weight_bytes(&self.spec)),
            self.spec.kv_bytes_per_token(KvType::Auto) as f64 / 1e3
        );
        table.row([&read(weights_bytes), &format!("{weights:.1} GB/s"), &reads]);
        table.row([&read(memory_bytes), &format!("{memory:.1} GB/s"), &"what no cache holds"]);
        let per_token = bounds::multiply_adds(&self.spec) as f64 / 1e6;
        let uses = format!("a token takes {per_token:.1} M");
        let of = |used: bool| if used { uses.as_str() } else { "" };
        let giga = |speed: f64| format!("{speed:.0} G/s");
        let quantised = self.spec.dtype.is_quantised();
        let int8 = format!("multiply-adds, int8 ({})", peaks.instructions);
        table.row([&int8, &giga(peaks.int8_gmac_per_s), &of(quantised)]);
        table.row([&"multiply-adds, f32", &giga(peaks.f32_gmac_per_s), &of(!quantised)]);
        for Row { batch, elsewhere, .. } in &self.rows {
            let Some(share) = elsewhere else { continue };
            let what = format!("elsewhere, batch {batch}");
            table.row([&what, &percent(*share), &"of a step outside products and attention"]);
        }
        table
    }
}

fn cells(speed: &Speed) -> [String; 3] {
    [format!("{:.0}", speed.best), format!("{:.0}", speed.median), percent(speed.share())]
}

fn percent(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}

fn megabytes(bytes: f64) -> String {
    let megabytes = bytes / 1e6;
    if megabytes < 100.0 { format!("{megabytes:.1}") } else { format!("{megabytes:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::decode::bounds::tests::{machine, spec};

    fn report() -> Report {
        let plan = Plan { batches: vec![1, 32], prompt: 128, tokens: 64, rounds: 3, threads: 2 };
        let mut report = Report::new(&spec(), &plan, machine());
        let time = |prefill, decode| Times {
            prefill: Duration::from_millis(prefill),
            decode: Duration::from_millis(decode),
            elsewhere: Some(0.13),
        };
        report.add(1, &[time(80, 200), time(64, 160), time(100, 400)]);
        report.add(32, &[time(1600, 1600)]);
        report
    }

    #[test]
    fn best_and_median_are_told_apart() {
        let json = report().json();
        let row = &json["rows"][0];
        assert_eq!(row["prefill_tokens_per_s"], 2000.0);
        assert_eq!(row["prefill_tokens_per_s_median"], 1600.0);
        assert_eq!(row["decode_tokens_per_s"], 400.0);
        assert_eq!(row["decode_tokens_per_s_median"], 320.0);
        assert_eq!(row["decode_bound"]["by"], "memory");
        assert_eq!(json["bounds"]["int8_gmac_per_s"], 855.0);
    }

    #[test]
    fn the_tables_name_the_bound_of_every_batch() {
        let report = report();
        let speeds = report.speeds().to_string();
        let lines: Vec<&str> = speeds.lines().collect();
        assert!(lines[1].ends_with("memory") && lines[1].contains("64 %"), "{speeds}");
        assert!(lines[2].ends_with("compute") && lines[2].contains("20 %"), "{speeds}");
        let bounds = report.bounds().to_string();
        for part in ["96.6 MB", "63.0 GB/s", "855 G/s", "134.5 M", "13 %"] {
            assert!(bounds.contains(part), "{part:?} is missing in {bounds}");
        }
    }
}
