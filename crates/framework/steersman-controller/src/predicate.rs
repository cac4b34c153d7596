//! Words: the trait of predicates, which decide which events of a watch reach its handler.

mod changed;
mod func;

use std::sync::Arc;

use steersman_informer::{Entry, Event, Origin};
use steersman_object::{Kind, Labels, Object, ObjectKey};

pub use changed::{
    Changed, Labelled, annotations_changed, finalizers_changed, generation_changed, labelled,
    labels_changed, resource_version_changed,
};
pub use func::{Func, OfObject, func, object};

/// Decides which events of one watch reach its handler.
///
/// A predicate belongs to the watch that it is given to, and to no other. Each method returns whether an event passes;
/// by default every event passes. The predicates of this module let deletes pass unless their docs say otherwise, so
/// that a filter made for changes does not hide the end of an object.
///
/// Predicates filter events; they do not make the cache smaller. They are called in the order of events, should be
/// quick, and must not wait. A panic loses the event, which then does not pass: the panic is logged, counted and shown
/// by [`ControllerStatus`](crate::ControllerStatus) (CTRL-6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on events of `{K}`",
    note = "use one of `steersman_controller::predicate`, such as `generation_changed()`, or wrap a \
            closure with `predicate::func` or `predicate::object`"
)]
pub trait Predicate<K: Object>: Send + Sync + 'static {
    /// Returns whether the creation of an object passes. Objects of the initial list are creations.
    fn created(&self, new: &Entry<K>) -> bool {
        let _ = new;
        true
    }

    /// Returns whether an update passes. A resync is an update with equal versions.
    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        let _ = (old, new);
        true
    }

    /// Returns whether the deletion of an object passes, given its last known state.
    fn deleted(&self, last_known: &Entry<K>) -> bool {
        let _ = last_known;
        true
    }

    /// Returns whether an event passes, by calling [`created`](Self::created), [`updated`](Self::updated) or
    /// [`deleted`](Self::deleted).
    fn passes(&self, event: &Event<K>) -> bool {
        match (event.old(), event.current()) {
            (Some(old), Some(new)) => self.updated(old, new),
            (None, Some(new)) => self.created(new),
            (_, None) => self.deleted(event.entry()),
        }
    }
}

/// Passes events that both predicates let pass; see [`and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(A, B);

/// Passes events that at least one predicate lets pass; see [`or`].
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(A, B);

/// Passes creations and updates that a predicate does not let pass, and every delete; see [`not`].
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(A);

/// Combines the predicates that are added to a watch: passes events that both predicates let pass, as [`And`] does, but
/// without the Rust types of the predicates.
struct Both<K>(Arc<dyn Predicate<K>>, Box<dyn Predicate<K>>);

/// Passes every event: the predicate of a watch to which no predicate is added.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everything;

/// The parts of an event that every kind has, for a filter over all watches of a controller.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("{kind} {key} ({origin:?})")]
#[non_exhaustive]
pub struct EventSummary<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The object's key.
    pub key: &'a ObjectKey,
    /// The current labels of the object, or the last known labels of a deleted object.
    pub labels: &'a Labels,
    /// Whether the object was deleted.
    pub is_delete: bool,
    /// The source of the event: the initial list, a live watch or a resync.
    pub origin: Origin,
}

/// Passes events that both predicates let pass.
pub fn and<A, B>(a: A, b: B) -> And<A, B> {
    And(a, b)
}

/// Passes events that at least one predicate lets pass.
pub fn or<A, B>(a: A, b: B) -> Or<A, B> {
    Or(a, b)
}

/// Passes creations and updates that `predicate` does not let pass, and every delete.
pub fn not<A>(predicate: A) -> Not<A> {
    Not(predicate)
}

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<A, B> {
    fn created(&self, new: &Entry<K>) -> bool {
        self.0.created(new) && self.1.created(new)
    }

    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        self.0.updated(old, new) && self.1.updated(old, new)
    }

    fn deleted(&self, last_known: &Entry<K>) -> bool {
        self.0.deleted(last_known) && self.1.deleted(last_known)
    }

    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<A, B> {
    fn created(&self, new: &Entry<K>) -> bool {
        self.0.created(new) || self.1.created(new)
    }

    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        self.0.updated(old, new) || self.1.updated(old, new)
    }

    fn deleted(&self, last_known: &Entry<K>) -> bool {
        self.0.deleted(last_known) || self.1.deleted(last_known)
    }

    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) || self.1.passes(event)
    }
}

impl<K: Object, A: Predicate<K>> Predicate<K> for Not<A> {
    fn created(&self, new: &Entry<K>) -> bool {
        !self.0.created(new)
    }

    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        !self.0.updated(old, new)
    }

    fn passes(&self, event: &Event<K>) -> bool {
        event.is_delete() || !self.0.passes(event)
    }
}

impl<K: Object> Predicate<K> for Everything {}

impl<K: Object> Predicate<K> for Both<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

pub(crate) fn add_predicate<K: Object>(
    predicates: &mut Arc<dyn Predicate<K>>,
    predicate: impl Predicate<K>,
) {
    *predicates = Arc::new(Both(Arc::clone(predicates), Box::new(predicate)));
}

#[cfg(test)]
mod tests;
