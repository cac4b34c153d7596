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
/// A resync changes nothing, so it does not cut the object's backoff short. An update of only the status may come from
/// the controller itself: it runs the object before its backoff ends, but after a delay that doubles with each such run
/// that fails (WQ-12). Otherwise a reconcile that writes its status and then fails would be retried without a delay.
#[must_use]
pub fn itself() -> Itself {
    Itself::default()
}

impl Itself {
    /// Declares that no other program writes the status of these objects.
    ///
    /// An update of only the status is then the controller's own, and never cuts the object's backoff short (CTRL-4): a
    /// reconcile that writes the reason into the status and then fails is retried after the backoff. If another program
    /// does write the status, its updates wait for the backoff, too.
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
                // WQ-12: the controller itself may have written the status. So that a failing reconcile does not run in
                // a tight loop, the delay of these runs doubles with each failure.
                false => options.space_in_backoff(),
            },
            _ => options,
        };
        requests.add_with(request, options);
    }
}

// Returns whether an update changes the status alone: the generation and the compared metadata are equal. For a kind
// without generations this is unknown, so the result is false.
fn is_status_only<K: Object>(old: &Entry<K>, new: &Entry<K>) -> bool {
    old.uid() == new.uid()
        && old.generation().is_some()
        && old.generation() == new.generation()
        && old.is_deleting() == new.is_deleting()
        && old.finalizers() == new.finalizers()
        && old.labels() == new.labels()
        && old.owner_references() == new.owner_references()
        // Hashes are compared, because decoding both objects would delay the deliveries of all objects. If changed
        // annotations have equal hashes, the update counts as status-only, so that at worst an object in backoff runs
        // later.
        && old.annotations_hash() == new.annotations_hash()
}
