//! Words: a write, what became of it, and who is told.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use steersman_object::{Kind, ObjectKey, ResourceVersion};

/// Names the request on whose behalf a client works: a controller, and the key that it reconciles.
///
/// Equal for the same controller and an equal key of the same type. Cheap to clone.
#[derive(Clone)]
pub struct RequestId(Arc<dyn Erased>);

/// One write, from when it is sent until it is known what became of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write {
    /// A number that no other write of this process has.
    pub id: u64,
    /// On whose behalf; `None` where the client was not made for a request.
    pub request: Option<RequestId>,
    /// The verb, in the words of Kubernetes: `create`, `patch`, `deletecollection`, and so on.
    pub verb: &'static str,
    /// The kind of the object written, or of the one whose subresource is.
    pub kind: Kind,
    /// The namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// The object; `None` where the server makes the name, and for a collection.
    pub key: Option<ObjectKey>,
    /// What the name begins with that the server makes (`metadata.generateName`), where it does.
    pub generate_name: Option<String>,
    /// The subresource, where it is one that is written.
    pub subresource: Option<String>,
    /// Of a delete: what was known of the object before it was sent.
    pub(crate) before: Before,
}

/// What was known of an object before a delete of it was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// The uid of the object that the cache held.
    pub(crate) stored: Option<String>,
    /// A version at which the object was there.
    pub(crate) version: Option<ResourceVersion>,
}

/// What the server said the object is after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Its key, with the name that the server made.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Its version; unset where the answer names none: a delete that left nothing.
    pub version: ResourceVersion,
    /// Its labels, by which one tells whether a cache would hold it; none where the answer is not the object
    /// itself: that of a scale, and that of a delete that left nothing.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it carries a deletion timestamp.
    pub deleting: bool,
    /// Whether it carries a deletion timestamp and nothing holds it: a write that took its last finalizer is answered
    /// so, at the version before that write, and the object is gone.
    pub finalized: bool,
}

/// What became of a write.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// It was done. What the object is now, where the answer is about it: that of an eviction, a binding or a
    /// token is not, and that of a collection is about many.
    Done(Option<Written>),
    /// The server refused it, so nothing was done.
    Refused(&'a steersman_api::Error),
    /// Nobody knows: the answer was lost, could not be read, or says that the server does not know either
    /// (any 5xx). The object may be as it was, or as was asked.
    Unknown(&'a steersman_api::Error),
}

/// Hears of every write of a client, from its beginning to its end.
///
/// Dry runs are not writes. What is not sent (an invalid key, nothing to change) is not heard of either.
///
/// # For implementors
///
/// `began` runs where the write is called, `ended` in the task that finishes it, which outlives a caller who
/// was dropped: for each `began` there is one `ended` before the caller has the answer, unless the runtime
/// ends first. A write that was throttled and is sent again begins again. Both must be quick, and must not
/// block. A panic is logged, and costs neither the write nor what other observers hear.
pub trait WriteObserver: Send + Sync + 'static {
    /// A write is about to be sent.
    fn began(&self, write: &Write) {
        let _ = write;
    }

    /// It is known what became of a write, or that nobody knows.
    fn ended(&self, write: &Write, outcome: &Outcome<'_>);
}

trait Erased: Any + Send + Sync {
    fn controller(&self) -> &str;
    fn is(&self, other: &dyn Any) -> bool;
    fn feed(&self, hasher: &mut dyn Hasher);
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn any(&self) -> &dyn Any;
}

#[derive(PartialEq, Eq, Hash)]
struct Named<K> {
    controller: Arc<str>,
    key: K,
}

// ===== impl RequestId =====

impl RequestId {
    /// The request `key` of the controller of this name.
    #[must_use]
    pub fn new<K>(controller: impl Into<Arc<str>>, key: K) -> Self
    where
        K: Eq + Hash + fmt::Debug + Send + Sync + 'static,
    {
        Self(Arc::new(Named {
            controller: controller.into(),
            key,
        }))
    }

    /// The name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        self.0.controller()
    }
}

impl<K: Eq + Hash + fmt::Debug + Send + Sync + 'static> Erased for Named<K> {
    fn controller(&self) -> &str {
        &self.controller
    }

    fn is(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn feed(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.controller, self.key)
    }

    fn any(&self) -> &dyn Any {
        self
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(other.0.any())
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.feed(state);
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn requests_are_the_same_by_controller_type_and_key() {
        let key = || ObjectKey::namespaced("a", "b");
        let all = HashSet::from([
            RequestId::new("sites", key()),
            RequestId::new("sites", key()),
            RequestId::new("nodes", key()),
            RequestId::new("sites", "a/b"),
            RequestId::new("sites", ObjectKey::cluster("b")),
        ]);
        assert_eq!(all.len(), 4);
        let shown = format!("{:?}", RequestId::new("sites", key()));
        assert_eq!(shown, "sites a/b");
    }
}
