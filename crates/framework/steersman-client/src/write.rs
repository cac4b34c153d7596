//! Words: a write, its outcome, and its observers.

pub(crate) mod outcome;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use steersman_object::{Kind, ObjectKey, ResourceVersion};

/// Identifies the reconcile request that a client works for: a controller, and the key that it reconciles.
///
/// Two ids are equal if they have the same controller and an equal key of the same type. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("{controller} {key:?}")]
pub struct RequestId {
    controller: Arc<str>,
    key: Arc<dyn ErasedKey>,
}

/// The description of one write. A [`WriteObserver`] gets it when the write begins and when its outcome is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write {
    /// A number that is unique among the writes of this process.
    pub id: u64,
    /// The reconcile request that the write belongs to; `None` if the client was not made for a request.
    pub request: Option<RequestId>,
    /// The verb, as in RBAC rules: `create`, `patch`, `deletecollection`, and so on.
    pub verb: &'static str,
    /// The kind of the object that is written, or that has the written subresource.
    pub kind: Kind,
    /// The namespace of the written objects; `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// The key of the written object; `None` for the delete of a collection, and if the server generates the name.
    pub key: Option<ObjectKey>,
    /// The prefix (`metadata.generateName`) from which the server generates the name; `None` for a given name.
    pub generate_name: Option<String>,
    /// The name of the written subresource, such as `status`; `None` for a write of the object itself.
    pub subresource: Option<String>,
    /// The state of a deleted object before the delete was sent; empty for other writes.
    pub(crate) before: StateBeforeDelete,
}

/// The state of an object before its delete was sent, as far as the client knew it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateBeforeDelete {
    /// The uid of the object in the cache; `None` if the cache did not hold it.
    pub(crate) stored: Option<String>,
    pub(crate) version: Option<ResourceVersion>,
}

/// The written object, as far as the server's answer describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenObject {
    /// The key of the object, with the generated name if the server generated it.
    pub key: ObjectKey,
    /// The uid of the object. In the answer to a write of a `Scale`, this is the uid of the scaled object.
    pub uid: String,
    /// The resource version; unset if the response has no version, for instance after a delete that removed the object.
    pub version: ResourceVersion,
    /// The labels, by which a cache selects the object. `None` if the response is not the object itself, for instance a
    /// Scale, or the `Status` of a delete.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether the object has a deletion timestamp.
    pub deleting: bool,
    /// Whether the object has a deletion timestamp and neither finalizers nor a grace period: the answer to a write
    /// that removed the last finalizer, with the version before that write. The object is gone.
    pub finalized: bool,
    /// The object in the server's answer; `None` if the response is not the object itself.
    pub(crate) body: Option<Bytes>,
}

/// The outcome of a write, as far as the client knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WriteOutcome<'a> {
    /// The server executed the write. The value is `None` if the response is not an object of the
    /// kind: for an eviction, a binding, a token, or the delete of a collection.
    Done(Option<WrittenObject>),
    /// The server refused the write and changed nothing.
    Refused(&'a steersman_api::Error),
    /// The server may or may not have executed the write: the answer was lost, could not be read, or is a 5xx.
    Unknown(&'a steersman_api::Error),
}

/// An observer of the writes of a client, called when a write begins and when its outcome is known. Added with
/// [`ClientOptions::observe_writes`](crate::ClientOptions::observe_writes).
///
/// A dry run is not a write. Requests that are not sent (an invalid key, nothing to change) are not reported either.
///
/// # For implementors
///
/// `began` runs in the caller's task, and `ended` in the task of the write, which goes on if the caller is dropped.
/// Each `began` is followed by one `ended` before the caller gets the answer, unless the runtime ends first; each
/// repetition of a throttled write has its own pair of calls. Both methods must be quick and must not block. A panic is
/// logged, and affects neither the write nor other observers.
pub trait WriteObserver: Send + Sync + 'static {
    /// Called before a write is sent.
    fn began(&self, write: &Write) {
        let _ = write;
    }

    /// Called when the outcome of a write is known, or will stay unknown.
    fn ended(&self, write: &Write, outcome: &WriteOutcome<'_>);
}

impl fmt::Debug for dyn WriteObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteObserver")
    }
}

trait ErasedKey: Any + fmt::Debug + Send + Sync {
    fn is(&self, other: &dyn Any) -> bool;
    fn feed(&self, hasher: &mut dyn Hasher);
}

impl<K: Eq + Hash + fmt::Debug + Send + Sync + 'static> ErasedKey for K {
    fn is(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn feed(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }
}

impl RequestId {
    /// Makes the id of a reconcile request from the name of its controller and the key that it reconciles.
    pub fn new<K>(controller: impl Into<Arc<str>>, key: K) -> Self
    where
        K: Eq + Hash + fmt::Debug + Send + Sync + 'static,
    {
        Self {
            controller: controller.into(),
            key: Arc::new(key),
        }
    }

    /// Returns the name of the controller that runs this reconcile request.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns the key that the request reconciles, as its `Debug` text.
    pub fn key_text(&self) -> String {
        format!("{:?}", self.key)
    }

    /// Returns the key that the request reconciles; `None` if the type of the key is not `K`.
    pub fn key<K: Eq + Hash + fmt::Debug + Send + Sync + 'static>(&self) -> Option<&K> {
        let key: &dyn Any = &*self.key;
        key.downcast_ref()
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.controller == other.controller && (*self.key).is(&*other.key)
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.controller.hash(state);
        (*self.key).feed(state);
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
            RequestId::new("sites", ObjectKey::cluster_scoped("b")),
        ]);
        assert_eq!(all.len(), 4);
        let shown = format!("{:?}", RequestId::new("sites", key()));
        assert_eq!(shown, "sites a/b");
        let request = RequestId::new("sites", key());
        assert_eq!(request.key::<ObjectKey>(), Some(&key()));
        assert_eq!(request.key::<&str>(), None);
    }
}
