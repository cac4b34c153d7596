//! Machine: the subscribers of one informer, and the delivery of events to their mailboxes.

mod sync_marker;
mod mailbox;
mod subscription;

use std::sync::Arc;

use crate::entry::RawEntry;
use crate::event::{Event, Origin, RawEvent};
use crate::fanout::mailbox::Mailbox;
use crate::fanout::subscription::SharedMailbox;
use crate::store::{ViewHandle, ViewId};

pub use crate::fanout::subscription::{Delivery, Subscription};

/// The event queues (mailboxes) of all subscribers, each with the view that makes its events.
#[derive(Debug)]
pub(crate) struct Fanout {
    mailboxes: Vec<(ViewId, Arc<SharedMailbox>)>,
    bound: usize,
}

impl Fanout {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            mailboxes: Vec::new(),
            bound,
        }
    }

    /// Adds a subscriber, under the writer's lock. The subscriber gets the `present` objects first (FAN-1), and then,
    /// if `sync_marker` is set, the marker that ends the initial objects.
    pub(crate) fn join<'a, K>(
        &mut self,
        handle: &Arc<ViewHandle>,
        present: impl Iterator<Item = &'a RawEntry>,
        sync_marker: bool,
    ) -> Subscription<K> {
        let mut mailbox = Mailbox::new(self.bound);
        mailbox.fill(present.cloned());
        if sync_marker {
            mailbox.mark_synced();
        }
        let mailbox = Arc::new(SharedMailbox::new(mailbox));
        // Mailboxes of dropped subscriptions are removed here, or they would stay until the next event.
        self.mailboxes
            .retain(|(_, mailbox)| !mailbox.is_abandoned());
        self.mailboxes.push((handle.id, Arc::clone(&mailbox)));
        Subscription::new(mailbox, Arc::clone(handle))
    }

    pub(crate) fn has_subscriber(&self, view: ViewId) -> bool {
        self.mailboxes.iter().any(|(of, _)| *of == view)
    }

    /// Puts the events of a view into the mailboxes of its subscribers, without waiting (FAN-2).
    pub(crate) fn distribute(&mut self, view: ViewId, events: &[RawEvent]) {
        if !events.is_empty() {
            self.mailboxes
                .retain(|(of, mailbox)| *of != view || mailbox.push(events));
        }
    }

    /// Tells the subscribers of a view that objects were released: they left the store and may exist (SHARD-4).
    pub(crate) fn release(&mut self, view: ViewId, released: &[RawEntry]) {
        if !released.is_empty() {
            self.mailboxes
                .retain(|(of, mailbox)| *of != view || mailbox.release(released));
        }
    }

    /// Delivers the present objects to subscribers that joined before the view was ready.
    pub(crate) fn fill<'a>(&mut self, view: ViewId, present: impl Iterator<Item = &'a RawEntry>) {
        let created = |entry: &RawEntry| Event::created(entry.clone(), Origin::Initial);
        let events: Vec<RawEvent> = present.map(created).collect();
        self.distribute(view, &events);
    }

    /// Marks the end of the initial objects in the mailboxes of a view's subscribers.
    pub(crate) fn mark_synced(&self, view: ViewId) {
        for (of, mailbox) in &self.mailboxes {
            if *of == view {
                mailbox.mark_synced();
            }
        }
    }

    /// Empties all mailboxes of an ended informer (FAN-4). Returns the contents, to be freed without the writer's lock.
    pub(crate) fn discard(&self) -> Vec<Mailbox> {
        let mailboxes = self.mailboxes.iter();
        mailboxes.map(|(_, mailbox)| mailbox.discard()).collect()
    }

    pub(crate) fn close(&mut self) {
        for (_, mailbox) in self.mailboxes.drain(..) {
            mailbox.close();
        }
    }

    /// Returns the mailboxes that may have new events, to be notified after the writer's lock is released.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<SharedMailbox>> {
        self.mailboxes
            .iter()
            .map(|(_, mailbox)| Arc::clone(mailbox))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.mailboxes
            .iter()
            .filter(|(_, mailbox)| !mailbox.is_abandoned())
            .count()
    }
}
