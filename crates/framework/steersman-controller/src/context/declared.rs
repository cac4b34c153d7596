//! Words: the kinds that a controller declared, as far as its reconciles need them.

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use steersman_client::{Client, Error};
use steersman_object::{Kind, ObjectKey, TypedObject};

/// What a controller declared about the objects of its requests. The default is what a context without a
/// controller has: no primary kind, and every kind may be owned.
#[derive(Default)]
pub(crate) struct DeclaredKinds {
    pub(crate) primary: Option<PrimaryKind>,
    /// The kinds of `owns`; `None` means every kind.
    owned: Option<Vec<Kind>>,
}

/// The kind of the objects that requests are about, without its type.
#[derive(Clone)]
pub(crate) struct PrimaryKind {
    pub(crate) kind: Kind,
    uid_of: ReadUid,
}

/// Reads the uid of the object of a key from the cache; `None` if there is no object.
type ReadUid =
    for<'a> fn(&'a Client, &'a ObjectKey) -> BoxFuture<'a, Result<Option<String>, Error>>;

impl DeclaredKinds {
    /// Declares these kinds as owned, and no others.
    pub(crate) fn owning(owned: Vec<Kind>) -> Self {
        Self {
            primary: None,
            owned: Some(owned),
        }
    }

    /// Declares the kind of the objects that requests are about, and every kind as owned.
    pub(crate) fn of_primary(primary: PrimaryKind) -> Self {
        Self {
            primary: Some(primary),
            owned: None,
        }
    }

    pub(crate) fn owned(&self) -> &[Kind] {
        self.owned.as_deref().unwrap_or_default()
    }

    pub(crate) fn owns(&self, kind: &Kind) -> bool {
        let owned = self.owned.as_ref();
        owned.is_none_or(|owned| owned.contains(kind))
    }
}

impl PrimaryKind {
    pub(crate) fn of<K: TypedObject>() -> Self {
        Self {
            kind: Kind::of::<K>(),
            uid_of: |client, key| {
                let read = client.get_opt::<K>(key);
                read.map_ok(|found| found.map(|object| object.uid_str().to_owned()))
                    .boxed()
            },
        }
    }

    /// Returns the uid of the object of a key; `None` if the cache has no such object.
    pub(crate) fn uid_of<'a>(
        &self,
        client: &'a Client,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        (self.uid_of)(client, key)
    }
}
