//! Machine: which of the planned faults a request meets.

use std::fmt;
use std::time::Duration;

use super::record::RequestRecord;
use crate::status::Status;

type Condition = Box<dyn Fn(&RequestRecord) -> bool + Send + Sync>;

/// The faults that are planned, in the order in which they were.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    rules: Vec<Rule>,
    next: u64,
}

/// What happens to a request that meets a fault.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is answered this.
    Answer(Box<Status>),
    /// It waits first.
    Delay(Duration),
    /// A watch opens and stays silent.
    Silence,
}

struct Rule {
    id: u64,
    condition: Condition,
    fault: Fault,
    /// How often it still applies; `None` for always.
    left: Option<u32>,
    hits: u64,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("id", &self.id)
            .field("fault", &self.fault)
            .field("left", &self.left)
            .field("hits", &self.hits)
            .finish_non_exhaustive()
    }
}

/// What is to be done with one request.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// How long it waits before anything else.
    pub(crate) delay: Duration,
    /// The answer in place of the real one.
    pub(crate) answer: Option<Box<Status>>,
    /// Whether, being a watch, it stays silent.
    pub(crate) silence: bool,
}

impl Plan {
    /// Adds a fault and returns its number.
    pub(crate) fn add(&mut self, condition: Condition, fault: Fault, left: Option<u32>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.rules.push(Rule {
            id,
            condition,
            fault,
            left,
            hits: 0,
        });
        id
    }

    /// Takes a fault out.
    pub(crate) fn remove(&mut self, id: u64) {
        self.rules.retain(|rule| rule.id != id);
    }

    /// How often a fault was met.
    pub(crate) fn hits(&self, id: u64) -> u64 {
        self.rules
            .iter()
            .find(|rule| rule.id == id)
            .map_or(0, |rule| rule.hits)
    }

    /// Delays add up; of several answers the one planned first is given.
    pub(crate) fn decide(&mut self, record: &RequestRecord) -> Decision {
        let mut decision = Decision::default();
        for rule in &mut self.rules {
            if rule.left == Some(0) || !(rule.condition)(record) {
                continue;
            }
            match &rule.fault {
                Fault::Answer(_) if decision.answer.is_some() => continue,
                Fault::Answer(status) => decision.answer = Some(status.clone()),
                Fault::Delay(delay) => decision.delay = decision.delay.saturating_add(*delay),
                Fault::Silence => decision.silence = true,
            }
            rule.hits += 1;
            rule.left = rule.left.map(|left| left - 1);
        }
        decision
    }
}
