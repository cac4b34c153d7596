//! Words: the objects and events of lists and watches, with objects that do not decode.

use steersman_object::{ObjectKey, ResourceVersion};

use crate::error::Error;
use crate::head::RawObject;

/// A decoded object, or an object that does not decode, with the reason.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// The object decoded.
    Good(K),
    /// The object does not decode. Other objects are not affected.
    Malformed(Box<Malformed>),
}

/// An object that does not decode as its kind, with its readable parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The key; the name is empty if it could not be read.
    pub key: ObjectKey,
    /// The uid; empty if it could not be read.
    pub uid: String,
    /// The resource version; unset if it could not be read.
    pub version: ResourceVersion,
    /// The reason. For a Secret, only the position in the JSON.
    pub error: String,
}

/// One page of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListPage<K> {
    /// The objects, in the server's order.
    pub items: Vec<Decoded<K>>,
    /// The resource version of the whole list, the same on all of its pages.
    pub version: ResourceVersion,
    /// The continue token of the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// The number of objects on the following pages, if the server reports it.
    pub remaining: Option<u64>,
}

/// One part of a page of a list, in the order of arrival. Its object is not decoded as a type.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListPart {
    /// An object, in the server's order.
    Object(Decoded<RawObject>),
    /// The end of a complete page, after which no part follows.
    End(PageEnd),
}

/// The list metadata of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageEnd {
    /// The resource version of the whole list, the same on all of its pages.
    pub version: ResourceVersion,
    /// The continue token of the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// The number of objects on the following pages, if the server reports it.
    pub remaining: Option<u64>,
}

/// One event of a watch. Its object is not decoded as a type.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// An object was created, or matches the selectors now.
    Added(Decoded<RawObject>),
    /// An object changed.
    Modified(Decoded<RawObject>),
    /// An object was deleted, or no longer matches the selectors. The event has its last state.
    Deleted(Decoded<RawObject>),
    /// A bookmark: the watch has delivered every change up to this version.
    Bookmark {
        /// The version that the watch has reached.
        version: ResourceVersion,
        /// Whether all initial objects were sent (WatchList).
        initial_events_end: bool,
    },
    /// The server ends the watch with an error, such as 410 Expired.
    Error(Error),
}

impl<K> Decoded<K> {
    /// Returns the object, if it decoded.
    #[must_use]
    pub fn good(self) -> Option<K> {
        match self {
            Self::Good(object) => Some(object),
            Self::Malformed(_) => None,
        }
    }

    /// Applies `f` to the object, if it decoded.
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
    /// Makes an object that does not decode, for other implementations of [`ListWatch`](crate::ListWatch).
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
    /// Makes a last page, for other implementations of [`ListWatch`](crate::ListWatch).
    pub fn new(items: Vec<Decoded<K>>, version: ResourceVersion) -> Self {
        Self {
            items,
            version,
            continue_token: None,
            remaining: None,
        }
    }

    /// Returns the page with a continue token, so that another page follows.
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

    /// Returns the objects that decoded, without the malformed ones.
    #[must_use]
    pub fn into_good(self) -> Vec<K> {
        self.items.into_iter().filter_map(Decoded::good).collect()
    }
}

impl ListPage<RawObject> {
    /// Returns the parts of the page in the order of arrival, for other implementations of
    /// [`ListWatch`](crate::ListWatch).
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
