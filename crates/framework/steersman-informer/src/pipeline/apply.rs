//! Driver: applies deltas to the store and delivers the events to subscribers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::RwLockWriteGuard;
use steersman_api::clock::now;
use steersman_api::{Decoded, Malformed, Projection};
use steersman_object::{ResourceVersion, SlotSet};

use super::{Core, RunState, StoreWriter, projection_index};
use crate::chunked_vec::ChunkedVec;
use crate::delta::{Arrived, Delta, DeltaItem, key_of};
use crate::entry::RawEntry;
use crate::event::Origin;
use crate::queue::Queued;
use crate::store::{Effects, Relist, StoreChange, ViewSnapshot};
use crate::view_results::ViewResults;

/// The largest number of changes that become visible together: a read waits for no more of them (STORE-9).
const SECTION: usize = 64;

/// What is known of a complete list besides its objects.
struct CompleteList {
    version: ResourceVersion,
    /// How much of each object the list asked for.
    projection: Projection,
    /// The slots of which the list has all objects.
    loaded: SlotSet,
}

impl Core {
    /// Applies the queued deltas, and records how long they waited. Returns the entries to pack (compress).
    pub(super) fn apply_queued(&self, batch: Vec<Queued>) -> Vec<RawEntry> {
        let entries = batch.iter().filter_map(|queued| entry(&queued.delta));
        let entries = entries.collect();
        let gauges = self.counters.gauges();
        let counted = gauges.map(|gauges| (gauges, batch.len(), arrivals(&batch)));
        self.apply(batch.into_iter().map(|queued| queued.delta).collect());
        if let Some((gauges, deltas, arrivals)) = counted {
            gauges.dequeue(deltas);
            let now = now();
            for since in arrivals {
                self.counters.handed_over(now - since);
            }
        }
        entries
    }

    pub(super) fn apply(&self, batch: Vec<Delta>) {
        let mut writer = self.writer.lock();
        // FAN-4: an ended informer applies nothing, although its run goes on until it is cancelled.
        if writer.run == RunState::Ended {
            return;
        }
        self.drop_unused_views();
        let mut loaded = self.release_lost(&mut writer);
        let mut decoders = self.decoders();
        let mut changes = Vec::with_capacity(batch.len());
        for delta in batch {
            match delta {
                // SHARD-4: the slot was lost after the object had arrived.
                Delta::Put(Arrived { item, .. }) | Delta::Removed(Arrived { item, .. })
                    if !self.holds_slot(&loaded, key_of(&item)) =>
                {
                    changes.push(StoreChange::Advance(version_of(&item).clone()));
                }
                Delta::Put(Arrived { item, report }) => {
                    let results = decoders.results(&item, report, false);
                    changes.push(StoreChange::Put(item, results));
                }
                Delta::Removed(Arrived { item, report }) => {
                    let results = decoders.results(&item, report, true);
                    changes.push(StoreChange::Removed(item, results));
                }
                Delta::Bookmark { version } | Delta::Passed { version } => {
                    changes.push(StoreChange::Advance(version))
                }
                Delta::Resync => {
                    self.change(&mut writer, std::mem::take(&mut changes));
                    let repeated = self.shared.indexer.read().repeated();
                    self.distribute(&mut writer, &repeated);
                }
                Delta::Replaced {
                    version,
                    items,
                    projection,
                    relists,
                    slots,
                } => {
                    self.change(&mut writer, std::mem::take(&mut changes));
                    loaded = self.loaded_by(slots);
                    self.release_besides(&mut writer, &loaded);
                    let list = CompleteList {
                        version,
                        projection,
                        loaded,
                    };
                    self.replace(&mut writer, items, list);
                    self.progress
                        .send_modify(|progress| progress.relists = relists);
                    // VIEW-3: views that waited for this list are ready now, and decode the later changes.
                    decoders = self.decoders();
                }
            }
        }
        self.change(&mut writer, changes);
        self.entries.sweep();
        let mailboxes = writer.fanout.mailboxes();
        drop(writer);
        // RYOW-2: notified after the change is in the store, so that a woken task sees it.
        self.notify_applied();
        for mailbox in mailboxes {
            mailbox.notify();
        }
    }

    fn decoders(&self) -> Arc<ViewSnapshot> {
        self.shared.indexer.read().decoders()
    }

    /// Notifies tasks that wait for the store or the state to change.
    pub(super) fn notify_applied(&self) {
        self.applied
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Applies changes in sections, each of which becomes visible as a whole (STORE-1).
    pub(super) fn change(&self, writer: &mut StoreWriter, changes: Vec<StoreChange>) {
        if changes.is_empty() {
            return;
        }
        let mut effects = self.shared.indexer.read().unchanged();
        for together in sections(changes) {
            let mut indexer = self.shared.indexer.write();
            for change in together {
                indexer.apply(change, &mut effects);
            }
            // STORE-9: readers that wait get the lock before the next section.
            RwLockWriteGuard::unlock_fair(indexer);
        }
        self.distribute(writer, &effects);
    }

    /// Builds the store after a relist beside the present store, and swaps it in (STORE-1).
    fn replace(&self, writer: &mut StoreWriter, items: ChunkedVec<Arrived>, list: CompleteList) {
        let CompleteList {
            version,
            projection,
            loaded,
        } = list;
        let reached = self.reached();
        let origin = if reached.is_some() {
            Origin::Live
        } else {
            Origin::Initial
        };
        let stored = self.shared.indexer.read();
        let decoders = stored.decoders();
        let objects = items.len();
        // SHARD-6: slots that were lost while the list ran are not part of it.
        let held = |arrived: &Arrived| self.holds_slot(&loaded, key_of(&arrived.item));
        let items = items.into_items().filter(held);
        let items = items.map(|Arrived { item, report }| {
            let is_stored = |entry: &RawEntry| {
                let same = stored.get(entry.key());
                same.is_some_and(|stored| entry.is_unchanged_from(stored))
            };
            let results = match &item {
                Decoded::Good(entry) if is_stored(entry) => ViewResults::default(),
                item => decoders.results(item, report, false),
            };
            (item, results)
        });
        let has_subscriber = |view| writer.fanout.has_subscriber(view);
        let relist = Relist {
            objects,
            version,
            origin,
            projection,
            loaded,
        };
        let (mut next, effects) = stored.replaced(items, relist, has_subscriber);
        drop(stored);
        // The new store is not shared yet, so index functions run without a lock that readers need.
        let fresh = next.reach(projection);
        let before = std::mem::replace(&mut *self.shared.indexer.write(), next);
        // The old store is freed after the lock is released, because it may hold many objects.
        drop(before);
        self.distribute(writer, &effects);
        self.publish_loaded(loaded);
        for view_effects in fresh {
            self.log_malformed(&view_effects.malformed);
            let indexer = self.shared.indexer.read();
            let view = indexer.view(view_effects.view).into_iter();
            let present = view.flat_map(|view| indexer.seen(view, None));
            writer.fanout.fill(view_effects.view, present);
        }
        if reached < Some(projection) {
            self.reach(writer, projection);
        }
        self.entries.wake_training();
    }

    /// Marks the store as complete for readers that need at most `projection`.
    fn reach(&self, writer: &StoreWriter, projection: Projection) {
        let before = self.reached();
        {
            let indexer = self.shared.indexer.read();
            for view in indexer.views() {
                if before < Some(view.needs) && view.needs <= projection {
                    writer.fanout.mark_synced(view.id);
                }
            }
            if before.is_none() {
                tracing::info!(kind = %self.name, objects = indexer.len(), "synced");
            }
        }
        for needs in Projection::ALL {
            if needs <= projection {
                self.synced[projection_index(needs)].store(true, Ordering::Release);
            }
        }
        self.progress
            .send_modify(|progress| progress.reached = Some(projection));
        self.publish(writer);
    }

    /// Delivers the events of changes that the store already has (FAN-3).
    fn distribute(&self, writer: &mut StoreWriter, effects: &Effects) {
        self.log_malformed(&effects.malformed);
        self.counters.events(effects.counts.in_words());
        if let Some(gauges) = self.counters.gauges() {
            let indexer = self.shared.indexer.read();
            gauges.hold(indexer.len(), indexer.unreadable(), indexer.bytes());
            gauges.reach(indexer.version());
        }
        for view_effects in &effects.views {
            self.log_malformed(&view_effects.malformed);
            writer
                .fanout
                .distribute(view_effects.view, &view_effects.events);
            writer
                .fanout
                .release(view_effects.view, &view_effects.released);
        }
    }

    pub(super) fn log_malformed(&self, malformed: &[Malformed]) {
        for malformed in malformed {
            tracing::warn!(
                kind = %self.name,
                object = %malformed.key,
                version = %malformed.version,
                error = %malformed.error,
                "an object does not decode; readers keep its last good version"
            );
        }
    }
}

fn version_of(item: &DeltaItem) -> &ResourceVersion {
    match item {
        Decoded::Good(entry) => entry.version(),
        Decoded::Malformed(malformed) => &malformed.version,
    }
}

fn entry(delta: &Delta) -> Option<RawEntry> {
    match delta {
        Delta::Put(arrived) | Delta::Removed(arrived) => match &arrived.item {
            Decoded::Good(entry) => Some(entry.clone()),
            Decoded::Malformed(_) => None,
        },
        Delta::Replaced { .. } | Delta::Passed { .. } | Delta::Bookmark { .. } | Delta::Resync => {
            None
        }
    }
}

/// Splits changes into sections. Waiting readers get the lock between two sections (STORE-9).
fn sections(changes: Vec<StoreChange>) -> impl Iterator<Item = Vec<StoreChange>> {
    let mut rest = changes.into_iter();
    std::iter::from_fn(move || {
        let together: Vec<StoreChange> = rest.by_ref().take(SECTION).collect();
        (!together.is_empty()).then_some(together)
    })
}

/// Returns the arrival times of the deltas with objects, for the metric of the latency of events.
fn arrivals(batch: &[Queued]) -> Vec<Instant> {
    let is_event = |queued: &&Queued| {
        let delta = &queued.delta;
        let has_none = matches!(
            delta,
            Delta::Passed { .. } | Delta::Bookmark { .. } | Delta::Resync
        );
        !has_none
    };
    let events = batch.iter().filter(is_event);
    events.map(|queued| queued.since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // STORE-9
    #[test]
    fn store_9_changes_are_applied_in_order_and_in_sections() {
        let version = |number: usize| ResourceVersion::new(number.to_string());
        let changes = (0..2 * SECTION + 1).map(|number| StoreChange::Advance(version(number)));
        let sections: Vec<Vec<StoreChange>> = sections(changes.collect()).collect();
        let lengths: Vec<usize> = sections.iter().map(Vec::len).collect();
        assert_eq!(lengths, [SECTION, SECTION, 1]);
        for (number, change) in sections.into_iter().flatten().enumerate() {
            assert!(matches!(change, StoreChange::Advance(at) if at == version(number)));
        }
    }
}
