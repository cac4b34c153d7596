//! Words: what the server said, before anyone knows what that changes.

use steersman_api::Decoded;
use steersman_object::ResourceVersion;

use crate::entry::Entry;

/// An object of a delta: an entry, or an object that does not decode.
pub(crate) type Item<K> = Decoded<Entry<K>>;

/// One thing the server said, in the order it said it.
#[derive(Debug)]
pub(crate) enum Delta<K> {
    /// An object is there, new or changed.
    Put(Item<K>),
    /// An object is gone; its last state.
    Removed(Item<K>),
    /// This is all there is: a list, or the beginning of a streaming list. Each key once.
    Replaced {
        version: ResourceVersion,
        items: Vec<Item<K>>,
    },
    /// Nothing happened up to this version.
    Bookmark { version: ResourceVersion },
    /// Time to repeat everything.
    Resync,
}
