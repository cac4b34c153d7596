//! Words: the primary kind and the owned kinds of a controller, for the reconciles that read owned objects.

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use steersman_client::{Client, Error};
use steersman_object::{Kind, ObjectKey, TypedObject};

/// The primary kind of a controller, and the kinds that it declared as owned. The default, for a context without a
/// controller in a test, has no primary kind and allows every kind as owned.
#[derive(Default)]
pub(crate) struct DeclaredKinds {
    pub(crate) primary: Option<PrimaryKind>,
    /// The kinds that the builder's `owns` declared; `None` means that every kind may be owned.
    pub(crate) owned: Option<Vec<Kind>>,
}

/// The primary kind of a controller, without its Rust type.
#[derive(Clone)]
pub(crate) struct PrimaryKind {
    pub(crate) kind: Kind,
    uid_of: ReadUid,
}

/// Reads the uid of an object, as the Rust type of the primary kind, from the cache; `None` if it does not exist.
type ReadUid =
    for<'a> fn(&'a Client, &'a ObjectKey) -> BoxFuture<'a, Result<Option<String>, Error>>;

impl DeclaredKinds {
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

    pub(crate) fn uid_of<'a>(
        &self,
        client: &'a Client,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        (self.uid_of)(client, key)
    }
}
