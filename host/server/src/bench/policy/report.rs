//! The table and the JSON of a run.

use serde_json::{Value, json};

use super::Row;
use crate::terminal::{Align, Table, grouped};

/// The rows of a run; the first is the native closure.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order in which they were measured.
    pub rows: Vec<Row>,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table =
            Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
        table.row([&"case", &"ns", &"smallest", &"x native", &"goal", &""]);
        for row in &self.rows {
            let times = if row.ns_least < 1.0 { String::new() } else { format!("{:.0}", self.times(row)) };
            let goal = row.goal_ns.map_or(String::new(), |goal| format!("<= {}", nanoseconds(goal)));
            let missed = row.goal_ns.is_some_and(|goal| row.ns > goal);
            let word = if missed { "missed" } else { "" };
            table.row([&row.case, &nanoseconds(row.ns), &nanoseconds(row.ns_least), &times, &goal, &word]);
        }
        table
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "case": row.case,
                "ns_per_decision": row.ns,
                "ns_smallest": row.ns_least,
                "times_native": self.times(row),
                "goal_ns": row.goal_ns,
            })
        };
        json!({ "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    fn times(&self, row: &Row) -> f64 {
        self.rows.first().map_or(f64::NAN, |native| row.ns / native.ns)
    }
}

fn nanoseconds(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { grouped(ns.round() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_is_missed_is_marked() {
        let row = |case: &str, ns, goal_ns| Row { case: case.to_owned(), ns, ns_least: ns, goal_ns };
        let rows = vec![
            row("native", 10.0, None),
            row("guest", 420.0, Some(350.0)),
            row("other", 300.0, Some(350.0)),
        ];
        let shown = Report { rows }.table().to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[2].ends_with("missed") && lines[2].contains("42"), "{shown}");
        assert!(lines[3].ends_with("<= 350") && lines[3].contains("30"), "{shown}");
    }
}
