//! Machine: the handler that requests the owners of the event's object.

use std::marker::PhantomData;

use steersman_informer::{Entry, Event};
use steersman_object::owner::{owner_key, refers_to_kind};
use steersman_object::{Kind, Object, ObjectKey, TypedObject};

use crate::handler::target::TargetOf;
use crate::handler::{EventHandler, Requests};
use crate::request::RequestKey;

/// Requests the owners of one kind; see [`owner`].
#[derive(derive_more::Debug)]
#[debug("Owner({kind:?})")]
pub struct Owner<O> {
    kind: Kind,
    controller_only: bool,
    of: PhantomData<fn(&O)>,
}

/// Requests the owners of kind `O` (the primary kind of the controller) in the owner references of the object; for an
/// update, of the old and of the new object.
///
/// The compiler infers `O` from the primary kind; a controller of [`Controller::keyed`](crate::Controller::keyed) needs
/// `owner::<O>()`. controller-runtime calls this handler `EnqueueRequestForOwner`.
///
/// An owner reference is compared by group and kind. Its version does not count, because a kind is the same in all
/// versions. Its uid does not count, so that an owner that was deleted and created again is requested for the children
/// of its predecessor. A namespaced owner is taken to be in the namespace of the object.
#[must_use]
pub fn owner<O: TypedObject>() -> Owner<O> {
    Owner {
        kind: Kind::of::<O>(),
        controller_only: false,
        of: PhantomData,
    }
}

impl<O> Owner<O> {
    /// Requests only the controlling owner.
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

impl<K: Object, O: TypedObject, P: TargetOf<O>> EventHandler<K, P> for Owner<O> {
    fn handle(&self, event: &Event<K>, requests: &mut Requests<P::Key>) {
        // The owners of the old object are requested, too, because a change of owner concerns the former owner.
        for entry in [event.old(), event.current()].into_iter().flatten() {
            self.add(entry, requests);
        }
    }
}
