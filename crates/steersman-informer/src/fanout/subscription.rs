//! Handle: one subscriber's end of its mailbox: what is there, then what happens.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::event::{Event, RawEvent};
use crate::fanout::mailbox::{Mailbox, Taken};
use crate::store::ViewHandle;

/// What a subscriber gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delivery<K> {
    /// Something happened.
    Event(Event<K>),
    /// The initial set has been handed over. Comes exactly once.
    Synced,
}

/// One subscriber's view of an informer: each object that is there as a
/// [`Created`](Event::Created), then [`Delivery::Synced`], then what happens.
///
/// Within its bound a subscriber gets every event. One that does not keep up costs only itself
/// (`FAN-2`): past the bound, what waits for one object becomes a single step from what was last
/// taken to what is, and no delete of an object it has taken is lost.
///
/// Dropping it unsubscribes.
#[must_use = "a subscription that is dropped gets nothing"]
pub struct Subscription<K> {
    mailbox: Arc<SharedMailbox>,
    /// Events come as long as somebody looks at objects as `K`.
    _held: Arc<ViewHandle>,
    of: PhantomData<fn() -> K>,
}

/// A mailbox and the bell that rings when something was put into it.
pub(crate) struct SharedMailbox {
    state: Mutex<MailboxState>,
    notify: Notify,
}

struct MailboxState {
    mailbox: Mailbox,
    /// Nothing will come any more.
    closed: bool,
    /// Nobody will take anything any more.
    left: bool,
}

impl<K> Subscription<K> {
    pub(crate) fn new(mailbox: Arc<SharedMailbox>, handle: Arc<ViewHandle>) -> Self {
        Self {
            mailbox,
            _held: handle,
            of: PhantomData,
        }
    }

    /// The next delivery, once there is one; `None` after the informer has stopped and all that
    /// waited was taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Delivery<K>> {
        // A mailbox that never runs empty must not keep the thread from other tasks.
        tokio::task::coop::consume_budget().await;
        loop {
            let (taken, closed) = {
                let mut state = self.mailbox.state.lock();
                (state.mailbox.take(), state.closed)
            };
            match taken {
                Taken::Event(event) => return Some(Delivery::Event(event.cast())),
                Taken::Synced => return Some(Delivery::Synced),
                Taken::Nothing if closed => return None,
                // The bell keeps one ring for whoever was not waiting: no wake-up is lost.
                Taken::Nothing => self.mailbox.notify.notified().await,
            }
        }
    }

    /// How many deliveries wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.mailbox.state.lock().mailbox.len()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        let waited = {
            let mut state = self.mailbox.state.lock();
            state.left = true;
            std::mem::replace(&mut state.mailbox, Mailbox::new(0))
        };
        // Dropped after the lock: freeing many objects takes a while.
        drop(waited);
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMailbox").finish_non_exhaustive()
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

    /// Puts events in; says whether somebody still sits here.
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

    /// Whether nobody sits here any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.lock().left
    }

    pub(crate) fn mark_synced(&self) {
        self.state.lock().mailbox.mark_synced();
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.notify.notify_one();
    }

    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }
}
