//! Handle: decides for each request of a controller whether this replica may work on it now.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::clock::now;
use steersman_object::{ObjectKey, ShardBy, ShardSlot, SlotSet};
use tokio::sync::{Notify, watch};

use crate::gate_machine::{Entrance, GateMachine};
use crate::machine::Holding;

/// The slots of this replica, for the parts of a program that work on objects. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShardGate {
    shared: Arc<GateShared>,
}

#[derive(Debug)]
struct GateShared {
    by: ShardBy,
    machine: Mutex<GateMachine>,
    /// The slots that the caches hold.
    cached: watch::Sender<SlotSet>,
    /// The slots that are open. A receiver marks changes only when the set changes.
    open: watch::Sender<SlotSet>,
    /// Whether this replica may work at all: its Lease is renewed in time.
    renewed: watch::Sender<bool>,
    /// Wakes the driver of the membership when a slot is free for another member.
    drained: Notify,
}

/// The answer of a [`ShardGate`] to a request.
#[derive(Debug)]
pub enum ShardEntry {
    /// This replica works on the object until the permit is dropped.
    Open(ShardPermit),
    /// This replica owns the slot, and cannot work on it yet: its caches do not hold the slot, or its Lease is not
    /// renewed. Or it loses the slot, and its caches still hold it.
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
                machine: Mutex::default(),
                cached: watch::Sender::new(SlotSet::EMPTY),
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

    /// Returns the slots that the caches of this replica hold: those that it owns, and those that it loses while work on
    /// them runs.
    pub fn cached(&self) -> watch::Receiver<SlotSet> {
        self.shared.cached.subscribe()
    }

    /// Returns the slots on which this replica works. It may stop to work on them before the set shows it: when its Lease
    /// expires.
    pub fn open(&self) -> watch::Receiver<SlotSet> {
        self.shared.open.subscribe()
    }

    /// Keeps the caches of this replica in step with [`cached`](Self::cached). Never ends.
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
        let mut cached = self.cached();
        loop {
            let slots = *cached.borrow_and_update();
            tokio::select! {
                biased;
                _ = cached.changed() => continue,
                () = release(slots) => self.note_caches(slots, false),
            }
            tokio::select! {
                biased;
                // The gate holds the sender, so the wait cannot fail.
                _ = cached.changed() => continue,
                () = load(slots) => self.note_caches(slots, true),
            }
            let _ = cached.changed().await;
        }
    }

    fn note_caches(&self, slots: SlotSet, is_loaded: bool) {
        self.shared.machine.lock().handle_caches(slots, is_loaded);
        self.publish();
        self.shared.drained.notify_one();
    }

    /// Asks to work on the object with a key.
    pub fn enter(&self, key: &ObjectKey) -> ShardEntry {
        let slot = self.shared.by.slot_of(key);
        match self.shared.machine.lock().enter(slot, now()) {
            Entrance::Open => ShardEntry::Open(ShardPermit {
                gate: self.clone(),
                slot,
            }),
            Entrance::Waiting => ShardEntry::Waiting,
            Entrance::Foreign => ShardEntry::Foreign,
        }
    }

    pub(crate) fn set_holding(&self, holding: Holding) {
        self.shared.machine.lock().handle_holding(holding);
        self.publish();
    }

    /// Publishes the state of the machine. Each value is read under the lock of its channel, so that the last publisher
    /// publishes the newest state.
    fn publish(&self) {
        let machine = &self.shared.machine;
        replace(&self.shared.cached, || machine.lock().cached());
        replace(&self.shared.open, || machine.lock().open());
        replace(&self.shared.renewed, || machine.lock().is_renewed());
    }

    /// Returns whether work runs on any slot.
    pub(crate) fn is_working(&self) -> bool {
        self.shared.machine.lock().is_working()
    }

    /// Returns the slots that no other member may work on.
    pub(crate) fn busy(&self) -> SlotSet {
        self.shared.machine.lock().busy()
    }

    /// Waits until a slot may be free for another member. Cancel safe.
    pub(crate) async fn drained(&self) {
        self.shared.drained.notified().await;
    }
}

/// Replaces a published value; receivers are woken only if it has changed. An equal value is not written, because the
/// caller may hold a borrow of it.
fn replace<T: PartialEq>(published: &watch::Sender<T>, value: impl Fn() -> T) {
    if *published.borrow() == value() {
        return;
    }
    published.send_if_modified(|before| {
        let after = value();
        let is_new = *before != after;
        *before = after;
        is_new
    });
}

impl<'a> FollowedCaches<'a> {
    fn begin(gate: &'a ShardGate) -> Self {
        gate.shared.machine.lock().handle_followed(true);
        Self(gate)
    }
}

impl Drop for FollowedCaches<'_> {
    fn drop(&mut self) {
        self.0.shared.machine.lock().handle_followed(false);
        self.0.publish();
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
        let is_freed = self.gate.shared.machine.lock().handle_end(self.slot);
        // The end of a reconcile of an owned slot wakes no task.
        if is_freed {
            self.gate.publish();
            self.gate.shared.drained.notify_one();
        }
    }
}
