//! Machine: which requests of the embedded server's log are new, each once and when it was answered.

use std::collections::BTreeMap;

use steersman_testenv::apiserver::faults::{RequestLog, RequestRecord};

#[derive(Debug)]
pub(crate) struct AnsweredRequests {
    log: RequestLog,
    open: OpenRequests,
}

/// The requests without an answer. Requests are numbers.
#[derive(Debug, Default)]
struct OpenRequests {
    next: u64,
    /// The requests without an answer, and how often they were looked at.
    looks: BTreeMap<u64, u32>,
}

/// The number of looks after which a request gets no answer any more: its client has left.
const LOOKS: u32 = 600;

impl AnsweredRequests {
    pub(crate) fn new(log: RequestLog) -> Self {
        Self {
            log,
            open: OpenRequests::default(),
        }
    }

    /// Returns the requests that were answered since the last call, in their order; and those that will not be, without
    /// a status. A watch is answered when it is open.
    pub(crate) fn next(&mut self) -> Vec<RequestRecord> {
        let open = &mut self.open;
        let mut records = self.log.matching(|record| open.is_wanted(record.sequence));
        records.retain(|record| open.look(record.sequence, record.status.is_some()));
        records
    }
}

impl OpenRequests {
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
