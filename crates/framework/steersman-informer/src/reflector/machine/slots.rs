//! Machine: the reaction of the reflector to changes of the slots that it follows.

use std::time::Instant;

use steersman_object::ResourceVersion;

use super::ReflectorMachine;
use crate::reflector::problems::ProblemTracker;
use crate::state::ListCause;

impl ReflectorMachine {
    /// SHARD-6: handles slots that are wanted and not followed: the next list asks for the newest state, because the
    /// former owner of a slot may have written after every version that this reflector has seen.
    pub(crate) fn handle_gained_slots(&mut self, now: Instant) {
        self.close(now);
        self.restart(ResourceVersion::unset(), ListCause::Slots);
    }

    /// SHARD-7: handles that no slot is wanted: no request is sent, so none fails.
    pub(crate) fn handle_no_slots(&mut self, now: Instant) {
        self.handle_gained_slots(now);
        self.problems = ProblemTracker::default();
    }

    /// Returns the version up to which the watch has delivered everything; unset before the first list.
    pub(crate) fn position(&self) -> &ResourceVersion {
        &self.position
    }
}
