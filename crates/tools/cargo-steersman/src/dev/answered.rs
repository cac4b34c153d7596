//! Machine: finds the newly answered requests in the log of the embedded server, and returns each request once.

use std::collections::BTreeMap;

use steersman_testenv::apiserver::faults::{RequestLog, RequestRecord};

/// The requests that have no answer yet, by their number in the log.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    next: u64,
    /// For each request without an answer, how many times `answered` has found it unanswered.
    looks: BTreeMap<u64, u32>,
}

/// After this many checks, a request counts as abandoned by its client.
const LOOKS: u32 = 600;

impl OpenRequests {
    /// Returns the requests that were answered since the last call, in the order of the log, and the abandoned
    /// requests, without a status. A watch counts as answered when it is open.
    pub(crate) fn answered(&mut self, log: &RequestLog) -> Vec<RequestRecord> {
        let mut records = log.matching(|record| self.is_wanted(record.sequence));
        records.retain(|record| self.look(record.sequence, record.status.is_some()));
        records
    }

    fn is_wanted(&self, request: u64) -> bool {
        request >= self.next || self.looks.contains_key(&request)
    }

    fn look(&mut self, request: u64, is_answered: bool) -> bool {
        self.next = self.next.max(request + 1);
        let looks = self.looks.remove(&request).unwrap_or_default();
        if is_answered || looks >= LOOKS {
            return true;
        }
        self.looks.insert(request, looks + 1);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_answer_holds_no_other_up_and_is_shown_in_the_end() {
        let mut open = OpenRequests::default();
        assert!(open.is_wanted(0));
        assert!(!open.look(0, false));
        assert!(!open.look(1, false));
        assert!(open.look(2, true));
        assert!(!open.is_wanted(2));
        assert!(open.is_wanted(1) && open.look(1, true) && !open.is_wanted(1));
        let looks = (0..).take_while(|_| open.is_wanted(0) && !open.look(0, false));
        assert_eq!(looks.count(), LOOKS as usize - 1);
        assert!(!open.is_wanted(0));
    }
}
