//! Compares a run with saved results: which figures changed, and which are beyond their bounds.

use super::figure::{Figure, Target};

/// A smaller relative change counts as noise, even if the spreads do not overlap.
const NOTABLE: f64 = 0.05;

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

/// Returns how a figure changed, if it changed beyond its spread.
fn change(before: &Figure, now: &Figure) -> Option<String> {
    let name = now.name();
    if before.unit != now.unit {
        let (before, now) = (&before.unit, &now.unit);
        return Some(format!("{name}: is measured in {now}, before in {before}"));
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

/// Returns one line per figure that is beyond its bound or limit, and per figure with a bound or limit
/// that was not measured. Other absolute figures depend on the machine and fail nothing.
pub(crate) fn failures(noted: &[Figure], now: &[Figure]) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in now {
        let name = figure.name();
        let known = noted.iter().find(|known| known.is_same(figure));
        let bound = known.and_then(|known| known.bound);
        if let Some(bound) = bound {
            let missed = match (figure.ratio(), figure.peers.first()) {
                (Some(ratio), _) if ratio >= bound => None,
                (Some(ratio), Some(peer)) => Some(format!("{ratio:.2}x of {}", peer.name)),
                _ => Some("no peer was measured".to_owned()),
            };
            let line = |missed| format!("{name}: {missed}, and {bound:.2}x is the least accepted");
            lines.extend(missed.map(line));
        }
        if let Some(limit) = limit_of(known, figure)
            && !figure.meets(limit)
        {
            let own = figure.own.brief(&figure.unit);
            let limit = limit.show(&figure.unit);
            lines.push(format!("{name}: {own}, and {limit} is accepted"));
        }
    }
    for known in noted.iter().filter(|known| known.is_held()) {
        if !now.iter().any(|figure| figure.is_same(known)) {
            lines.push(format!(
                "{}: was not measured, although the saved results hold it to a bound; if it is gone for good, delete it from the file",
                known.name()
            ));
        }
    }
    lines
}

/// Returns the limit of a guarded figure: the saved limit, or its target if no results are saved.
fn limit_of(known: Option<&Figure>, figure: &Figure) -> Option<Target> {
    let target = figure.target.filter(|_| figure.guard)?;
    Some(known.and_then(Figure::limit).unwrap_or(target))
}
