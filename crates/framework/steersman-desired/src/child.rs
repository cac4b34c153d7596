//! Words: a child that shall exist, and a child that shall not exist.

use serde::Serialize;
use serde_json::Value;
use steersman_client::Error as ClientError;
use steersman_object::{Kind, Object, ObjectKey, TypedObject};

use crate::child_id::ChildId;

pub(crate) type ReadyWhen<K> = dyn Fn(&K) -> bool + Send + Sync;
/// Decides whether a child counts as gone; the argument is `None` if no object is left.
pub(crate) type GoneWhen<K> = dyn Fn(Option<&K>) -> bool + Send + Sync;

/// An object that shall exist as a child of the set's owner.
///
/// ```
/// use k8s_openapi::api::batch::v1::Job;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_desired::{Child, DesiredSet};
///
/// # fn f(set: &mut DesiredSet, settings: ConfigMap, job: Job) {
/// let settings = set.add(Child::of(&settings));
/// // The Job is applied once the ConfigMap exists, and ready once one of its Pods has succeeded.
/// let has_succeeded = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) > Some(0);
/// set.add(Child::of(&job).after(settings).ready_when(has_succeeded));
/// # }
/// ```
#[derive(derive_more::Debug)]
#[debug("Child {{ kind: {kind:?}, document: {document:?}, .. }}")]
#[must_use = "a child is part of a set only after `add`"]
pub struct Child<K> {
    pub(crate) kind: Kind,
    /// The document to apply, or the error of its encoding.
    pub(crate) document: Result<Value, ClientError>,
    pub(crate) after: Vec<usize>,
    pub(crate) ready_when: Option<Box<ReadyWhen<K>>>,
}

/// An object that shall not exist (any more) as a child of the set's owner.
///
/// It is only needed if other children come `after` its deletion: children that are no longer in the code are pruned
/// anyway.
#[derive(derive_more::Debug)]
#[debug("AbsentChild {{ kind: {kind:?}, key: {key:?}, .. }}")]
#[must_use = "an absent child is part of a set only after `add_absent`"]
pub struct AbsentChild<K> {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    pub(crate) after: Vec<usize>,
    pub(crate) gone_when: Option<Box<GoneWhen<K>>>,
}

impl<K: TypedObject> Child<K> {
    /// Makes a child of an object. Only the fields that are set in the object are applied.
    ///
    /// The set adds the controller reference and its label, and the owner's namespace if the object has none.
    pub fn of(object: &K) -> Self {
        Self::part(object)
    }

    /// Makes a child of a part of an object of type `K`: any value that encodes as JSON and has `metadata.name`.
    ///
    /// A part has exactly the fields to apply. A whole struct also has its required fields, such as the empty
    /// `selector` of a Deployment.
    pub fn part(part: &impl Serialize) -> Self {
        Self::of_kind(&Kind::of::<K>(), part)
    }
}

impl<K: Object> Child<K> {
    /// Makes a child of an object, or a part of an object, for a kind that is known at run time.
    pub fn of_kind(kind: &Kind, part: &impl Serialize) -> Self {
        let document = serde_json::to_value(part).map_err(|source| ClientError::Encode {
            kind: kind.clone(),
            key: ObjectKey::cluster_scoped(""),
            source,
        });
        Self {
            kind: kind.clone(),
            document,
            after: Vec::new(),
            ready_when: None,
        }
    }

    /// Applies this child only when another child of the set is ready, or is gone if it shall not exist. May be called
    /// for several children.
    ///
    /// While this child waits, it is neither applied nor pruned.
    pub fn after<T>(mut self, other: ChildId<T>) -> Self {
        self.after.push(other.index());
        self
    }

    /// Sets the condition under which this child is ready, for children that come after it and for the owner's
    /// conditions. By default a [current](crate::Readiness) child is ready.
    ///
    /// A child that is being deleted is never ready.
    pub fn ready_when(mut self, is_ready: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.ready_when = Some(Box::new(is_ready));
        self
    }
}

impl<K: TypedObject> AbsentChild<K> {
    /// Declares that the child with this key shall not exist.
    pub fn of(key: ObjectKey) -> Self {
        Self::of_kind(&Kind::of::<K>(), key)
    }
}

impl<K: Object> AbsentChild<K> {
    /// Declares that the child with this key, of a kind that is known at run time, shall not exist.
    pub fn of_kind(kind: &Kind, key: ObjectKey) -> Self {
        Self {
            kind: kind.clone(),
            key,
            after: Vec::new(),
            gone_when: None,
        }
    }

    /// Deletes this child only when another child of the set is ready, or is gone if it shall not exist.
    pub fn after<T>(mut self, other: ChildId<T>) -> Self {
        self.after.push(other.index());
        self
    }

    /// Sets the condition under which the child counts as gone; its argument is the remaining object. By default, the
    /// child is gone when no object remains.
    pub fn gone_when(
        mut self,
        is_gone: impl Fn(Option<&K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.gone_when = Some(Box::new(is_gone));
        self
    }
}
