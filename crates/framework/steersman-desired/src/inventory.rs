//! Driver: lists the existing children, by the label of their set and the uid of their owner.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use steersman_client::{Client, Error as ClientError};
use steersman_object::{Kind, Object};

use crate::member::ChildMember;
use crate::owner::SetOwner;

pub(crate) type Children = Vec<ChildMember>;

pub(crate) struct OwnedKind {
    pub(crate) kind: Kind,
    list: ListChildren,
}

type ListChildren =
    for<'a> fn(&'a Kind, &'a SetOwner, &'a Client) -> BoxFuture<'a, Result<Children, ClientError>>;

impl OwnedKind {
    pub(crate) fn of<K: Object>(kind: Kind) -> Self {
        Self {
            kind,
            list: |kind, owner, client| list::<K>(kind, owner, client).boxed(),
        }
    }

    pub(crate) async fn list(
        &self,
        owner: &SetOwner,
        client: &Client,
    ) -> Result<Children, ClientError> {
        (self.list)(&self.kind, owner, client).await
    }
}

async fn list<K: Object>(
    kind: &Kind,
    owner: &SetOwner,
    client: &Client,
) -> Result<Children, ClientError> {
    let found = client.of::<K>(kind).list(&owner.list_options(kind)).await?;
    // SET-1: the label alone is not enough, because it may be copied, or be of a deleted owner with the same name.
    let own = found.into_iter().filter(|object| owner.owns(&**object));
    let leftovers = own.map(|object| ChildMember::leftover(kind.clone(), object));
    Ok(leftovers.collect())
}
