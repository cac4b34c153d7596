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
pub(crate) trait Member: Send + Sync {
    fn kind(&self) -> &Kind;

    fn key(&self) -> &ObjectKey;

    /// Applies or deletes the child.
    fn process<'a>(
        self: Box<Self>,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Processed>;
}

/// The result for one child.
#[derive(Debug)]
pub(crate) struct Processed {
    pub(crate) state: ChildState,
    pub(crate) readiness: Option<Readiness>,
    pub(crate) object: Option<FoundObject>,
}

/// A child that shall exist.
pub(crate) struct Present<K> {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    /// The complete document, or the reason why there is none.
    pub(crate) document: Result<Value, ClientError>,
    pub(crate) ready_when: Option<Box<ReadyWhen<K>>>,
}

/// A child that shall not exist.
pub(crate) struct Absent<K> {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    pub(crate) gone_when: Option<Box<GoneWhen<K>>>,
}

/// A child that exists and is not in the set.
pub(crate) struct Leftover<K> {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    pub(crate) object: Arc<K>,
}

impl<K: Object> Member for Present<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn process<'a>(
        self: Box<Self>,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Processed> {
        let applied = async move { self.apply(owner, client).await };
        applied.map(Processed::of).boxed()
    }
}

impl<K: Object> Present<K> {
    async fn apply(self, owner: &SetOwner, client: &Client) -> Result<Processed, ClientError> {
        let document = self.document?;
        let client = client.of::<K>(&self.kind);
        // SET-2
        if let Some(existing) = existing(&client, &self.key).await? {
            owner.check_own(&*existing)?;
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
        let readiness = readiness(&self.kind, self.ready_when.as_deref(), ensured.object());
        Ok(Processed {
            state,
            readiness: Some(readiness),
            object: Some(FoundObject(ensured.into_object())),
        })
    }
}

impl<K: Object> Member for Absent<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn process<'a>(
        self: Box<Self>,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Processed> {
        let deleted = async move { self.delete(owner, client).await };
        deleted.map(Processed::of).boxed()
    }
}

impl<K: Object> Absent<K> {
    async fn delete(self, owner: &SetOwner, client: &Client) -> Result<Processed, ClientError> {
        let client = client.of::<K>(&self.kind);
        let found = client.get_opt(&self.key).await?;
        // An object of that name that the owner does not control is no child.
        let left = found.filter(|found| owner.owns(&**found));
        let state = match &left {
            None => ChildState::Absent,
            Some(left) => {
                delete(&client, owner, left).await?;
                ChildState::Deleting
            }
        };
        let is_gone = match &self.gone_when {
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
}

impl<K: Object> Member for Leftover<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn process<'a>(
        self: Box<Self>,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Processed> {
        let deleted = async move {
            let client = client.of::<K>(&self.kind);
            delete(&client, owner, &self.object).await?;
            Ok(Processed {
                state: ChildState::Deleting,
                readiness: Some(Readiness::Terminating),
                object: None,
            })
        };
        deleted.map(Processed::of).boxed()
    }
}

impl Processed {
    fn of(result: Result<Self, ClientError>) -> Self {
        result.unwrap_or_else(|error| Self {
            state: ChildState::Failed(Box::new(error)),
            readiness: None,
            object: None,
        })
    }

    /// Returns whether the children that come after this one may start.
    pub(crate) fn is_done(&self) -> bool {
        self.readiness == Some(Readiness::Current)
    }
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
