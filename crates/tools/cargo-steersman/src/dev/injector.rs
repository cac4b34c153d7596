//! Driver: injects faults into the embedded server at the request of the terminal view.

use std::collections::BTreeMap;

use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::faults::{
    Answer, Effect, FaultGuard, FaultSpec, RequestRecord, Verb,
};

use super::lines::is_of;
use super::view::faults::{CONFLICTS, SLOW_MILLIS, ViewFault};

/// The faults that the terminal view has injected. Dropping the injector ends the faults.
#[derive(Debug)]
pub(crate) struct Injector {
    server: ApiServer,
    guards: BTreeMap<ViewFault, FaultGuard>,
}

/// The part of the delay of a slow link that is random, in milliseconds.
const JITTER_MILLIS: u64 = SLOW_MILLIS / 2;

impl Injector {
    pub(crate) fn new(server: ApiServer) -> Self {
        Self {
            server,
            guards: BTreeMap::new(),
        }
    }

    /// Injects a fault. Conflicts affect only the requests of `program`; an outage affects every client.
    pub(crate) fn inject(&mut self, fault: ViewFault, program: &str) -> Result<(), String> {
        let faults = self.server.faults();
        let guard = match fault {
            ViewFault::CutWatches => {
                faults.cut_watches();
                None
            }
            ViewFault::Expiry => {
                self.server.compact();
                faults.expire_watches();
                None
            }
            ViewFault::Conflicts => {
                let program = program.to_owned();
                let why = "a conflict that the view of cargo steersman dev injects";
                let answer = Answer::code(409).times(CONFLICTS).message(why);
                let fits = move |record: &RequestRecord| is_write_of(record, &program);
                Some(faults.answer_matching(fits, answer))
            }
            ViewFault::Outage => {
                let why = "an outage that the view of cargo steersman dev injects";
                let guard = faults.add(Answer::code(503).message(why).into());
                let guard = guard.map_err(|status| status.message)?;
                faults.break_watches();
                Some(guard)
            }
            ViewFault::SlowLink => {
                let delay = FaultSpec::new(Effect::Delay {
                    millis: SLOW_MILLIS,
                    jitter_millis: JITTER_MILLIS,
                });
                Some(faults.add(delay).map_err(|status| status.message)?)
            }
        };
        if let Some(guard) = guard {
            self.guards.insert(fault, guard);
        }
        Ok(())
    }

    pub(crate) fn lift(&mut self, fault: ViewFault) {
        self.guards.remove(&fault);
    }

    /// Removes a fault that has had its full effect, and returns it.
    pub(crate) fn spent(&mut self) -> Option<ViewFault> {
        let conflicts = self.guards.get(&ViewFault::Conflicts)?;
        let is_spent = conflicts.hits() >= u64::from(CONFLICTS);
        is_spent.then(|| {
            self.guards.remove(&ViewFault::Conflicts);
            ViewFault::Conflicts
        })
    }
}

/// Returns whether a request of the program writes an object other than an Event: lost Events do no harm.
fn is_write_of(record: &RequestRecord, program: &str) -> bool {
    let is_write = matches!(
        record.verb,
        Some(Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    );
    is_write && record.resource != "events" && is_of(record, program)
}
