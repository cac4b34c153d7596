//! Machine: the requests of a world as text, to compare two worlds that should be alike.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::world_event::{ObjectChange, WorldEvent, WorldEventKind};

/// A request of the operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogLine {
    /// The request, such as `create configmaps default/a`.
    request: String,
    /// When it was sent, by which process, with which code it was answered, and what it changed.
    rest: String,
}

/// Returns the requests of a world.
pub(crate) fn request_log(events: &[WorldEvent]) -> Vec<LogLine> {
    let requests = events.iter().filter_map(|event| {
        let (request, code, change) = match &event.what {
            WorldEventKind::Read { request, code } => (request, code, None),
            WorldEventKind::Wrote {
                request,
                code,
                change,
                ..
            } => (request, code, change.as_ref()),
            _ => return None,
        };
        let content = |change: &ObjectChange| change.after.as_ref().map(Value::to_string);
        let content = change.and_then(content).unwrap_or_default();
        Some(LogLine {
            request: request.to_string(),
            rest: format!("{:?} {} {code:?} {content}", event.at, request.process),
        })
    });
    requests.collect()
}

/// Returns a number that is equal for equal logs, and another one for almost all others.
pub(crate) fn digest(log: &[LogLine]) -> u64 {
    let mut hasher = DefaultHasher::new();
    log.hash(&mut hasher);
    hasher.finish()
}

/// Returns the requests that differ between two logs.
pub(crate) fn differing(one: &[LogLine], other: &[LogLine]) -> Vec<String> {
    let changes = capture_diff_slices(Algorithm::Myers, one, other);
    let changed = changes
        .iter()
        .filter(|change| change.tag() != DiffTag::Equal);
    let lines = changed.flat_map(|change| {
        let lines = one[change.old_range()].iter();
        lines.chain(&other[change.new_range()])
    });
    let mut requests: Vec<String> = lines.map(|line| line.request.clone()).collect();
    requests.sort_unstable();
    requests.dedup();
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &str, rest: &str) -> LogLine {
        LogLine {
            request: request.to_owned(),
            rest: rest.to_owned(),
        }
    }

    #[test]
    fn requests_with_other_content_and_additional_ones_differ() {
        let one = [
            line("create a", "1"),
            line("update a", "2"),
            line("get a", "3"),
        ];
        let mut other = one.to_vec();
        assert_eq!(digest(&one), digest(&other));
        assert!(differing(&one, &other).is_empty());
        other[1].rest = "4".to_owned();
        other.push(line("delete a", "5"));
        assert_ne!(digest(&one), digest(&other));
        assert_eq!(differing(&one, &other), ["delete a", "update a"]);
    }
}
