//! Handle: the state that the bodies of one informer share.

use steersman_pack::{Budget, PackContext};

use crate::metrics::Counters;

pub(crate) struct BodyContext {
    pub(crate) pack: PackContext,
    pub(crate) counters: Counters,
    /// Whether an error may quote values of an object; not for Secrets.
    pub(crate) quotes: bool,
    /// Whether an object may get another form without a new version: objects of a custom definition do, when its
    /// conversion, fields or defaults change.
    pub(crate) changes_form: bool,
}

impl BodyContext {
    /// Returns the context of one informer. `secret` marks the objects as Secrets, which errors do not quote and no
    /// dictionary is trained with (PACK-4).
    pub(crate) fn new(budget: Budget, counters: Counters, secret: bool) -> Self {
        Self {
            pack: PackContext::new(budget, !secret),
            counters,
            quotes: !secret,
            changes_form: false,
        }
    }
}

#[cfg(test)]
impl BodyContext {
    pub(crate) fn alone(budget: Budget) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::new(budget, Counters::default(), false))
    }
}
