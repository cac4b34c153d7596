//! Words: the progress of the mutating policies and webhooks of one write; a verb that stops for a call keeps it.

use std::sync::Arc;

use steersman_schema::resource::Resource;

use super::mutating_policies::Reinvocation;

/// The progress of the mutating policies and webhooks of one write. If the verb stops for a webhook call, its next run
/// continues from here.
#[derive(Debug, Default)]
pub(crate) struct MutationProgress {
    /// The current round: in round 0 all policies and webhooks run; in round 1 those that run a second time because the
    /// object changed after their run.
    pub(crate) round: usize,
    /// Whether the mutating policies have run in the current round; they run before the webhooks.
    pub(crate) has_policies: bool,
    /// The index, in the list of mutating webhooks, of the next webhook to call in the current round.
    pub(crate) next: usize,
    /// The webhook call for which the last run of the verb stopped; `None` if it did not stop for a call.
    pub(crate) asked: Option<AskedHook>,
    pub(crate) policies: Reinvocation,
    pub(crate) hooks: Reinvocation,
    /// Whether any policy or webhook has changed the object, in any round.
    pub(crate) any: bool,
    /// Whether any webhook has changed the object in the current round; then policies may have to run again.
    by_hooks: bool,
}

/// A webhook call for which a verb has stopped: its key, and the resource with which the webhook matched.
#[derive(Debug)]
pub(crate) struct AskedHook {
    pub(crate) key: String,
    pub(crate) resource: Arc<Resource>,
}

impl MutationProgress {
    pub(crate) fn end_policies(&mut self, changed: bool) {
        self.has_policies = true;
        self.any |= changed;
        if changed {
            self.hooks.require();
        }
    }

    pub(crate) fn end_hook(&mut self) {
        self.any = true;
        self.by_hooks = true;
        self.hooks.require();
    }

    /// Ends the current round. Returns true if a policy or webhook must run again; then round 1 is the current round.
    pub(crate) fn begin_second_round(&mut self) -> bool {
        if self.by_hooks {
            self.policies.require();
        }
        let is_due = self.policies.is_any_due() || self.hooks.is_any_due();
        if self.round == 1 || !is_due {
            return false;
        }
        self.round = 1;
        self.next = 0;
        self.has_policies = false;
        self.by_hooks = false;
        true
    }
}
