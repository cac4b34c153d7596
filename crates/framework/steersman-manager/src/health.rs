//! Words: the health of a manager: named checks with their findings.

use std::fmt;

use steersman_cache::{InformerFailure, Unsynced};
use steersman_controller::HandlerFailure;

/// The health of a manager at one moment, from [`Manager::health`](crate::Manager::health) or
/// [`RunContext::health`](crate::RunContext::health).
///
/// `Display` prints one line per [check](Self::checks), and one per finding.
#[derive(Clone, Debug, Default, derive_more::Display)]
#[display("{}", self.checks().map(|check| check.to_string()).join("\n"))]
#[non_exhaustive]
pub struct Health {
    /// The informers that do not follow their server: their kind is unavailable, or their watch fails.
    pub informers: Vec<InformerHealth>,
    /// The controllers of the manager, by name.
    pub controllers: Vec<ControllerHealth>,
}

/// An informer that does not follow its server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerHealth {
    /// The address of the API server.
    pub cluster: String,
    /// The kind, the reason why the informer fails, and how to correct it.
    pub failure: InformerFailure,
    /// The names of the manager's controllers that watch the kind, in order.
    pub controllers: Vec<String>,
}

/// The health of one controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerHealth {
    /// The name of the controller.
    pub name: String,
    /// Whether the controller was started and waits for the first sync of a watched kind.
    pub is_waiting: bool,
    /// The informers that the controller waits for, with the reason and the remedy.
    pub waiting_for: Vec<Unsynced>,
    /// The number of events lost to panics of the controller's predicates, handlers and filters.
    pub handler_panics: u64,
    /// The last panic of a predicate, handler or filter.
    pub last_handler_panic: Option<HandlerFailure>,
    /// The number of events lost to errors of the controller's asynchronous handlers.
    pub handler_errors: u64,
    /// The last error of an asynchronous handler.
    pub last_handler_error: Option<HandlerFailure>,
}

/// A check and its findings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The name of the check: `informers`, `controllers` or `handlers`.
    pub name: &'static str,
    /// Whether the check passes.
    pub is_ok: bool,
    /// The findings, one sentence each.
    pub findings: Vec<String>,
}

impl Health {
    /// Returns whether every check passes.
    pub fn is_ok(&self) -> bool {
        self.checks().iter().all(|check| check.is_ok)
    }

    /// Returns the checks. `informers` passes if each informer follows its server, and `controllers` if no controller
    /// waits for a first sync. `handlers` names panics of predicates, handlers and filters, and errors of asynchronous
    /// handlers; it always passes, because a lost event prevents no later work.
    pub fn checks(&self) -> [Check; 3] {
        let informers = self.informers.iter().map(ToString::to_string).collect();
        let waiting = self.controllers.iter().filter(|c| c.is_waiting);
        let waiting: Vec<String> = waiting.map(ControllerHealth::waits).collect();
        let lost = self
            .controllers
            .iter()
            .flat_map(ControllerHealth::lost_events);
        [
            Check::new("informers", self.informers.is_empty(), informers),
            Check::new("controllers", waiting.is_empty(), waiting),
            Check::new("handlers", true, lost.collect()),
        ]
    }
}

impl Check {
    pub(crate) fn new(name: &'static str, is_ok: bool, findings: Vec<String>) -> Self {
        Self {
            name,
            is_ok,
            findings,
        }
    }
}

impl ControllerHealth {
    fn waits(&self) -> String {
        if self.waiting_for.is_empty() {
            // All kinds have synced, and their objects are not yet in the controller's queue.
            return format!("{} is about to start", self.name);
        }
        let kinds: Vec<String> = self.waiting_for.iter().map(of_kind).collect();
        format!("{} waits for {}", self.name, kinds.join(", "))
    }

    fn lost_events(&self) -> impl Iterator<Item = String> {
        let (name, panics, errors) = (&self.name, self.handler_panics, self.handler_errors);
        let last = self.last_handler_panic.as_ref();
        let panics = last
            .map(|last| format!("{name} lost events to panics: {panics}, the last one at {last}"));
        let last = self.last_handler_error.as_ref();
        let errors = last
            .map(|last| format!("{name} lost events to errors: {errors}, the last one at {last}"));
        panics.into_iter().chain(errors)
    }
}

fn of_kind(unsynced: &Unsynced) -> String {
    format!("{} ({})", unsynced.kind, unsynced.reason.as_str())
}

impl fmt::Display for InformerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cluster)?;
        match &*self.controllers {
            [] => {}
            [one] => write!(f, ", for controller {one}")?,
            several => write!(f, ", for controllers {}", several.join(", "))?,
        }
        // Placed last, because the failure may end with an RBAC rule to copy.
        write!(f, ": {}", self.failure)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_ok { "ok" } else { "not ok" };
        write!(f, "{}: {word}", self.name)?;
        for finding in &self.findings {
            write!(f, "\n  {finding}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MGR-6
    #[test]
    fn a_controller_with_synced_kinds_is_named_as_about_to_start() {
        let controller = ControllerHealth {
            name: "shop".to_owned(),
            is_waiting: true,
            waiting_for: Vec::new(),
            handler_panics: 0,
            last_handler_panic: None,
            handler_errors: 0,
            last_handler_error: None,
        };
        let health = Health {
            controllers: vec![controller],
            ..Health::default()
        };
        assert_eq!(health.checks()[1].findings, ["shop is about to start"]);
    }
}
