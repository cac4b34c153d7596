//! Words: what a list and a watch bring, with an object that does not decode kept as data.

use steersman_object::{ObjectKey, ResourceVersion};

use crate::error::Error;
use crate::head::RawObject;

/// An object as it arrived: decoded, or set aside with the reason.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// It decoded.
    Good(K),
    /// It did not. Its neighbours are not affected.
    Malformed(Box<Malformed>),
}

/// An object that does not decode as its kind, and what could still be read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// Its key; the name is empty where even that could not be read.
    pub key: ObjectKey,
    /// Its uid; empty where it could not be read.
    pub uid: String,
    /// Its version; unset where it could not be read.
    pub version: ResourceVersion,
    /// Why it does not decode. Of a Secret, only where.
    pub error: String,
}

/// One page of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListPage<K> {
    /// The objects, in the server's order.
    pub items: Vec<Decoded<K>>,
    /// The version of the whole list: the same on all of its pages.
    pub version: ResourceVersion,
    /// The token of the next page; `None` on the last one.
    pub continue_token: Option<String>,
    /// How many objects follow, where the server says so.
    pub remaining: Option<u64>,
}

/// A part of one page of a list, as it arrives. What it holds is of no type yet.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListPart {
    /// An object; in the server's order.
    Object(Decoded<RawObject>),
    /// The page is whole. Nothing comes after this.
    End(PageEnd),
}

/// What a page says of the list besides its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageEnd {
    /// The version of the whole list: the same on all of its pages.
    pub version: ResourceVersion,
    /// The token of the next page; `None` on the last one.
    pub continue_token: Option<String>,
    /// How many objects follow, where the server says so.
    pub remaining: Option<u64>,
}

/// One event of a watch. What it holds is of no type yet: that is for those who look at it.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// An object came into view: created, or it now matches the selectors.
    Added(Decoded<RawObject>),
    /// An object changed.
    Modified(Decoded<RawObject>),
    /// An object went out of view: deleted, or it no longer matches. Carries its last state.
    Deleted(Decoded<RawObject>),
    /// Nothing happened up to this version.
    Bookmark {
        /// The version that the watch has reached.
        version: ResourceVersion,
        /// WatchList: all initial objects have been sent.
        initial_events_end: bool,
    },
    /// The server ends the watch with an error, such as 410 Expired.
    Error(Error),
}

impl<K> Decoded<K> {
    /// The object, if it decoded.
    #[must_use]
    pub fn good(self) -> Option<K> {
        match self {
            Self::Good(object) => Some(object),
            Self::Malformed(_) => None,
        }
    }

    /// Changes the object, if it decoded.
    #[must_use]
    pub fn map<T>(self, f: impl FnOnce(K) -> T) -> Decoded<T> {
        match self {
            Self::Good(object) => Decoded::Good(f(object)),
            Self::Malformed(malformed) => Decoded::Malformed(malformed),
        }
    }
}

impl<K> From<Malformed> for Decoded<K> {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(Box::new(malformed))
    }
}

impl Malformed {
    /// An object that did not decode, for those who implement
    /// [`ListWatch`](crate::ListWatch) themselves.
    #[must_use]
    pub fn new(
        key: ObjectKey,
        uid: impl Into<String>,
        version: ResourceVersion,
        error: impl Into<String>,
    ) -> Self {
        Self {
            key,
            uid: uid.into(),
            version,
            error: error.into(),
        }
    }
}

impl<K> ListPage<K> {
    /// A last page, for those who implement [`ListWatch`](crate::ListWatch) themselves.
    #[must_use]
    pub fn new(items: Vec<Decoded<K>>, version: ResourceVersion) -> Self {
        Self {
            items,
            version,
            continue_token: None,
            remaining: None,
        }
    }

    /// The same page with another one after it.
    #[must_use]
    pub fn continued(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    pub(crate) fn of(items: Vec<Decoded<K>>, end: PageEnd) -> Self {
        Self {
            items,
            version: end.version,
            continue_token: end.continue_token,
            remaining: end.remaining,
        }
    }

    /// The objects that decoded, leaving the malformed ones out.
    #[must_use]
    pub fn into_good(self) -> Vec<K> {
        self.items.into_iter().filter_map(Decoded::good).collect()
    }
}

impl ListPage<RawObject> {
    /// The page as it would arrive, for those who implement [`ListWatch`](crate::ListWatch)
    /// themselves.
    pub fn into_parts(self) -> impl Iterator<Item = ListPart> {
        let end = PageEnd {
            version: self.version,
            continue_token: self.continue_token,
            remaining: self.remaining,
        };
        let objects = self.items.into_iter().map(ListPart::Object);
        objects.chain([ListPart::End(end)])
    }
}
