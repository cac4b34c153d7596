//! Handle: the state that the bodies of one informer share.

use steersman_pack::{Budget, PackContext};

use crate::metrics::Counters;

pub(crate) struct BodyContext {
    pub(crate) pack: PackContext,
    pub(crate) counters: Counters,
    /// Whether error messages may quote values of an object; false for Secrets.
    pub(crate) quotes: bool,
    /// Whether the JSON of an object may change without a new resource version: true for custom resources, because the
    /// conversion, fields or defaults of their definition may change.
    pub(crate) changes_form: bool,
}

impl BodyContext {
    /// Makes the shared state of one informer's bodies. `secret`: the objects are Secrets, so errors quote no values,
    /// and no compression dictionary is trained with the objects (PACK-4).
    pub(crate) fn new(budget: Budget, counters: Counters, secret: bool) -> Self {
        Self {
            pack: PackContext::new(budget, !secret),
            counters,
            quotes: !secret,
            changes_form: false,
        }
    }
}
