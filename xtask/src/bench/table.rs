//! Writes tables in Markdown: one row per figure, and a grid for figures over numbers of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::figure::{Figure, grouped, series};

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
        let same: BTreeMap<u64, &Figure> = figures
            .iter()
            .filter(|other| other.id == figure.id)
            .filter_map(|other| Some((other.at?, *other)))
            .collect();
        let unit = &figure.unit;
        let own = columns.iter().map(|at| Some(same.get(at)?.own.brief(unit)));
        row(&mut text, &figure.what, own);
        for name in peers(&same) {
            let cells = columns.iter().map(|at| {
                let mut peers = same.get(at)?.peers.iter();
                let peer = peers.find(|peer| peer.name == name)?;
                Some(peer.figure.brief(unit))
            });
            row(&mut text, &format!("{}, {name}", figure.what), cells);
        }
    }
    text
}

/// Returns the names of all peers, at any number of objects.
fn peers<'a>(figures: &BTreeMap<u64, &'a Figure>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for peer in figures.values().flat_map(|figure| &figure.peers) {
        if !names.contains(&peer.name.as_str()) {
            names.push(&peer.name);
        }
    }
    names
}

/// Appends a row; a cell without a figure is empty.
fn row(text: &mut String, what: &str, cells: impl Iterator<Item = Option<String>>) {
    let _ = write!(text, "| {what} |");
    for cell in cells {
        let _ = write!(text, " {} |", cell.unwrap_or_default());
    }
    text.push('\n');
}
