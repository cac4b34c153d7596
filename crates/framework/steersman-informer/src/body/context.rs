//! Handle: the state that the bodies of one informer share.

use std::fmt;

use steersman_pack::{Budget, PackContext};

use crate::metrics::Counters;

/// The state that the bodies of one informer share.
pub(crate) struct BodyContext {
    pub(crate) pack: PackContext,
    counters: Counters,
    quotes: bool,
    changes_form: bool,
}

impl BodyContext {
    /// Returns the context of one informer. `secret` says that the objects are Secrets: errors do
    /// not quote them, and no dictionary is trained with them (PACK-4).
    pub(crate) fn new(budget: Budget, counters: Counters, secret: bool) -> Self {
        Self {
            pack: PackContext::new(budget, !secret),
            counters,
            quotes: !secret,
            changes_form: false,
        }
    }

    /// Sets whether an object may get another form without a new version: those of a definition do,
    /// when its conversion, its fields or its defaults change.
    pub(crate) fn with_form_changes(mut self, changes_form: bool) -> Self {
        self.changes_form = changes_form;
        self
    }

    /// Returns whether an object may get another form without a new version.
    pub(crate) fn changes_form(&self) -> bool {
        self.changes_form
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns whether an error may quote values of an object.
    pub(crate) fn quotes(&self) -> bool {
        self.quotes
    }
}

#[cfg(test)]
impl BodyContext {
    /// Returns a context without an informer.
    pub(crate) fn alone(budget: Budget) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::new(budget, Counters::default(), false))
    }
}

impl fmt::Debug for BodyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyContext").finish_non_exhaustive()
    }
}
