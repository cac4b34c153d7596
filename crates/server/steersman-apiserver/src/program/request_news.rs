//! Driver: the requests that were answered since the log was last read.

use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};

/// The position up to which the request log was read.
#[derive(Debug, Default)]
pub(crate) struct RequestNews {
    next: u64,
    open: Vec<u64>,
}

impl RequestNews {
    /// Returns the requests that ended since the last call, and watches when they open.
    pub(crate) fn next(&mut self, server: &ApiServer) -> Vec<RequestRecord> {
        let news = server
            .requests()
            .matching(|one| one.sequence >= self.next || self.open.contains(&one.sequence));
        self.next = news
            .last()
            .map_or(self.next, |one| self.next.max(one.sequence + 1));
        let (ended, open): (Vec<RequestRecord>, Vec<RequestRecord>) = news
            .into_iter()
            .partition(|one| one.status.is_some() || one.does(Verb::Watch));
        self.open = open.iter().map(|one| one.sequence).collect();
        ended
    }
}
