//! Driver: finds the children that exist, by the label of their set and the uid of their owner.

use std::marker::PhantomData;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use steersman_client::{Client, Error as ClientError};
use steersman_object::{Kind, Object};

use crate::member::Member;
use crate::owner::SetOwner;

/// Children of any types.
pub(crate) type Members = Vec<Member>;

/// A kind that the children of a set may have.
pub(crate) trait OwnedKind: Send + Sync {
    fn kind(&self) -> &Kind;

    /// Lists the children of the kind.
    fn list<'a>(
        &'a self,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Members, ClientError>>;
}

/// A kind with objects that are read as type `K`.
pub(crate) struct KindOf<K> {
    kind: Kind,
    of: PhantomData<fn() -> K>,
}

impl<K> KindOf<K> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            of: PhantomData,
        }
    }
}

impl<K: Object> OwnedKind for KindOf<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn list<'a>(
        &'a self,
        owner: &'a SetOwner,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Members, ClientError>> {
        let listed = async move {
            let client = client.of::<K>(&self.kind);
            let found = client.list(&owner.selection(&self.kind)).await?;
            // SET-1: a label can be copied, and an owner can be created again.
            let own = found.into_iter().filter(|object| owner.owns(&**object));
            let leftovers = own.map(|object| Member::leftover(self.kind.clone(), object));
            Ok(leftovers.collect())
        };
        listed.boxed()
    }
}
