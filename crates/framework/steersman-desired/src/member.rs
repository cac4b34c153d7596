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

/// The number of attempts to delete a child that changes between the read and the delete.
const DELETE_ATTEMPTS: u32 = 3;

pub(crate) struct ChildMember {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    task: Box<MemberTask>,
}

/// Applies or deletes a child. The task stores the object that it found, for the outcome of a failure.
type MemberTask = dyn for<'a> FnOnce(
        ChildTarget<'a>,
        &'a mut Option<FoundObject>,
    ) -> BoxFuture<'a, Result<Processed, ClientError>>
    + Send
    + Sync;

/// The child that a task processes, with its owner and the client.
#[derive(Clone, Copy)]
struct ChildTarget<'a> {
    kind: &'a Kind,
    key: &'a ObjectKey,
    owner: &'a SetOwner,
    client: &'a Client,
}

#[derive(Debug)]
pub(crate) struct Processed {
    pub(crate) state: ChildState,
    pub(crate) readiness: Option<Readiness>,
    pub(crate) object: Option<FoundObject>,
}

impl ChildMember {
    /// Makes the task of a child that shall exist. `document` is the complete document, or the error of its encoding.
    pub(crate) fn present<K: Object>(
        kind: Kind,
        key: ObjectKey,
        document: Result<Value, ClientError>,
        ready_when: Option<Box<ReadyWhen<K>>>,
    ) -> Self {
        let task: Box<MemberTask> =
            Box::new(|target, known| apply(target, document, ready_when, known).boxed());
        Self { kind, key, task }
    }

    pub(crate) fn absent<K: Object>(
        kind: Kind,
        key: ObjectKey,
        gone_when: Option<Box<GoneWhen<K>>>,
    ) -> Self {
        let task: Box<MemberTask> =
            Box::new(|target, known| delete_absent(target, gone_when, known).boxed());
        Self { kind, key, task }
    }

    pub(crate) fn leftover<K: Object>(kind: Kind, object: Arc<K>) -> Self {
        let key = object.key();
        let task: Box<MemberTask> = Box::new(|target, _| delete_leftover(target, object).boxed());
        Self { kind, key, task }
    }

    pub(crate) async fn process(self, owner: &SetOwner, client: &Client) -> Processed {
        let mut known = None;
        let target = ChildTarget {
            kind: &self.kind,
            key: &self.key,
            owner,
            client,
        };
        let processed = (self.task)(target, &mut known).await;
        processed.unwrap_or_else(|error| Processed {
            state: ChildState::Failed(Box::new(error)),
            readiness: None,
            object: known,
        })
    }
}

impl ChildTarget<'_> {
    /// Returns an existing object if it is a child of the owner: its state is kept in case the task fails.
    fn known_child<K: Object>(&self, found: Option<&Arc<K>>) -> Option<FoundObject> {
        let own = found.filter(|found| self.owner.owns(&***found))?;
        Some(FoundObject(Arc::clone(own) as _))
    }
}

impl Processed {
    fn new(state: ChildState, readiness: Readiness, object: Option<FoundObject>) -> Self {
        Self {
            state,
            readiness: Some(readiness),
            object,
        }
    }

    /// Returns whether children that come after this child may start.
    pub(crate) fn is_done(&self) -> bool {
        self.readiness == Some(Readiness::Current)
    }
}

async fn apply<K: Object>(
    target: ChildTarget<'_>,
    document: Result<Value, ClientError>,
    ready_when: Option<Box<ReadyWhen<K>>>,
    known: &mut Option<FoundObject>,
) -> Result<Processed, ClientError> {
    let client = target.client.of::<K>(target.kind);
    let found = client.get_opt(target.key).await?;
    *known = target.known_child(found.as_ref());
    let document = document?;
    let (state, object) = match apply_to(target, &client, found, &document).await {
        // The cache is outdated, or a selector of the cache hides the object: the object is read from the server.
        Err(ClientError::NotAsFound { .. }) => {
            let found = client.live().get_opt(target.key).await?.map(Arc::new);
            *known = target.known_child(found.as_ref());
            apply_to(target, &client, found, &document).await?
        }
        applied => applied?,
    };
    let readiness = readiness(target.kind, ready_when.as_deref(), &*object);
    Ok(Processed::new(state, readiness, Some(FoundObject(object))))
}

/// Applies a child: to the object that was found, or as a new object if none was found.
///
/// # Errors
///
/// [`ClientError::NotAsFound`] if the server has another object than `found`, or one where none was found, or none.
/// Otherwise the error of an object that is not a child, or of the apply.
async fn apply_to<K: Object>(
    target: ChildTarget<'_>,
    client: &KindClient<K>,
    found: Option<Arc<K>>,
    document: &Value,
) -> Result<(ChildState, Arc<K>), ClientError> {
    if let Some(existing) = &found {
        // SET-2: an object that the owner does not control is refused.
        target.owner.check_own(&**existing)?;
        if existing.is_being_deleted() {
            return Ok((ChildState::Terminating, Arc::clone(existing)));
        }
    }
    // SET-5: nothing is sent if the child is as it was applied.
    let ensured = client
        .apply_part(document)
        .only_to(found.as_deref())
        .if_changed()
        .await?;
    let state = match &ensured {
        Ensured::Unchanged(_) => ChildState::Unchanged,
        ensured => ChildState::Applied {
            created: matches!(ensured, Ensured::Created(_)),
        },
    };
    Ok((state, ensured.into_object()))
}

async fn delete_absent<K: Object>(
    target: ChildTarget<'_>,
    gone_when: Option<Box<GoneWhen<K>>>,
    known: &mut Option<FoundObject>,
) -> Result<Processed, ClientError> {
    let client = target.client.of::<K>(target.kind);
    let found = client.get_opt(target.key).await?;
    *known = target.known_child(found.as_ref());
    // An object that the owner does not control counts as absent.
    let left = found.filter(|found| target.owner.owns(&**found));
    let state = match &left {
        None => ChildState::Absent,
        Some(left) => {
            delete(&client, &**left, |found| target.owner.owns(found)).await?;
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
    let object = left.map(|left| FoundObject(left));
    Ok(Processed::new(state, readiness, object))
}

async fn delete_leftover<K: Object>(
    target: ChildTarget<'_>,
    object: Arc<K>,
) -> Result<Processed, ClientError> {
    let client = target.client.of::<K>(target.kind);
    // The owner and the label are both checked again, because either may have changed.
    delete(&client, &*object, |found| target.owner.is_in_set(found)).await?;
    Ok(Processed::new(
        ChildState::Deleting,
        Readiness::Terminating,
        None,
    ))
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

/// Deletes a child unless its deletion has begun.
///
/// SET-1: the request requires the uid and the version of the object that was judged. A changed object is read again,
/// and deleted only if `is_child` accepts it.
async fn delete<K: Object>(
    client: &KindClient<K>,
    object: &K,
    is_child: impl Fn(&K) -> bool + Send,
) -> Result<(), ClientError> {
    let mut fresh: Option<K> = None;
    let mut attempt = 0;
    loop {
        let object = fresh.as_ref().unwrap_or(object);
        if object.is_being_deleted() {
            return Ok(());
        }
        attempt += 1;
        // Deletes dependents as well: the server's default would leave the Pods of a Job.
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
            Some(found) if is_child(&found) => fresh = Some(found),
            _ => return Ok(()),
        }
    }
}
