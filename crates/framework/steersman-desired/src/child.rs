//! Words: a child that shall exist, and one that shall not.

use serde::Serialize;
use serde_json::Value;
use steersman_client::Error as ClientError;
use steersman_object::{Kind, Object, ObjectKey, TypedObject};

use crate::child_id::ChildId;

pub(crate) type ReadyWhen<K> = dyn Fn(&K) -> bool + Send + Sync;
/// A condition of a child that is being deleted; `None` if it does not exist.
pub(crate) type GoneWhen<K> = dyn Fn(Option<&K>) -> bool + Send + Sync;

/// An object that shall exist as a child of the owner of a set.
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
    /// The document to apply, or the reason why there is none.
    pub(crate) document: Result<Value, serde_json::Error>,
    pub(crate) after: Vec<usize>,
    pub(crate) ready_when: Option<Box<ReadyWhen<K>>>,
}

/// An object that shall not exist (any more) as a child of the owner of a set.
///
/// Children that are no longer in the code are pruned without it. It is for an end that other children wait for: they
/// come `after` it.
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
    /// Makes a child of an object. The fields that are set in the object are applied, and no others.
    ///
    /// The set adds the controller reference and its label, and the namespace of the owner if the object names none.
    pub fn of(object: &K) -> Self {
        Self::part(object)
    }

    /// Makes a child of a part of an object of type `K`: any value that encodes as JSON and has a name in its metadata.
    ///
    /// A part says exactly which fields are applied. A struct names its required fields too, such as the empty
    /// `selector` of a Deployment.
    pub fn part(part: &impl Serialize) -> Self {
        Self::new(Kind::of::<K>(), part)
    }
}

impl<K: Object> Child<K> {
    /// Makes a child of an object, or a part of one, of a kind that is known at run time.
    pub fn of_kind(kind: &Kind, part: &impl Serialize) -> Self {
        Self::new(kind.clone(), part)
    }

    fn new(kind: Kind, part: &impl Serialize) -> Self {
        Self {
            kind,
            document: serde_json::to_value(part),
            after: Vec::new(),
            ready_when: None,
        }
    }

    /// Applies the child only after another child of the same set is ready, or gone if it shall not exist. Several
    /// calls name several children.
    ///
    /// A child that waits is neither applied nor pruned: if it exists, it stays as it is.
    pub fn after<T>(mut self, other: ChildId<T>) -> Self {
        self.after.push(other.index());
        self
    }

    /// Sets the condition under which the child is ready, for the children that come after it and for the conditions
    /// of the owner. By default the child is ready when it is [current](crate::Readiness).
    ///
    /// A child that is being deleted is never ready.
    pub fn ready_when(mut self, is_ready: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.ready_when = Some(Box::new(is_ready));
        self
    }
}

impl<K: TypedObject> AbsentChild<K> {
    /// Makes the child with this key one that shall not exist.
    pub fn of(key: ObjectKey) -> Self {
        Self::of_kind(&Kind::of::<K>(), key)
    }
}

impl<K: Object> AbsentChild<K> {
    /// Makes the child with this key, of a kind that is known at run time, one that shall not exist.
    pub fn of_kind(kind: &Kind, key: ObjectKey) -> Self {
        Self {
            kind: kind.clone(),
            key,
            after: Vec::new(),
            gone_when: None,
        }
    }

    /// Deletes the child only after another child of the same set is ready, or gone if it shall not exist.
    pub fn after<T>(mut self, other: ChildId<T>) -> Self {
        self.after.push(other.index());
        self
    }

    /// Sets the condition under which the child counts as gone, from the object that is left (`None`: no object). By
    /// default it counts as gone when no object is left.
    pub fn gone_when(
        mut self,
        is_gone: impl Fn(Option<&K>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.gone_when = Some(Box::new(is_gone));
        self
    }
}

pub(crate) fn encode_error(kind: &Kind, source: serde_json::Error) -> ClientError {
    ClientError::Encode {
        kind: kind.clone(),
        key: ObjectKey::cluster_scoped(""),
        source,
    }
}
