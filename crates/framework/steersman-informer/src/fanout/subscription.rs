//! Handle: a subscription, through which a subscriber reads its mailbox.

use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_object::ObjectKey;
use tokio::sync::Notify;

use crate::entry::RawEntry;
use crate::event::{Event, RawEvent};
use crate::fanout::mailbox::{Mailbox, Taken};
use crate::store::ViewHandle;

/// A delivery to a subscriber.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delivery<K> {
    /// An object changed.
    Event(Event<K>),
    /// All initial objects were delivered. Delivered exactly once.
    Synced,
    /// An object left the store because this replica lost its slot: it was not deleted, and another replica handles it.
    /// If the slot is gained again, the object is created again for this subscriber. Only informers with a
    /// [`ShardFilter`](crate::ShardFilter) release objects.
    Released(ObjectKey),
}

/// The events of an informer for one subscriber: each stored object as [`Created`](Event::Created), then
/// [`Delivery::Synced`], then changes.
///
/// Within its bound a subscriber gets every event. Beyond the bound, the events of one object are coalesced to the
/// change from the version that the subscriber took last to the current version, so a slow subscriber does not delay
/// other subscribers (FAN-2). No delete of an object that the subscriber has taken is lost.
///
/// Dropping the subscription unsubscribes.
#[derive(derive_more::Debug)]
#[debug("Subscription {{ .. }}")]
#[must_use = "a subscription that is dropped gets nothing"]
pub struct Subscription<K> {
    mailbox: Arc<SharedMailbox>,
    /// Keeps the view of `K` alive, because the events of this subscription come from the view.
    _handle: Arc<ViewHandle>,
    of: PhantomData<fn() -> K>,
}

#[derive(derive_more::Debug)]
#[debug("SharedMailbox {{ .. }}")]
pub(crate) struct SharedMailbox {
    state: Mutex<MailboxState>,
    notify: Notify,
}

struct MailboxState {
    mailbox: Mailbox,
    closed: bool,
    left: bool,
}

impl<K> Subscription<K> {
    pub(crate) fn new(mailbox: Arc<SharedMailbox>, handle: Arc<ViewHandle>) -> Self {
        Self {
            mailbox,
            _handle: handle,
            of: PhantomData,
        }
    }

    /// Waits for the next delivery. Returns `None` after the last delivery of a stopped informer. If the informer was
    /// [ended](crate::UntypedInformer::end), the waiting deliveries are discarded, and `None` follows at once (FAN-4).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no delivery.
    pub async fn next(&mut self) -> Option<Delivery<K>> {
        // Yields regularly, so that a mailbox that is never empty does not starve other tasks of the thread.
        tokio::task::coop::consume_budget().await;
        loop {
            let (taken, closed) = {
                let mut state = self.mailbox.state.lock();
                (state.mailbox.take(), state.closed)
            };
            match taken {
                Taken::Event(event) => return Some(Delivery::Event(event.cast())),
                Taken::Synced => return Some(Delivery::Synced),
                Taken::Released(key) => return Some(Delivery::Released(key)),
                Taken::Nothing if closed => return None,
                // `Notify` stores a permit, so a wake-up before this wait is not lost.
                Taken::Nothing => self.mailbox.notify.notified().await,
            }
        }
    }

    /// Returns the number of waiting deliveries.
    pub fn waiting(&self) -> usize {
        self.mailbox.state.lock().mailbox.len()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.mailbox.state.lock().left = true;
        // The waiting events are freed after the lock is released, because there may be many.
        drop(self.mailbox.discard());
    }
}

impl SharedMailbox {
    pub(crate) fn new(mailbox: Mailbox) -> Self {
        Self {
            state: Mutex::new(MailboxState {
                mailbox,
                closed: false,
                left: false,
            }),
            notify: Notify::new(),
        }
    }

    /// Adds events. Returns whether the subscription still exists.
    pub(crate) fn push(&self, events: &[RawEvent]) -> bool {
        let mut state = self.state.lock();
        if state.left {
            return false;
        }
        for event in events {
            state.mailbox.push(event.clone());
        }
        true
    }

    /// Adds released objects. Returns whether the subscription still exists.
    pub(crate) fn release(&self, released: &[RawEntry]) -> bool {
        let mut state = self.state.lock();
        if state.left {
            return false;
        }
        for entry in released {
            state.mailbox.release(entry);
        }
        true
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.lock().left
    }

    pub(crate) fn mark_synced(&self) {
        self.state.lock().mailbox.mark_synced();
    }

    /// Removes the waiting deliveries and returns them, to be freed by the caller.
    pub(crate) fn discard(&self) -> Mailbox {
        std::mem::replace(&mut self.state.lock().mailbox, Mailbox::new(0))
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.notify.notify_one();
    }

    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }
}
