//! Machine: groups similar requests that follow each other, so that a story tells each group in one line.

use std::time::Duration;

use super::plain_text::one_line;
use super::story_line::{EventLine, EventMark};
use crate::request::OperatorRequest;

/// Requests that follow each other without a write between them, grouped by what they ask for.
#[derive(Debug, Default)]
pub(crate) struct RequestRun {
    groups: Vec<RequestGroup>,
}

#[derive(Debug)]
struct RequestGroup {
    /// The time of the first request.
    at: Duration,
    mark: EventMark,
    label: &'static str,
    /// The verb and the resource.
    about: String,
    /// What happened to the requests, such as ` → 404`.
    outcome: String,
    /// The number of the requests.
    count: usize,
    /// Each request, once; the first ones only.
    distinct: Vec<String>,
}

/// The number of objects that a group names.
const MOST_NAMED: usize = 3;

impl RequestRun {
    /// Adds a request with its mark and label. `outcome` follows the text of the request.
    pub(crate) fn add(
        &mut self,
        at: Duration,
        (mark, label): (EventMark, &'static str),
        request: &OperatorRequest,
        outcome: String,
    ) {
        let about = match &request.subresource {
            Some(subresource) => format!("{} {}/{subresource}", request.verb, request.resource),
            None => format!("{} {}", request.verb, request.resource),
        };
        let text = one_line(&request.to_string());
        let found = self
            .groups
            .iter_mut()
            .find(|group| group.label == label && group.about == about && group.outcome == outcome);
        let Some(group) = found else {
            self.groups.push(RequestGroup {
                at,
                mark,
                label,
                about,
                outcome,
                count: 1,
                distinct: vec![text],
            });
            return;
        };
        group.count += 1;
        if group.distinct.len() <= MOST_NAMED && !group.distinct.contains(&text) {
            group.distinct.push(text);
        }
    }

    /// Returns a line for each group, and forgets them.
    pub(crate) fn take(&mut self) -> Vec<EventLine> {
        let groups = std::mem::take(&mut self.groups).into_iter();
        groups.map(RequestGroup::into_line).collect()
    }
}

impl RequestGroup {
    fn into_line(self) -> EventLine {
        let Self {
            at,
            mark,
            label,
            about,
            outcome,
            count,
            distinct,
        } = self;
        let text = match (count, distinct.as_slice()) {
            (1, [only]) => format!("{only}{outcome}"),
            (_, [only]) => format!("{only}, {count} times{outcome}"),
            (_, several) => {
                let names = several.iter().take(MOST_NAMED).map(|one| {
                    let name = one.strip_prefix(about.as_str()).unwrap_or(one).trim();
                    if name.is_empty() { "all" } else { name }
                });
                let names: Vec<&str> = names.collect();
                let more = if several.len() > MOST_NAMED {
                    ", …"
                } else {
                    ""
                };
                format!(
                    "{about}, {count} times ({}{more}){outcome}",
                    names.join(", ")
                )
            }
        };
        EventLine::new(at, mark, label, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestVerb;

    fn request(verb: RequestVerb, name: Option<&str>) -> OperatorRequest {
        OperatorRequest {
            sequence: 1,
            process: 1,
            verb,
            resource: "pods".to_owned(),
            subresource: None,
            namespace: Some("shop".to_owned()),
            name: name.map(str::to_owned),
            is_dry_run: false,
            may_be_stale: false,
            is_streaming_list: false,
        }
    }

    #[test]
    fn requests_of_one_kind_are_one_line() {
        let mut run = RequestRun::default();
        let mut add = |seconds, verb, name, outcome: &str| {
            let read = (EventMark::Read, "read");
            run.add(
                Duration::from_secs(seconds),
                read,
                &request(verb, name),
                outcome.to_owned(),
            );
        };
        add(1, RequestVerb::List, None, "");
        add(2, RequestVerb::Get, Some("a"), "");
        add(3, RequestVerb::List, None, "");
        add(4, RequestVerb::Get, Some("b"), "");
        add(5, RequestVerb::Get, Some("a"), " → 404");
        for name in ["b", "c", "d", "e"] {
            add(6, RequestVerb::Get, Some(name), "");
        }
        let lines = run.take();
        let lines: Vec<(u64, &str)> = lines
            .iter()
            .map(|line| (line.at.as_secs(), line.text.as_str()))
            .collect();
        assert_eq!(
            lines,
            [
                (1, "list pods in shop, 2 times"),
                (2, "get pods, 6 times (shop/a, shop/b, shop/c, …)"),
                (5, "get pods shop/a → 404"),
            ]
        );
        assert!(run.take().is_empty());
    }
}
