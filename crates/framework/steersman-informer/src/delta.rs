//! Words: the input of the store: events, lists and bookmarks that are not yet compared with the store.

use std::mem::size_of;

use steersman_api::{Decoded, Projection};
use steersman_object::{ObjectKey, ResourceVersion};

use crate::chunked_vec::ChunkedVec;
use crate::entry::RawEntry;
use crate::shard_filter::slot_ledger::ListSlots;
use crate::view_results::DecodeReport;

/// An object that arrived from the server: a store entry, or an object that does not decode.
pub(crate) type DeltaItem = Decoded<RawEntry>;

/// An object that arrived from the server, with the results of decoding it for each Rust type in use.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) item: DeltaItem,
    pub(crate) report: Option<DecodeReport>,
}

/// The type of a watch event that carries an object. The objects of a list are `Added`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// The request through which an object arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IngestContext {
    pub(crate) event_type: EventType,
    /// How much of the object the request asked for.
    pub(crate) projection: Projection,
    /// Whether the object is part of a list, ordinary or streaming, and not of a live event.
    pub(crate) in_list: bool,
}

/// One change as the server reported it, or a resync. Deltas keep the order of the server's events.
#[derive(Debug)]
pub(crate) enum Delta {
    /// An object was created or changed.
    Put(Arrived),
    /// An object was deleted; the value is its last state.
    Removed(Arrived),
    /// A complete list, ordinary or streaming, that replaces the store. The list names each key once.
    Replaced {
        version: ResourceVersion,
        items: ChunkedVec<Arrived>,
        /// How much of each object the list asked for.
        projection: Projection,
        /// The number of relist requests when the list began. A request is answered only by a list that began after it.
        relists: u64,
        /// The slots that the list asked for.
        slots: ListSlots,
    },
    /// An object of another replica changed: all events up to this version were delivered (SHARD-5).
    Passed { version: ResourceVersion },
    /// All events up to this version were delivered.
    Bookmark { version: ResourceVersion },
    /// Every stored object is sent to the subscribers again.
    Resync,
}

pub(crate) fn key_of(item: &DeltaItem) -> &ObjectKey {
    match item {
        Decoded::Good(entry) => entry.key(),
        Decoded::Malformed(malformed) => &malformed.key,
    }
}

/// Makes an arrived object that is not decoded as any Rust type yet.
impl From<DeltaItem> for Arrived {
    fn from(item: DeltaItem) -> Self {
        Self { item, report: None }
    }
}

impl Delta {
    /// Returns the approximate memory of the delta: the JSON of its objects, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_item = |arrived: &Arrived| match &arrived.item {
            Decoded::Good(entry) => entry.raw_body().bytes(),
            Decoded::Malformed(malformed) => malformed.error.len(),
        };
        let objects = match self {
            Self::Put(item) | Self::Removed(item) => of_item(item),
            Self::Replaced { items, .. } => items.iter().map(of_item).sum(),
            Self::Passed { .. } | Self::Bookmark { .. } | Self::Resync => 0,
        };
        objects + size_of::<Self>()
    }
}
