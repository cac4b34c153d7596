//! Driver: follows the slots that this replica wants: begins lists of them, passes the versions of foreign objects on,
//! and rests while no slot is wanted.

use steersman_api::ListWatch;
use steersman_object::ResourceVersion;

use super::{DeltaSink, Reflector, ReflectorHost, now};
use crate::chunked_vec::ChunkedVec;
use crate::delta::{Delta, EventType};

impl<L: ListWatch, S: DeltaSink, H: ReflectorHost> Reflector<L, S, H> {
    /// Begins a list at a version. Returns false if it would be a list of no slot.
    pub(super) fn begin_list(&mut self, version: &ResourceVersion) -> bool {
        self.list_slots = self.host.begin_list(*version == ResourceVersion::unset());
        if self.list_slots.requested.is_empty() {
            return false;
        }
        let cause = self.machine.list_cause();
        self.request_metrics.begin_list(cause, now());
        self.partial_list.clear();
        true
    }

    /// SHARD-7: without a wanted slot, replaces the store by an empty one and waits, without a request, until a slot or
    /// a list is wanted.
    pub(super) async fn rest(&mut self) {
        self.machine.handle_no_slots(now());
        self.turn = None;
        self.partial_list.clear();
        self.list_slots = self.host.begin_list(true);
        if !self.list_slots.requested.is_empty() {
            // A slot was gained meanwhile, and the next step lists it.
            return;
        }
        let version = self.machine.position().clone();
        let replaced = self.replaced(version, ChunkedVec::default());
        self.sink.send(replaced).await;
        self.host.report(self.machine.problem());
        self.host.expect_nothing();
        let (projection, relists) = (self.projection, self.relists);
        self.host
            .wants_list(projection, relists, &self.list_slots)
            .await;
    }

    /// SHARD-5: handles an event of an object in a slot that is not followed. Its version still advances the watch and
    /// the store.
    pub(super) async fn foreign(
        &mut self,
        change: EventType,
        version: ResourceVersion,
        initial: bool,
    ) {
        if change != EventType::Added {
            self.machine.handle_live_event(now());
        }
        self.machine.handle_event(&version, now());
        if !initial {
            self.sink.send(Delta::Passed { version }).await;
        }
    }
}
