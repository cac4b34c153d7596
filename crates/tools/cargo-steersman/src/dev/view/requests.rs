//! Machine: counts the requests of the operator, and keeps those that the server refused.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use steersman_testenv::apiserver::faults::{RequestRecord, Verb};

/// The fields of an operator's request that the terminal view shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewRequest {
    pub(crate) verb: &'static str,
    /// The resource, with the name of the object or the namespace.
    pub(crate) target: String,
    /// The collection that the request watches.
    pub(crate) watched: Option<String>,
    /// The status code of the response; `None` without a response.
    pub(crate) status: Option<u16>,
}

/// Statistics of the operator's requests: the rate, the counts by verb, and the refused requests.
#[derive(Debug, Default)]
pub(crate) struct RequestTally {
    by_verb: BTreeMap<&'static str, u64>,
    recent: VecDeque<Instant>,
    refusals: u64,
    /// The last refused requests, oldest first, with the instant of each.
    refused: VecDeque<(Instant, String)>,
}

/// The period over which the rate of requests is measured.
const PERIOD: Duration = Duration::from_secs(10);
/// The number of refused requests that are kept.
const KEPT: usize = 50;

impl ViewRequest {
    /// Reads a record of the server's log; `None` for a request that concerns no resource, such as discovery.
    pub(crate) fn of(record: &RequestRecord) -> Option<Self> {
        let verb = record.verb?;
        let mut resource = record.resource.clone();
        if !record.group.is_empty() {
            resource = format!("{resource}.{}", record.group);
        }
        Some(Self {
            verb: verb.as_str(),
            target: target(record, &resource),
            watched: (verb == Verb::Watch).then(|| resource + &place(record)),
            status: record.status,
        })
    }

    /// Returns whether the status code is a success.
    pub(crate) fn is_good(&self) -> bool {
        self.status.is_some_and(|status| status < 400)
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }

    /// Returns whether the request failed. A 404 of a read and an expired list or watch are no failures.
    pub(crate) fn is_refused(&self) -> bool {
        match self.status {
            Some(404 | 410) if self.is_read() => false,
            Some(status) => status >= 400,
            None => true,
        }
    }
}

/// Returns the resource with its subresource, and the name of the requested object or namespace.
pub(crate) fn target(record: &RequestRecord, resource: &str) -> String {
    let subresource = record.subresource.as_ref();
    let subresource = subresource.map_or_else(String::new, |name| format!("/{name}"));
    format!("{resource}{subresource}{}", place(record))
}

/// Returns a space and the name of the requested object or namespace. The body has the name of a created object.
fn place(record: &RequestRecord) -> String {
    match (&record.namespace, &record.name) {
        (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
        (Some(namespace), None) => format!(" in {namespace}"),
        (None, Some(name)) => format!(" {name}"),
        (None, None) => String::new(),
    }
}

impl RequestTally {
    pub(crate) fn note(&mut self, request: &ViewRequest, now: Instant) {
        *self.by_verb.entry(request.verb).or_default() += 1;
        self.recent.push_back(now);
        self.forget(now);
        if request.is_refused() {
            self.refusals += 1;
            let outcome = match request.status {
                Some(status) => status.to_string(),
                None => "no answer".to_owned(),
            };
            let line = format!("{outcome}  {} {}", request.verb, request.target);
            self.refused.push_back((now, line));
            if self.refused.len() > KEPT {
                self.refused.pop_front();
            }
        }
    }

    /// Returns the summary line: the rate of requests, and the number of requests by verb.
    pub(crate) fn summary(&mut self, now: Instant) -> String {
        self.forget(now);
        let rate = self.recent.len() as f64 / PERIOD.as_secs_f64();
        let by_verb = self.by_verb.iter();
        let by_verb: Vec<String> = by_verb
            .map(|(verb, number)| format!("{verb} {number}"))
            .collect();
        let refusals = self.refusals;
        format!("{rate:.1}/s  {}  refused {refusals}", by_verb.join("  "))
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = &(Instant, String)> {
        self.refused.iter().rev()
    }

    fn forget(&mut self, now: Instant) {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) <= PERIOD;
        let old = self.recent.iter().take_while(|at| !is_recent(at)).count();
        self.recent.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_refused_ones_are_kept() {
        let (mut tally, begin) = (RequestTally::default(), crate::dev::clock::now());
        let request = |verb, status| ViewRequest {
            verb,
            target: "configmaps default/a".to_owned(),
            watched: None,
            status,
        };
        for (verb, status) in [
            ("get", Some(404)),
            ("watch", Some(410)),
            ("get", Some(403)),
            ("patch", Some(200)),
            ("patch", Some(409)),
            ("create", None),
        ] {
            tally.note(&request(verb, status), begin);
        }
        assert_eq!(
            tally.summary(begin),
            "0.6/s  create 1  get 2  patch 2  watch 1  refused 3"
        );
        let refused: Vec<&str> = tally.refused().map(|(_, line)| &**line).collect();
        assert_eq!(
            refused,
            [
                "no answer  create configmaps default/a",
                "409  patch configmaps default/a",
                "403  get configmaps default/a",
            ]
        );
        let later = begin + 2 * PERIOD;
        assert!(tally.summary(later).starts_with("0.0/s"));
    }
}
