//! Handle: options of a cache that holds only the objects of some slots, while other replicas hold the other ones.

use steersman_informer::ShardFilter;
use steersman_object::{ShardBy, SlotSet};
use tokio::sync::watch;

use crate::options::CacheOptions;

impl CacheOptions {
    /// Caches only the objects in the slots that this replica wants to hold now. The set may change at any time.
    /// Default: all objects.
    ///
    /// All kinds are limited, also cluster-scoped ones (by their names), except those that are
    /// [`everywhere`](crate::ByObject::everywhere). A get of an object in another slot fails with
    /// [`Error::ForeignSlot`](crate::Error::ForeignSlot); lists return the objects that this replica holds. Objects of
    /// a lost slot leave the cache without a delete, as [`Delivery::Released`](crate::Delivery::Released); a gained slot
    /// is listed from the newest state.
    pub fn shards(mut self, by: ShardBy, slots: watch::Receiver<SlotSet>) -> Self {
        self.shards = Some(ShardFilter::new(by, slots));
        self
    }
}
