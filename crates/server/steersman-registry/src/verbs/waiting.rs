//! Machine: keeps a create that has stopped for webhooks, so that its next run continues if the registry is unchanged.
//!
//! A verb that stops for a webhook is run again (see `admission/attempt.rs`). If nothing was stored meanwhile, the next
//! run of a create would compute the same object, so it continues with the kept object. Otherwise the create begins
//! anew, and calls those webhooks again for which the reviewed object has changed (ADM-1).

use super::create::NewObject;
use crate::requests::rng::Rng;
use crate::state::registry::Registry;
use crate::state::verb_state::Warnings;

/// Identifies the content of a registry by four numbers: the revision of the store, the version of the catalogue, and
/// the numbers of writes of webhooks and of policies. If all are equal, the content is the same.
type RegistryEdition = [u64; 4];

/// A create that has stopped for webhooks, with the counters of the registry that its run has advanced.
#[derive(Debug)]
struct WaitingCreate {
    edition: RegistryEdition,
    new: NewObject,
    rng: Rng,
    last_address: u32,
    conversions: usize,
    warnings: Warnings,
}

impl Registry {
    fn edition(&self) -> RegistryEdition {
        let (store, catalogue) = (self.store.revision(), self.catalogue.version);
        let of = &self.presence;
        [store, catalogue, of.webhooks_edition, of.policies_edition]
    }

    /// Keeps a create for the next run of the verb, if it has failed because the response of a webhook is missing.
    pub(crate) fn keep_waiting(&mut self, new: NewObject) {
        if !self.is_waiting() {
            return;
        }
        let edition = self.edition();
        let verb_state = self.verb_state.get_mut();
        verb_state.waiting = Some(Box::new(WaitingCreate {
            edition,
            new,
            rng: self.rng.clone(),
            last_address: self.last_address,
            conversions: verb_state.conversions,
            warnings: verb_state.warnings.clone(),
        }));
    }

    /// Returns the create that the last run kept; `None` if no create was kept, or if the registry has changed since.
    pub(crate) fn take_waiting(&mut self) -> Option<NewObject> {
        let waiting = self.verb_state.get_mut().waiting.take()?;
        let waiting = waiting.downcast::<WaitingCreate>().ok()?;
        if waiting.edition != self.edition() {
            return None;
        }
        self.rng = waiting.rng;
        self.last_address = waiting.last_address;
        let verb_state = self.verb_state.get_mut();
        verb_state.conversions = waiting.conversions;
        verb_state.warnings = waiting.warnings;
        Some(waiting.new)
    }
}
