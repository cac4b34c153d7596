//! Machine: an event asks for the owners of its object.

use steersman_informer::{Entry, Event};
use steersman_object::owner::{owner_key, refers_to_kind};
use steersman_object::{Kind, Object, ObjectKey, TypedObject};

use crate::handler::{EventHandler, Requests};
use crate::request::RequestKey;

/// Requests the owners of one kind; see [`owner`].
#[derive(Debug, Clone)]
pub struct Owner {
    kind: Kind,
    controller_only: bool,
}

/// Requests the owners of kind `O` that the object's owner references name, before an update as well
/// as after it.
///
/// The reference's group and kind decide; its version does not, since a kind is one in all its
/// versions, and its uid does not either, since a recreated owner is to hear of what its predecessor
/// left. A cluster-scoped owner has no namespace, any other is in the object's.
#[must_use]
pub fn owner<O: TypedObject>() -> Owner {
    Owner::of(Kind::of::<O>())
}

impl Owner {
    /// As [`owner`], for a kind that is known only at runtime.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            controller_only: false,
        }
    }

    /// Takes only the controlling owner into account.
    #[must_use]
    pub fn controller_only(mut self) -> Self {
        self.controller_only = true;
        self
    }

    fn add<K: Object, R: RequestKey + From<ObjectKey>>(
        &self,
        entry: &Entry<K>,
        requests: &mut Requests<R>,
    ) {
        for reference in entry.owner_references() {
            if self.controller_only && reference.controller != Some(true) {
                continue;
            }
            if refers_to_kind(reference, &self.kind) {
                let key = owner_key(reference, &self.kind, entry.key().namespace());
                requests.add(R::from(key));
            }
        }
    }
}

impl<K: Object, R: RequestKey + From<ObjectKey>> EventHandler<K, R> for Owner {
    fn handle(&self, event: &Event<K>, requests: &mut Requests<R>) {
        // Both, so that a child that moves leaves nobody behind who was not told.
        for entry in [event.old(), event.current()].into_iter().flatten() {
            self.add(entry, requests);
        }
    }
}
