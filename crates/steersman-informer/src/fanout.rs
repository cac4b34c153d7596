//! Machine: who is subscribed, and what each has not yet seen.

mod synced;
mod mailbox;
mod subscription;

use std::sync::Arc;

use steersman_object::Object;

use crate::entry::Entry;
use crate::event::Event;
use crate::fanout::mailbox::Mailbox;
use crate::fanout::subscription::Seat;

pub use crate::fanout::subscription::{Delivery, Subscription};

/// The subscribers of one informer.
#[derive(Debug)]
pub(crate) struct Fanout<K> {
    seats: Vec<Arc<Seat<K>>>,
    bound: usize,
}

impl<K: Object> Fanout<K> {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            seats: Vec::new(),
            bound,
        }
    }

    /// Seats a subscriber who first gets `present` (FAN-1), and, where the informer is synced
    /// already, the marker after it. To be called under the lock that distributes.
    pub(crate) fn join<'a>(
        &mut self,
        present: impl Iterator<Item = &'a Entry<K>>,
        synced: bool,
    ) -> Subscription<K> {
        let mut mailbox = Mailbox::new(self.bound);
        mailbox.fill(present.cloned());
        if synced {
            mailbox.mark_synced();
        }
        let seat = Arc::new(Seat::new(mailbox));
        // Where nothing happens, nobody else clears the seats that were left.
        self.seats.retain(|seat| !seat.is_left());
        self.seats.push(Arc::clone(&seat));
        Subscription::new(seat)
    }

    /// Puts events into every mailbox; nobody waits for anybody (FAN-2).
    pub(crate) fn distribute(&mut self, events: &[Event<K>]) {
        self.seats.retain(|seat| seat.push(events));
    }

    /// Everything that was there at the start has been distributed.
    pub(crate) fn mark_synced(&self) {
        for seat in &self.seats {
            seat.mark_synced();
        }
    }

    /// No more events will come.
    pub(crate) fn close(&mut self) {
        for seat in self.seats.drain(..) {
            seat.close();
        }
    }

    /// Those who may have something to take, to be woken after the lock is released.
    pub(crate) fn seats(&self) -> Vec<Arc<Seat<K>>> {
        self.seats.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.iter().filter(|seat| !seat.is_left()).count()
    }
}
