//! Machine: the lines of `top`, from the overview of a debug page.

use serde_json::Value;
use steersman_object::{json_items, json_text};

use crate::dev::view::snapshot::role;

/// The columns of the controllers: the name of the field, the head, and whether it is a number.
const COLUMNS: [(&str, &str); 8] = [
    ("name", "CONTROLLER"),
    ("state", "STATE"),
    ("running", "RUNNING"),
    ("ready", "READY"),
    ("delayed", "DELAYED"),
    ("perMinute", "PER MINUTE"),
    ("failuresPerMinute", "FAILED"),
    ("longestRunning", "LONGEST RUN"),
];

/// The number of items that need attention.
const MOST_ITEMS: usize = 10;

/// Returns the lines: the state of the replica, what needs attention, and the controllers.
pub(super) fn screen_lines(overview: &Value) -> Vec<String> {
    let caches = &overview["caches"];
    let mut lines = vec![
        format!(
            "{}: {}; {} of {} kinds in sync, {} objects",
            json_text(&overview["server"]),
            role(overview),
            caches["synced"],
            caches["informers"],
            caches["objects"]
        ),
        String::new(),
    ];
    let items: Vec<&Value> = json_items(&overview["attention"]).collect();
    for item in items.iter().take(MOST_ITEMS) {
        lines.push(format!("! {}", json_text(&item["title"])));
        lines.push(format!("  {}", json_text(&item["detail"])));
        for line in json_text(&item["remedy"]).lines() {
            lines.push(format!("  > {line}"));
        }
    }
    let left_out = overview["moreAttention"].as_u64().unwrap_or_default();
    let left_out = usize::try_from(left_out).unwrap_or(usize::MAX);
    match items
        .len()
        .saturating_sub(MOST_ITEMS)
        .saturating_add(left_out)
    {
        0 if items.is_empty() => lines.push("nothing needs attention".to_owned()),
        0 => {}
        more => lines.push(format!("and {more} more")),
    }
    lines.push(String::new());
    lines.extend(table(&overview["controllers"]));
    lines
}

/// Returns the controllers as columns that are as wide as their longest value.
fn table(controllers: &Value) -> Vec<String> {
    let rows = json_items(&controllers["items"]);
    let rows = rows.map(|row| COLUMNS.map(|(field, _)| cell(row, field)));
    let mut rows: Vec<[String; COLUMNS.len()]> = rows.collect();
    rows.insert(0, COLUMNS.map(|(_, head)| head.to_owned()));
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| {
            rows.iter()
                .map(|row| row[at].chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    let total = controllers["total"].as_u64().unwrap_or_default();
    let more = total.saturating_sub(rows.len() as u64 - 1);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn cell(row: &Value, field: &str) -> String {
    match (field, &row[field]) {
        ("running", running) => format!("{running} of {}", row["workers"]),
        ("longestRunning", Value::Number(seconds)) => {
            format!("{:.1} s", seconds.as_f64().unwrap_or_default())
        }
        (_, Value::Null) => "-".to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_screen_has_the_replica_what_needs_attention_and_the_controllers() {
        let row = |name: &str, longest: Option<f64>| {
            json!({
                "name": name, "state": "working", "running": 1, "workers": 2, "ready": 30, "delayed": 0,
                "perMinute": 120, "failuresPerMinute": 7, "longestRunning": longest,
            })
        };
        let lines = screen_lines(&json!({
            "server": "10.0.0.1", "stage": "started", "isLeader": true,
            "caches": {"synced": 2, "informers": 3, "objects": 40},
            "attention": [
                {"title": "shop/a has failed 9 times in a row", "detail": "controller shops", "remedy": null},
                {"title": "Pod.v1 does not follow", "detail": "forbidden", "remedy": "rules:\n- add this"},
            ],
            "controllers": {"items": [row("shops", Some(61.25)), row("a-longer-name", None)], "total": 5},
        }));
        assert_eq!(
            lines,
            [
                "10.0.0.1: leads, started; 2 of 3 kinds in sync, 40 objects",
                "",
                "! shop/a has failed 9 times in a row",
                "  controller shops",
                "! Pod.v1 does not follow",
                "  forbidden",
                "  > rules:",
                "  > - add this",
                "",
                "CONTROLLER     STATE    RUNNING  READY  DELAYED  PER MINUTE  FAILED  LONGEST RUN",
                "shops          working  1 of 2   30     0        120         7       61.2 s",
                "a-longer-name  working  1 of 2   30     0        120         7       -",
                "and 3 more",
            ]
        );
        let empty = screen_lines(&json!({}));
        assert!(
            empty.contains(&"nothing needs attention".to_owned()),
            "{empty:?}"
        );
    }
}
