//! Machine: the handler that requests the event's own object.

use steersman_informer::{Entry, Event};
use steersman_object::{Object, ObjectKey};

use crate::handler::target::ControllerTarget;
use crate::handler::{EventHandler, Requests};

/// Requests the object of the event; see [`itself`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Itself {
    pub(crate) sole_status_writer: bool,
}

/// Requests the object of the event: the handler of the primary kind.
///
/// A resync, which brings no change, does not cut the object's backoff short. An update of nothing but the status does,
/// after a pause that doubles with each run that has failed since (WQ-12): a reconcile that writes its status and then
/// fails is not retried without a pause.
#[must_use]
pub fn itself() -> Itself {
    Itself::default()
}

impl Itself {
    /// Declares that no other program writes the status of these objects.
    ///
    /// An update of nothing but the status is then the controller's own, and does not cut the object's
    /// backoff short at all (CTRL-4): a reconcile that writes the reason into the status and then fails is
    /// retried after the backoff, and not at once. If another program does write the status, its updates
    /// wait for the backoff as well.
    #[must_use]
    pub fn sole_status_writer(mut self) -> Self {
        self.sole_status_writer = true;
        self
    }
}

impl<K: Object, P: ControllerTarget<Key: From<ObjectKey>>> EventHandler<K, P> for Itself {
    fn handle(&self, event: &Event<K>, requests: &mut Requests<P::Key>) {
        let request = P::Key::from(event.key().clone());
        let options = requests.defaults();
        let options = match (event.old(), event.current()) {
            (Some(_), Some(_)) if event.is_resync() => options.keep_backoff(),
            (Some(old), Some(new)) if is_status_only(old, new) => match self.sole_status_writer {
                true => options.keep_backoff(),
                // WQ-12: the update may be the controller's own, or that of another writer.
                false => options.space_in_backoff(),
            },
            _ => options,
        };
        requests.add_with(request, options);
    }
}

// The spec and the status can be told apart only for a kind with a generation.
fn is_status_only<K: Object>(old: &Entry<K>, new: &Entry<K>) -> bool {
    old.uid() == new.uid()
        && old.generation().is_some()
        && old.generation() == new.generation()
        && old.is_deleting() == new.is_deleting()
        && old.finalizers() == new.finalizers()
        && old.labels() == new.labels()
        && old.owner_references() == new.owner_references()
        // By a hash, because the annotations themselves need both objects decoded, and this task delivers the events of
        // all objects. A change of annotations with equal hashes would wait for the backoff.
        && old.annotations_hash() == new.annotations_hash()
}
