//! Words: what the server said, before anyone knows what that changes.

use std::mem::size_of;

use steersman_api::Decoded;
use steersman_object::{ObjectKey, ResourceVersion};

use crate::body::Extent;
use crate::chunked_vec::ChunkedVec;
use crate::entry::RawEntry;
use crate::judgement::Judgement;

/// An object of a delta: an entry, or an object that nobody can read.
pub(crate) type Item = Decoded<RawEntry>;

/// An object as it arrived, and what the views made of it then, where that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) item: Item,
    pub(crate) judgement: Option<Judgement>,
}

/// One thing the server said, in the order it said it.
#[derive(Debug)]
pub(crate) enum Delta {
    /// An object is there, new or changed.
    Put(Arrived),
    /// An object is gone; its last state.
    Removed(Arrived),
    /// This is all there is: a list, or the beginning of a streaming list. Each key once.
    Replaced {
        version: ResourceVersion,
        items: ChunkedVec<Arrived>,
        /// How much of each object was asked for.
        extent: Extent,
    },
    /// Nothing happened up to this version.
    Bookmark { version: ResourceVersion },
    /// Time to repeat everything.
    Resync,
}

/// Where it is, or would be.
pub(crate) fn key_of(item: &Item) -> &ObjectKey {
    match item {
        Decoded::Good(entry) => entry.key(),
        Decoded::Malformed(malformed) => &malformed.key,
    }
}

/// Nobody has judged it.
impl From<Item> for Arrived {
    fn from(item: Item) -> Self {
        Self {
            item,
            judgement: None,
        }
    }
}

impl Delta {
    /// How much memory it takes, about: the JSON of its objects.
    pub(crate) fn bytes(&self) -> usize {
        let of_item = |arrived: &Arrived| match &arrived.item {
            Decoded::Good(entry) => entry.raw_body().bytes(),
            Decoded::Malformed(malformed) => malformed.error.len(),
        };
        let objects = match self {
            Self::Put(item) | Self::Removed(item) => of_item(item),
            Self::Replaced { items, .. } => items.iter().map(of_item).sum(),
            Self::Bookmark { .. } | Self::Resync => 0,
        };
        objects + size_of::<Self>()
    }
}
