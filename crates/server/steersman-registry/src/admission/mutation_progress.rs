//! Words: the progress of the mutating policies and webhooks of one write.

use std::sync::Arc;

use steersman_schema::resource::Resource;

use super::mutating_policies::Reinvocation;

/// The progress of the mutating policies and webhooks of one write, which a run that stops leaves to the next run.
#[derive(Debug, Default)]
pub(crate) struct MutationProgress {
    /// The number of the current round: 0, then 1 for the policies and webhooks that run again.
    pub(crate) round: usize,
    /// Whether the mutating policies of this round have run.
    pub(crate) has_policies: bool,
    /// The position, among the mutating webhooks, of the next one to call in this round.
    pub(crate) next: usize,
    /// The call that the next webhook waits for.
    pub(crate) asked: Option<AskedHook>,
    pub(crate) policies: Reinvocation,
    pub(crate) hooks: Reinvocation,
    /// Whether a policy or a webhook has changed the object.
    pub(crate) any: bool,
    /// Whether a webhook has changed the object in this round.
    by_hooks: bool,
}

/// A webhook for which a run of the verb stopped.
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

    /// Ends a round. Returns whether a second round is needed, and begins it.
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
