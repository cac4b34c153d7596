//! Machine: who is subscribed, and what each has not yet seen.

mod synced;
mod mailbox;
mod subscription;

use std::sync::Arc;

use crate::entry::RawEntry;
use crate::event::{Event, Origin, RawEvent};
use crate::fanout::mailbox::Mailbox;
use crate::fanout::subscription::Seat;
use crate::store::{Held, ViewId};

pub use crate::fanout::subscription::{Delivery, Subscription};

/// The subscribers of one informer, each to what one view makes of it.
#[derive(Debug)]
pub(crate) struct Fanout {
    seats: Vec<(ViewId, Arc<Seat>)>,
    bound: usize,
}

impl Fanout {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            seats: Vec::new(),
            bound,
        }
    }

    /// Seats a subscriber who first gets `present` (FAN-1), and, where the view is synced already,
    /// the marker after it. To be called under the lock that distributes.
    pub(crate) fn join<'a, K>(
        &mut self,
        held: &Arc<Held>,
        present: impl Iterator<Item = &'a RawEntry>,
        synced: bool,
    ) -> Subscription<K> {
        let mut mailbox = Mailbox::new(self.bound);
        mailbox.fill(present.cloned());
        if synced {
            mailbox.mark_synced();
        }
        let seat = Arc::new(Seat::new(mailbox));
        // Where nothing happens, nobody else clears the seats that were left.
        self.seats.retain(|(_, seat)| !seat.is_left());
        self.seats.push((held.id(), Arc::clone(&seat)));
        Subscription::new(seat, Arc::clone(held))
    }

    /// Whether somebody is subscribed to what a view makes of the objects.
    pub(crate) fn has_seat(&self, view: ViewId) -> bool {
        self.seats.iter().any(|(of, _)| *of == view)
    }

    /// Puts a view's events into the mailboxes of its subscribers; nobody waits for anybody
    /// (FAN-2).
    pub(crate) fn distribute(&mut self, view: ViewId, events: &[RawEvent]) {
        if !events.is_empty() {
            self.seats
                .retain(|(of, seat)| *of != view || seat.push(events));
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
        for (of, seat) in &self.seats {
            if *of == view {
                seat.mark_synced();
            }
        }
    }

    /// No more events will come.
    pub(crate) fn close(&mut self) {
        for (_, seat) in self.seats.drain(..) {
            seat.close();
        }
    }

    /// Those who may have something to take, to be woken after the lock is released.
    pub(crate) fn seats(&self) -> Vec<Arc<Seat>> {
        self.seats
            .iter()
            .map(|(_, seat)| Arc::clone(seat))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.seats
            .iter()
            .filter(|(_, seat)| !seat.is_left())
            .count()
    }
}
