//! Driver: `RequestNews`, the requests that were answered since the log of requests was last read.

use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};

#[derive(Debug, Default)]
pub(crate) struct RequestNews {
    next: u64,
    open: Vec<u64>,
}

impl RequestNews {
    /// Returns the requests that ended since the last call. A watch is returned once, when it opens.
    pub(crate) fn next(&mut self, server: &ApiServer) -> Vec<RequestRecord> {
        let news = server
            .requests()
            .matching(|one| one.sequence >= self.next || self.open.contains(&one.sequence));
        let end = news.last().map_or(0, |one| one.sequence + 1);
        self.next = self.next.max(end);
        let has_ended = |one: &RequestRecord| one.status.is_some() || one.does(Verb::Watch);
        let (ended, open): (Vec<_>, Vec<_>) = news.into_iter().partition(has_ended);
        self.open = open.iter().map(|one| one.sequence).collect();
        ended
    }
}
