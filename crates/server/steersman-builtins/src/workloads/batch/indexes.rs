//! Machine: checks sets of indexes in the form of Jobs: `1,3-5,7`.

use steersman_apimachinery::indexes::parse_interval;

use crate::fields::FieldPath;

/// Returns the number of indexes in a set (upstream: `validateIndexesFormat`).
///
/// # Errors
/// Fails with the message of a real kube-apiserver.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut last: Option<i64> = None;
    let mut total = 0;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that is in both sets. Parts that do not parse are skipped.
pub(super) fn overlap(one: &FieldPath<'_>, other: &FieldPath<'_>, completions: i64) -> Option<i64> {
    let read = |field: &FieldPath<'_>| -> Vec<(i64, i64)> {
        let parts = field.text().split(',');
        parts
            .filter_map(|part| interval(part, completions).ok())
            .collect()
    };
    let others = read(other);
    read(one).into_iter().find_map(|(first, end)| {
        let mut found = others.iter();
        found
            .find(|(from, to)| first <= *to && *from <= end)
            .map(|(from, _)| first.max(*from))
    })
}

/// Parses one part of a set. The bounds of an interval must increase.
fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let (first, last) = parse_interval(part, completions)?;
    if first >= last && part.contains('-') {
        return Err(format!(
            "non-increasing order, previous: {first}, current: {last}"
        ));
    }
    Ok((first, last))
}
