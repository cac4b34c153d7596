//! Driver: applies or deletes one child.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use steersman_api::{DeleteOptions, Propagation};
use steersman_client::{Client, Ensured, Error as ClientError, KindClient};
use steersman_object::{Kind, Object, ObjectKey};

use crate::child::{GoneWhen, ReadyWhen};
use crate::outcome::{ChildState, FoundObject};
use crate::owner::SetOwner;
use crate::readiness::Readiness;

/// The number of attempts to delete an object that keeps changing.
const DELETE_ATTEMPTS: u32 = 3;

/// A child of any type.
pub(crate) struct Member {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    task: Box<MemberTask>,
}

/// Applies or deletes a child.
type MemberTask =
    dyn for<'a> FnOnce(Target<'a>) -> BoxFuture<'a, Result<Processed, ClientError>> + Send + Sync;

/// The child of a task, and the surroundings of the task.
#[derive(Clone, Copy)]
struct Target<'a> {
    kind: &'a Kind,
    key: &'a ObjectKey,
    owner: &'a SetOwner,
    client: &'a Client,
}

/// The result for one child.
#[derive(Debug)]
pub(crate) struct Processed {
    pub(crate) state: ChildState,
    pub(crate) readiness: Option<Readiness>,
    pub(crate) object: Option<FoundObject>,
}

impl Member {
    /// Makes a child that shall exist. `document` is its complete document, or the reason why there is none.
    pub(crate) fn present<K: Object>(
        kind: Kind,
        key: ObjectKey,
        document: Result<Value, ClientError>,
        ready_when: Option<Box<ReadyWhen<K>>>,
    ) -> Self {
        Self::new(kind, key, |target| {
            apply(target, document, ready_when).boxed()
        })
    }

    /// Makes a child that shall not exist.
    pub(crate) fn absent<K: Object>(
        kind: Kind,
        key: ObjectKey,
        gone_when: Option<Box<GoneWhen<K>>>,
    ) -> Self {
        Self::new(kind, key, |target| delete_absent(target, gone_when).boxed())
    }

    /// Makes a child that exists and is not in the set.
    pub(crate) fn leftover<K: Object>(kind: Kind, object: Arc<K>) -> Self {
        let key = object.key();
        Self::new(kind, key, |target| delete_leftover(target, object).boxed())
    }

    fn new(
        kind: Kind,
        key: ObjectKey,
        task: impl for<'a> FnOnce(Target<'a>) -> BoxFuture<'a, Result<Processed, ClientError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let task = Box::new(task);
        Self { kind, key, task }
    }

    /// Applies or deletes the child.
    pub(crate) async fn process(self, owner: &SetOwner, client: &Client) -> Processed {
        let processed = (self.task)(Target {
            kind: &self.kind,
            key: &self.key,
            owner,
            client,
        });
        processed.await.unwrap_or_else(|error| Processed {
            state: ChildState::Failed(Box::new(error)),
            readiness: None,
            object: None,
        })
    }
}

impl Processed {
    /// Returns whether the children that come after this one may start.
    pub(crate) fn is_done(&self) -> bool {
        self.readiness == Some(Readiness::Current)
    }
}

async fn apply<K: Object>(
    target: Target<'_>,
    document: Result<Value, ClientError>,
    ready_when: Option<Box<ReadyWhen<K>>>,
) -> Result<Processed, ClientError> {
    let document = document?;
    let client = target.client.of::<K>(target.kind);
    // SET-2
    if let Some(existing) = existing(&client, target.key).await? {
        target.owner.check_own(&*existing)?;
        if existing.is_being_deleted() {
            return Ok(Processed {
                state: ChildState::Terminating,
                readiness: Some(Readiness::Terminating),
                object: Some(FoundObject(existing)),
            });
        }
    }
    // SET-5
    let ensured = client.ensure_applied_part::<K>(&document).await?;
    let state = match &ensured {
        Ensured::Unchanged(_) => ChildState::Unchanged,
        ensured => ChildState::Applied {
            created: matches!(ensured, Ensured::Created(_)),
        },
    };
    let readiness = readiness(target.kind, ready_when.as_deref(), ensured.object());
    Ok(Processed {
        state,
        readiness: Some(readiness),
        object: Some(FoundObject(ensured.into_object())),
    })
}

async fn delete_absent<K: Object>(
    target: Target<'_>,
    gone_when: Option<Box<GoneWhen<K>>>,
) -> Result<Processed, ClientError> {
    let client = target.client.of::<K>(target.kind);
    let found = client.get_opt(target.key).await?;
    // An object of that name that the owner does not control is no child.
    let left = found.filter(|found| target.owner.owns(&**found));
    let state = match &left {
        None => ChildState::Absent,
        Some(left) => {
            delete(&client, target.owner, left).await?;
            ChildState::Deleting
        }
    };
    let is_gone = match gone_when {
        None => left.is_none(),
        Some(gone_when) => gone_when(left.as_deref()),
    };
    let readiness = match is_gone {
        true => Readiness::Current,
        false => Readiness::Terminating,
    };
    Ok(Processed {
        state,
        readiness: Some(readiness),
        object: left.map(|left| FoundObject(left)),
    })
}

async fn delete_leftover<K: Object>(
    target: Target<'_>,
    object: Arc<K>,
) -> Result<Processed, ClientError> {
    let client = target.client.of::<K>(target.kind);
    delete(&client, target.owner, &*object).await?;
    Ok(Processed {
        state: ChildState::Deleting,
        readiness: Some(Readiness::Terminating),
        object: None,
    })
}

/// Returns the object of a child's name, if there is one. The server is asked if a selector of the cache could hide it.
async fn existing<K: Object>(
    client: &KindClient<K>,
    key: &ObjectKey,
) -> Result<Option<Arc<K>>, ClientError> {
    let found = client.get_opt(key).await?;
    if found.is_none() && client.cache().scoped_by(client.kind()).is_some() {
        return Ok(client.live().get_opt(key).await?.map(Arc::new));
    }
    Ok(found)
}

fn readiness<K: Object>(kind: &Kind, ready_when: Option<&ReadyWhen<K>>, object: &K) -> Readiness {
    if object.is_being_deleted() {
        return Readiness::Terminating;
    }
    let Some(ready_when) = ready_when else {
        return Readiness::of(kind, object);
    };
    if ready_when(object) {
        return Readiness::Current;
    }
    match Readiness::of(kind, object) {
        Readiness::Current => {
            Readiness::InProgress("it does not meet the condition of its set yet".to_owned())
        }
        other => other,
    }
}

/// Deletes an object of the owner, unless it is being deleted already.
///
/// SET-1: the request names the uid and the version at which the owner controlled the object. If the object has
/// changed, it is read again.
async fn delete<K: Object>(
    client: &KindClient<K>,
    owner: &SetOwner,
    object: &K,
) -> Result<(), ClientError> {
    let mut fresh: Option<K> = None;
    let mut attempt = 0;
    loop {
        let object = fresh.as_ref().unwrap_or(object);
        if object.is_being_deleted() {
            return Ok(());
        }
        attempt += 1;
        // The server's default would leave the Pods of a Job behind.
        let options = DeleteOptions::new()
            .uid(object.uid_str())
            .resource_version(object.stored_version())
            .propagation(Propagation::Background);
        let key = object.key();
        match client.delete_with::<K>(&key, &options).await {
            Err(refused) if refused.is_not_found() => return Ok(()),
            Err(refused) if refused.is_conflict() && attempt < DELETE_ATTEMPTS => {}
            result => return result,
        }
        match client.live().get_opt(&key).await? {
            Some(found) if owner.owns(&found) => fresh = Some(found),
            _ => return Ok(()),
        }
    }
}
