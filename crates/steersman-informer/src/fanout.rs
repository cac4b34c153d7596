//! Machine: who is subscribed, and what each has not yet seen.

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

/// The subscribers of one informer, each to what one view makes of it.
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

    /// Seats a subscriber who first gets `present` (FAN-1), and, where the view is synced already,
    /// the marker after it. To be called under the lock that distributes.
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
        // Where nothing happens, nobody else clears the seats that were left.
        self.mailboxes
            .retain(|(_, mailbox)| !mailbox.is_abandoned());
        self.mailboxes.push((handle.id(), Arc::clone(&mailbox)));
        Subscription::new(mailbox, Arc::clone(handle))
    }

    /// Whether somebody is subscribed to what a view makes of the objects.
    pub(crate) fn has_subscriber(&self, view: ViewId) -> bool {
        self.mailboxes.iter().any(|(of, _)| *of == view)
    }

    /// Puts a view's events into the mailboxes of its subscribers; nobody waits for anybody
    /// (FAN-2).
    pub(crate) fn distribute(&mut self, view: ViewId, events: &[RawEvent]) {
        if !events.is_empty() {
            self.mailboxes
                .retain(|(of, mailbox)| *of != view || mailbox.push(events));
        }
    }

    /// Hands over what is there to those who joined a view before it could be looked at.
    pub(crate) fn fill<'a>(&mut self, view: ViewId, present: impl Iterator<Item = &'a RawEntry>) {
        let created = |entry: &RawEntry| Event::created(entry.clone(), Origin::Initial);
        let events: Vec<RawEvent> = present.map(created).collect();
        self.distribute(view, &events);
    }

    /// Everything that was there at the start has been distributed to a view's subscribers.
    pub(crate) fn mark_synced(&self, view: ViewId) {
        for (of, mailbox) in &self.mailboxes {
            if *of == view {
                mailbox.mark_synced();
            }
        }
    }

    /// No more events will come.
    pub(crate) fn close(&mut self) {
        for (_, mailbox) in self.mailboxes.drain(..) {
            mailbox.close();
        }
    }

    /// Those who may have something to take, to be woken after the lock is released.
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
