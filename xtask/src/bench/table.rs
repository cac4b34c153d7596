//! Writes tables in Markdown: one row per figure, and a grid for figures over numbers of objects.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::figure::{Figure, Spread, grouped, series};

pub(crate) fn markdown(figures: &[Figure]) -> String {
    let (grid, rows): (Vec<&Figure>, Vec<&Figure>) =
        figures.iter().partition(|figure| figure.at.is_some());
    let parts = [rows_of(&rows), grid_of(&grid)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn rows_of(figures: &[&Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut text = String::from("| measurement | result | target | |\n|---|--:|--:|---|\n");
    for figure in figures {
        let mark = match figure.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "missed",
        };
        let wanted = figure.target.map(|target| target.show(&figure.unit));
        let (what, wanted) = (&figure.what, wanted.unwrap_or_default());
        let _ = writeln!(text, "| {what} | {} | {wanted} | {mark} |", cell(figure));
    }
    text
}

/// Formats the figure, its peers and the ratio to the first peer.
fn cell(figure: &Figure) -> String {
    let mut text = figure.own.show(&figure.unit);
    for (at, peer) in figure.peers.iter().enumerate() {
        let _ = write!(text, "; {} {}", peer.name, peer.figure.show(&figure.unit));
        if at == 0
            && let Some(ratio) = figure.ratio().filter(|ratio| ratio.is_finite())
        {
            // Two digits show a ratio below one beside its target.
            let digits = if ratio < 1.0 { 2 } else { 1 };
            let _ = write!(text, ": {ratio:.digits$}x");
        }
    }
    text
}

/// Returns one row per figure and peer, with one column per number of objects.
fn grid_of(figures: &[&Figure]) -> String {
    let Some(first) = figures.first() else {
        return String::new();
    };
    let columns: BTreeSet<u64> = figures.iter().filter_map(|figure| figure.at).collect();
    let mut text = format!("| {} |", series(&first.id));
    for column in &columns {
        let _ = write!(text, " {} |", grouped(*column));
    }
    text.push_str("\n|---|");
    text.push_str(&"--:|".repeat(columns.len()));
    text.push('\n');
    let mut written: Vec<&str> = Vec::new();
    for figure in figures {
        if written.contains(&figure.id.as_str()) {
            continue;
        }
        written.push(&figure.id);
        let same: Vec<&Figure> = figures
            .iter()
            .copied()
            .filter(|other| other.id == figure.id)
            .collect();
        let unit = &figure.unit;
        row(&mut text, &figure.what, unit, &columns, |at| {
            let found = same.iter().find(|figure| figure.at == Some(at));
            found.map(|figure| figure.own)
        });
        for peer in peers(&same) {
            let what = format!("{}, {peer}", figure.what);
            row(&mut text, &what, unit, &columns, |at| {
                let found = same.iter().find(|figure| figure.at == Some(at))?;
                let peer = found.peers.iter().find(|other| other.name == peer)?;
                Some(peer.figure)
            });
        }
    }
    text
}

/// Returns the names of all peers, at any number of objects.
fn peers<'a>(figures: &[&'a Figure]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for peer in figures.iter().flat_map(|figure| &figure.peers) {
        if !names.contains(&peer.name.as_str()) {
            names.push(&peer.name);
        }
    }
    names
}

fn row(
    text: &mut String,
    what: &str,
    unit: &str,
    columns: &BTreeSet<u64>,
    at: impl Fn(u64) -> Option<Spread>,
) {
    let _ = write!(text, "| {what} |");
    for column in columns {
        let cell = at(*column).map(|spread| spread.brief(unit));
        let _ = write!(text, " {} |", cell.unwrap_or_default());
    }
    text.push('\n');
}
