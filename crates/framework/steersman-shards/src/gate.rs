//! Handle: decides for each request of a controller whether this replica may work on it now.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::clock::now;
use steersman_object::{ObjectKey, ShardBy, ShardSlot, SlotSet};
use tokio::sync::{Notify, watch};

use crate::machine::Holding;

/// The slots of this replica, for the parts of a program that work on objects. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShardGate {
    shared: Arc<GateShared>,
}

#[derive(Debug)]
struct GateShared {
    by: ShardBy,
    state: Mutex<GateState>,
    /// The slots that this replica owns; caches hold their objects.
    owned: watch::Sender<SlotSet>,
    /// The slots that are open. A receiver marks changes only when the set changes.
    open: watch::Sender<SlotSet>,
    /// Whether this replica may work at all: its Lease is renewed in time.
    renewed: watch::Sender<bool>,
    /// Wakes the driver of the membership when work on a slot has ended.
    drained: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    holding: Holding,
    /// The slots that the caches hold.
    loaded: SlotSet,
    /// Grows whenever the owned slots change.
    epoch: u64,
    /// Whether [`ShardGate::keep_loaded`] says what the caches hold.
    has_caches: bool,
    /// The slots that this replica no longer owns, and that its caches may still hold.
    releasing: SlotSet,
    /// The number of permits of each slot.
    running: BTreeMap<ShardSlot, usize>,
}

/// The answer of a [`ShardGate`] to a request.
#[derive(Debug)]
pub enum ShardEntry {
    /// This replica works on the object until the permit is dropped.
    Open(ShardPermit),
    /// This replica owns the slot, and cannot work on it yet: its caches do not hold the slot, or its Lease is not
    /// renewed.
    Waiting,
    /// Another replica works on the object.
    Foreign,
}

/// The permission to work on the objects of one slot. The slot goes to no other replica before it is dropped (SHARD-1).
#[derive(Debug)]
#[must_use = "the slot is released when the permit is dropped"]
pub struct ShardPermit {
    gate: ShardGate,
    slot: ShardSlot,
}

/// Makes the gate wait for the caches to release slots, until this value is dropped: then the caches have stopped.
struct FollowedCaches<'a>(&'a ShardGate);

impl ShardGate {
    pub(crate) fn new(by: ShardBy) -> Self {
        Self {
            shared: Arc::new(GateShared {
                by,
                state: Mutex::default(),
                owned: watch::Sender::new(SlotSet::EMPTY),
                open: watch::Sender::new(SlotSet::EMPTY),
                renewed: watch::Sender::new(false),
                drained: Notify::new(),
            }),
        }
    }

    /// Returns what decides the slot of an object.
    pub fn by(&self) -> ShardBy {
        self.shared.by
    }

    /// Returns the slots that this replica owns: its caches hold their objects.
    pub fn owned(&self) -> watch::Receiver<SlotSet> {
        self.shared.owned.subscribe()
    }

    /// Returns the slots on which this replica works. It may stop to work on them before the set shows it: when its Lease
    /// expires.
    pub fn open(&self) -> watch::Receiver<SlotSet> {
        self.shared.open.subscribe()
    }

    /// Keeps the caches of this replica in step with the slots that it owns, whenever these slots change. Never ends.
    ///
    /// `release` waits until the caches hold no other slots than the given ones: no other member works on a slot before
    /// (SHARD-1). `load` waits until the caches hold the given slots: this replica works on them after that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: another call continues.
    pub async fn keep_loaded<R, L>(
        &self,
        release: impl Fn(SlotSet) -> R,
        load: impl Fn(SlotSet) -> L,
    ) where
        R: Future<Output = ()>,
        L: Future<Output = ()>,
    {
        let _caches = FollowedCaches::begin(self);
        let mut owned = self.owned();
        loop {
            let slots = *owned.borrow_and_update();
            let epoch = self.shared.state.lock().epoch;
            release(slots).await;
            self.note_caches(epoch, None);
            tokio::select! {
                biased;
                // The gate holds the sender, so the wait cannot fail.
                _ = owned.changed() => continue,
                () = load(slots) => self.note_caches(epoch, Some(slots)),
            }
            let _ = owned.changed().await;
        }
    }

    /// Notes that the caches hold no other slots than those of an epoch, and these slots if they are given. Slots that
    /// were released and gained meanwhile are loaded once more.
    fn note_caches(&self, epoch: u64, loaded: Option<SlotSet>) {
        {
            let mut state = self.shared.state.lock();
            if state.epoch != epoch {
                return;
            }
            state.releasing = SlotSet::EMPTY;
            if let Some(loaded) = loaded {
                state.loaded = loaded;
            }
        }
        self.shared.drained.notify_one();
        self.publish();
    }

    /// Asks to work on the object with a key.
    pub fn enter(&self, key: &ObjectKey) -> ShardEntry {
        let slot = self.shared.by.slot_of(key);
        let mut state = self.shared.state.lock();
        let holding = state.holding;
        if !holding.slots.contains(slot) {
            return ShardEntry::Foreign;
        }
        // SHARD-3: the time counts, because the driver of the membership may be late.
        let may_work = holding.until.is_some_and(|until| now() < until);
        if !may_work || !state.loaded.contains(slot) {
            return ShardEntry::Waiting;
        }
        *state.running.entry(slot).or_default() += 1;
        ShardEntry::Open(ShardPermit {
            gate: self.clone(),
            slot,
        })
    }

    pub(crate) fn set_holding(&self, holding: Holding) {
        let before = {
            let mut state = self.shared.state.lock();
            let before = std::mem::replace(&mut state.holding, holding);
            if before.slots != holding.slots {
                state.epoch += 1;
                state.loaded = state.loaded.intersection(&holding.slots);
                if state.has_caches {
                    let lost = before.slots.difference(&holding.slots);
                    state.releasing = state.releasing.union(&lost);
                }
            }
            before
        };
        if before != holding {
            let may_work = holding.until.is_some();
            self.shared
                .renewed
                .send_if_modified(|before| std::mem::replace(before, may_work) != may_work);
            let set = |owned: &mut SlotSet| {
                let is_new = *owned != holding.slots;
                *owned = holding.slots;
                is_new
            };
            self.shared.owned.send_if_modified(set);
            self.publish();
        }
    }

    fn publish(&self) {
        let open = {
            let state = self.shared.state.lock();
            match state.holding.until {
                Some(_) => state.holding.slots.intersection(&state.loaded),
                None => SlotSet::EMPTY,
            }
        };
        self.shared.open.send_if_modified(|before| {
            let is_new = *before != open;
            *before = open;
            is_new
        });
    }

    /// Returns whether work runs on any slot.
    pub(crate) fn is_working(&self) -> bool {
        !self.shared.state.lock().running.is_empty()
    }

    /// Returns the slots on which work runs, or that the caches have not released yet.
    pub(crate) fn busy(&self) -> SlotSet {
        let state = self.shared.state.lock();
        let running: SlotSet = state.running.keys().copied().collect();
        running.union(&state.releasing)
    }

    /// Waits until work on a slot has ended, or the caches have released slots. Cancel safe.
    pub(crate) async fn drained(&self) {
        self.shared.drained.notified().await;
    }
}

impl<'a> FollowedCaches<'a> {
    fn begin(gate: &'a ShardGate) -> Self {
        gate.shared.state.lock().has_caches = true;
        Self(gate)
    }
}

impl Drop for FollowedCaches<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.0.shared.state.lock();
            state.has_caches = false;
            state.releasing = SlotSet::EMPTY;
        }
        self.0.shared.drained.notify_one();
    }
}

impl ShardPermit {
    /// Returns the slot.
    pub fn slot(&self) -> ShardSlot {
        self.slot
    }

    /// Waits until the Lease of this replica was not renewed in time: the work must stop at once (SHARD-3).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) {
        let mut renewed = self.gate.shared.renewed.subscribe();
        // The permit holds the sender, so the wait cannot fail.
        let _ = renewed.wait_for(|renewed| !renewed).await;
    }
}

impl Drop for ShardPermit {
    fn drop(&mut self) {
        let mut state = self.gate.shared.state.lock();
        let Some(count) = state.running.get_mut(&self.slot) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            state.running.remove(&self.slot);
            drop(state);
            self.gate.shared.drained.notify_one();
        }
    }
}
