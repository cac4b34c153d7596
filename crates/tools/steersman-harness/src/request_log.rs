//! Machine: finds the requests of an operator in the log of the embedded server.

use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::faults::{RequestRecord, Verb};
use steersman_testenv::{RbacRules, is_of_test};

/// The name of the harness in the `User-Agent` of its requests, and as field manager.
pub(crate) const AGENT: &str = "steersman-harness";

/// API groups with resources that are never stored, such as reviews of permissions.
const REVIEWS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];

/// The requests to one server since a point in time.
#[derive(Debug)]
pub(crate) struct RequestsSince {
    server: ApiServer,
    /// The number of the first request to count.
    first: u64,
}

impl RequestsSince {
    /// Starts with the next request to the server.
    pub(crate) fn now(server: &ApiServer) -> Self {
        let last = server.requests().all().pop();
        Self {
            server: server.clone(),
            first: last.map_or(0, |last| last.sequence + 1),
        }
    }

    /// Returns the write requests since the start (HARNESS-2).
    pub(crate) fn writes(&self) -> Vec<RequestRecord> {
        let counts = |record: &RequestRecord| record.sequence >= self.first && is_write(record);
        self.server.requests().matching(counts)
    }

    /// Returns the rules that the requests since the start need. A request that impersonates a user is skipped, because
    /// it needs that user's permissions.
    pub(crate) fn rules(&self) -> RbacRules {
        RbacRules::requested(&self.server, |record| {
            record.sequence >= self.first && record.impersonated_by.is_none()
        })
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.server.requests().forgotten()
    }
}

/// Returns the number of the operator's requests in a server's log, without watches.
pub(crate) fn requests_sent(server: &ApiServer) -> usize {
    let counts = |record: &RequestRecord| !is_of_test(record) && !record.does(Verb::Watch);
    server.requests().count(counts)
}

/// Returns whether a request of the operator changes an object.
fn is_write(record: &RequestRecord) -> bool {
    let is_read = |verb| matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    record.verb.is_some_and(|verb| !is_read(verb))
        && !is_of_test(record)
        && !REVIEWS.contains(&record.group.as_str())
}
