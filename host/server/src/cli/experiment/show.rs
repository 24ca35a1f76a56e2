//! An experiment on one screen: a row for each arm, then what may be concluded.

use serde_json::Value;

use crate::cli::CliError;
use crate::terminal::{Align, Table, Terminal, palette};

pub(super) fn show(of: &Value, terminal: &Terminal) -> Result<(), CliError> {
    terminal.line(format_args!("{}", page(of)))?;
    Ok(())
}

/// `control 90 %, margin 10 %`
pub(super) fn weights(of: &Value) -> String {
    let arm = |arm: &Value| format!("{} {}", text(arm, "name"), percent(weight(arm)));
    list(of, "arms").iter().map(arm).collect::<Vec<_>>().join(", ")
}

fn page(of: &Value) -> String {
    let (strong, faint) = (palette::STRONG, palette::FAINT);
    let state = text(of, "state");
    let ink = match state.as_str() {
        "running" | "promoted" => palette::GOOD,
        "rolled back" => palette::BAD,
        _ => palette::WARNING,
    };
    let mut page = format!(
        "{strong}{}{strong:#} on {}: {ink}{state}{ink:#}, phase {}",
        text(of, "name"),
        text(of, "route"),
        of["phase"]
    );
    for key in ["promoted", "reason", "problem"] {
        if let Some(why) = of[key].as_str().filter(|why| !why.is_empty()) {
            page += &format!("\n{faint}{key}: {why}{faint:#}");
        }
    }
    page += &format!("\n\n{}", arms(list(of, "arms")));
    for shadow in list(of, "shadows") {
        page += &format!("\n{faint}shadow{faint:#} {}", shadowed(shadow));
    }
    let readout = list(of, "readout");
    if !readout.is_empty() {
        page += &format!(
            "\n\n{faint}treatment less control; the true difference lies within, however often one looks{faint:#}"
        );
        readout.iter().for_each(|one| page += &format!("\n{}", conclusion(one)));
    }
    if of["sample_ratio"]["alarm"] == true {
        let bad = palette::BAD;
        page += &format!(
            "\n{bad}arms get other keys than their weights say (p = {}): nothing may be concluded{bad:#}",
            number(&of["sample_ratio"]["p_or_e"])
        );
    }
    page
}

fn arms(arms: &[Value]) -> Table {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    table.row([
        &"arm",
        &"weight",
        &"answers",
        &"errors",
        &"fell back",
        &"tok/s",
        &"ttft p99",
        &"gap p99",
        &"score",
        &"tokens by model",
    ]);
    for arm in arms {
        table.row([
            &text(arm, "name"),
            &percent(weight(arm)),
            &whole(&arm["answers"]),
            &whole(&arm["errors"]),
            &whole(&arm["fallbacks"]),
            &number(&arm["tokens_per_s"]),
            &milliseconds(&arm["ttft_s"]["p99"]),
            &milliseconds(&arm["gap_s"]["p99"]),
            &number(&arm["score"]["mean"]),
            &shares(&arm["share"]).unwrap_or_default(),
        ]);
    }
    table
}

/// What a shadow would have done.
fn shadowed(of: &Value) -> String {
    let agreement = of["agreement"].as_f64().map_or_else(|| "-".to_owned(), percent);
    format!(
        "{}: agrees at {agreement} of {} tokens of {} answers; tokens by model {}",
        text(of, "name"),
        whole(&of["asked"]),
        whole(&of["answers"]),
        shares(&of["share"]).unwrap_or_else(|| "-".to_owned()),
    )
}

fn shares(of: &Value) -> Option<String> {
    let share =
        |(model, share): (&String, &Value)| format!("{model} {}", percent(share.as_f64().unwrap_or(0.0)));
    Some(of.as_object()?.iter().map(share).collect::<Vec<_>>().join(", "))
}

fn conclusion(of: &Value) -> String {
    let verdict = text(of, "verdict");
    let ink = match verdict.as_str() {
        "better" => palette::GOOD,
        "worse" | "untrusted" => palette::BAD,
        _ => palette::FAINT,
    };
    let interval = match (of["low"].as_f64(), of["high"].as_f64()) {
        (Some(low), Some(high)) => format!("from {low:+.4} to {high:+.4}"),
        _ => "not known yet".to_owned(),
    };
    format!(
        "{}, {}: {} {interval} ({})  {ink}{verdict}{ink:#}",
        text(of, "arm"),
        text(of, "metric"),
        of["effect"].as_f64().map_or_else(|| "-".to_owned(), |effect| format!("{effect:+.4}")),
        text(of, "unit"),
    )
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

fn weight(arm: &Value) -> f64 {
    arm["weight_bp"].as_f64().unwrap_or(0.0) / 10_000.0
}

fn percent(part: f64) -> String {
    format!("{} %", (part * 10_000.0).round() / 100.0)
}

fn whole(of: &Value) -> String {
    of.as_f64().map_or_else(|| "-".to_owned(), |of| format!("{of:.0}"))
}

fn number(of: &Value) -> String {
    of.as_f64().map_or_else(|| "-".to_owned(), |of| format!("{of:.3}"))
}

fn milliseconds(of: &Value) -> String {
    of.as_f64().map_or_else(|| "-".to_owned(), |of| format!("{:.1} ms", of * 1e3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_experiment_fits_one_screen() {
        let arm = |name: &str, bp: u16| {
            json!({"name": name, "weight_bp": bp, "answers": 412, "errors": 0.0, "fallbacks": 3.0, "tokens_per_s": 81.2,
                   "ttft_s": {"p50": 0.01, "p99": 0.02}, "gap_s": null, "score": {"mean": 0.81, "count": 9},
                   "share": {"small": 0.875, "large": 0.125}})
        };
        let of = json!({
            "name": "one", "route": "pair", "state": "rolled back", "reason": "guardrail: mean errors", "phase": 2,
            "arms": [arm("control", 9000), arm("new", 1000)],
            "readout": [{"arm": "new", "metric": "quality", "effect": 0.1, "low": 0.02, "high": 0.18, "verdict": "better",
                         "unit": "score from 0 to 1"}],
            "sample_ratio": {"alarm": false, "p_or_e": 1.0},
        });
        let page = anstream::adapter::strip_str(&page(&of)).to_string();
        assert!(
            page.starts_with("one on pair: rolled back, phase 2\nreason: guardrail: mean errors\n"),
            "{page}"
        );
        assert!(page.contains("new        10 %      412       0          3  81.200   20.0 ms        -  0.810  small 87.5 %, large 12.5 %"), "{page}");
        assert!(
            page.ends_with("new, quality: +0.1000 from +0.0200 to +0.1800 (score from 0 to 1)  better"),
            "{page}"
        );
        assert!(page.lines().count() < 24 && page.lines().all(|line| line.chars().count() <= 120), "{page}");
        assert_eq!(weights(&of), "control 90 %, new 10 %");
    }
}
