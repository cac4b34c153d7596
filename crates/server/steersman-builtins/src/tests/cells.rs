//! Checks that the table of rules in `guide/` agrees with the code.

use std::fmt::Write as _;
use std::ptr::fn_addr_eq;

use steersman_schema::builtin::built_in;
use steersman_schema::builtin::rules::rules;

use crate::Strategy;
use crate::of;

/// Columns of the table by their names.
const COLUMNS: [(&str, usize); 5] = [
    ("defaults", 6),
    ("prepare", 7),
    ("checks", 8),
    ("statusck", 9),
    ("warnings", 10),
];

/// Kinds with rules outside this crate's table.
const ELSEWHERE: [&str; 2] = ["Event", "CustomResourceDefinition"];

/// The page that lists what is missing.
const PAGE: &str = include_str!("../../guide/kinds.md");

/// Returns the columns in which a kind has rules.
fn kept(strategy: &Strategy) -> [bool; 5] {
    let plain = &Strategy::PLAIN;
    [
        !fn_addr_eq(strategy.defaults, plain.defaults),
        !fn_addr_eq(strategy.prepare, plain.prepare)
            || !fn_addr_eq(strategy.prepare_status, plain.prepare_status)
            || strategy.finish_status.is_some(),
        !fn_addr_eq(strategy.validate, plain.validate),
        !fn_addr_eq(strategy.validate_status, plain.validate_status),
        !fn_addr_eq(strategy.warn, plain.warn)
            || !fn_addr_eq(strategy.warn_of_status, plain.warn_of_status),
    ]
}

/// SRV-KIND-1.
#[test]
fn the_table_of_rules_agrees_with_the_code() {
    let mut wrong = String::new();
    for resource in built_in() {
        let rules = rules();
        let same = |rule: &&steersman_schema::builtin::rules::DefaultRule| {
            (rule.group, rule.version, rule.kind)
                == (&resource.group, &resource.version, &resource.kind)
        };
        let rule = rules.iter().find(same).unwrap();
        if ELSEWHERE.contains(&rule.kind) {
            continue;
        }
        let kept = of(&resource).map_or([false; 5], kept);
        for ((name, at), kept) in COLUMNS.iter().zip(kept) {
            let cell = rule.cells[*at];
            let fits = kept == (cell == "own") || cell == "gap";
            if !fits {
                let _ = writeln!(
                    wrong,
                    "{} {}: {name} says {cell}",
                    resource.api_version(),
                    rule.kind
                );
            }
        }
    }
    assert_eq!(wrong, "");
}

/// SRV-KIND-1: the page lists each gap and no others.
#[test]
fn the_page_on_kinds_lists_all_missing_rules() {
    let (mut gaps, mut table) = (Vec::new(), Vec::new());
    for rule in rules() {
        let version = if rule.group.is_empty() {
            rule.version.to_owned()
        } else {
            format!("{}/{}", rule.group, rule.version)
        };
        for (name, at) in COLUMNS {
            if rule.cells[at] == "gap" {
                gaps.push(format!("- {version} {}, {name}:", rule.kind));
            }
        }
        let (status, labels) = (rule.cells[3], rule.cells[1].replace(',', ", "));
        table.push(format!(
            "| {version} | {} | {status} | {labels} |",
            rule.kind
        ));
    }
    let listed: Vec<&str> = PAGE
        .lines()
        .filter(|line| line.starts_with("- ") && line.contains(':'))
        .collect();
    let listed: Vec<&str> = listed
        .iter()
        .map(|line| line.split_inclusive(':').next().unwrap())
        .collect();
    gaps.sort();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, gaps);
    let rows: Vec<&str> = PAGE
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .skip(1)
        .collect();
    assert_eq!(rows, table, "the rows of the page, and those of the table");
}
