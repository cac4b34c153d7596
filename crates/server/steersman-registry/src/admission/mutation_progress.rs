//! Words: how far the mutating policies and webhooks of one write have come.

use std::sync::Arc;

use steersman_schema::resource::Resource;

use super::mutating_policies::Reinvocation;

/// How far the mutating policies and webhooks of one write have come, so that the next run of the verb goes on there.
#[derive(Debug, Default)]
pub(crate) struct MutationProgress {
    /// The current round: 0, or 1 for the second round with only the policies and webhooks that run again.
    pub(crate) round: usize,
    /// Whether the mutating policies have run in this round.
    pub(crate) has_policies: bool,
    /// The index of the next mutating webhook to call in this round.
    pub(crate) next: usize,
    /// The webhook call that has no answer yet; `None` if no call is open.
    pub(crate) asked: Option<AskedHook>,
    pub(crate) policies: Reinvocation,
    pub(crate) hooks: Reinvocation,
    /// Whether any policy or webhook has changed the object, in any round.
    pub(crate) any: bool,
    /// Whether any webhook has changed the object in this round.
    by_hooks: bool,
}

/// A webhook with a call that has no answer yet, for which the verb stopped.
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

    /// Ends a round. Returns true if a second round follows, which then is the current one.
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
