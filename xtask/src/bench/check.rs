//! Compares a run with what was noted before: what changed, and what is worse than it may be.

use super::figure::{Figure, Target};

/// A change below this is noise, whatever the spread says.
const NOTABLE: f64 = 0.05;

/// What changed, a line each.
pub(crate) fn changes(before: &[Figure], now: &[Figure]) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in now {
        match before.iter().find(|known| known.is_same(figure)) {
            Some(known) => lines.extend(change(known, figure)),
            None => lines.push(format!("{}: is new", figure.name())),
        }
    }
    for known in before {
        if !now.iter().any(|figure| figure.is_same(known)) {
            lines.push(format!("{}: was not measured", known.name()));
        }
    }
    lines
}

/// How a figure moved, where it did so beyond its spread.
fn change(before: &Figure, now: &Figure) -> Option<String> {
    let name = now.name();
    if before.unit != now.unit {
        let (before, now) = (&before.unit, &now.unit);
        return Some(format!("{name}: is told in {now} and was in {before}"));
    }
    let (was, is) = (before.own, now.own);
    let overlap = is.least <= was.most && was.least <= is.most;
    let runs = was.runs.min(is.runs);
    let share = (is.median - was.median) / was.median;
    if share.abs() < NOTABLE || (overlap && runs > 1) || !share.is_finite() {
        return None;
    }
    let ratios = match (before.ratio(), now.ratio()) {
        (Some(was), Some(is)) => format!(", and {is:.2}x instead of {was:.2}x of its peer"),
        _ => String::new(),
    };
    Some(format!(
        "{name}: {} instead of {} ({:+.0} %){ratios}",
        is.brief(&now.unit),
        was.brief(&now.unit),
        100.0 * share
    ))
}

/// What is worse than it may be, a line each; so is what was held to something and is not measured any
/// more. Absolute figures are another machine's, and fail nothing.
pub(crate) fn failures(noted: &[Figure], now: &[Figure]) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in now {
        let name = figure.name();
        let known = noted.iter().find(|known| known.is_same(figure));
        let bound = known.and_then(|known| known.bound);
        if let Some(bound) = bound {
            let said = match (figure.ratio(), figure.peers.first()) {
                (Some(ratio), _) if ratio >= bound => None,
                (Some(ratio), Some(peer)) => Some(format!("{ratio:.2}x of {}", peer.name)),
                _ => Some("nobody was measured beside it".to_owned()),
            };
            let lost = |said| format!("{name}: {said}, and {bound:.2}x is the least accepted");
            lines.extend(said.map(lost));
        }
        if let Some(limit) = held_to(known, figure)
            && !figure.meets(limit)
        {
            let own = figure.own.brief(&figure.unit);
            let limit = limit.show(&figure.unit);
            lines.push(format!("{name}: {own}, and {limit} is what was accepted"));
        }
    }
    for known in noted.iter().filter(|known| known.is_held()) {
        if !now.iter().any(|figure| figure.is_same(known)) {
            lines.push(format!(
                "{}: was not measured, and is held to what was accepted; where it is gone for good, take it out of the file",
                known.name()
            ));
        }
    }
    lines
}

/// What a guarded figure may not miss: what was accepted of it, or its target where nothing is noted.
fn held_to(known: Option<&Figure>, figure: &Figure) -> Option<Target> {
    let target = figure.target.filter(|_| figure.guard)?;
    Some(known.and_then(Figure::limit).unwrap_or(target))
}
