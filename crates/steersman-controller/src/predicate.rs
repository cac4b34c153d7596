//! Words: which events of a watch are worth a request.

mod changed;
mod func;

use std::fmt;

use steersman_informer::{Entry, Event, Origin};
use steersman_object::{Kind, Labels, Object, ObjectKey};

pub use changed::{
    Changed, Labelled, annotations_changed, finalizers_changed, generation_changed, labelled,
    labels_changed, resource_version_changed,
};
pub use func::{Func, OfObject, func, object};

/// Decides which events of one watch reach its handler.
///
/// A predicate belongs to the watch it is given to, and to no other. Each method answers whether an
/// event passes; what a predicate does not mention passes. Deletes in particular pass every predicate
/// of this module that does not say otherwise, so that a filter made for changes never hides the end
/// of an object.
///
/// Predicates filter events; they do not make the cache smaller. They are called in the order of
/// events, should be quick, and must not wait. A panic costs the event, which is then as if it had not
/// passed: it is logged, counted and shown by [`ControllerStatus`](crate::ControllerStatus) (CTRL-6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on events of `{K}`",
    note = "use one of `steersman_controller::predicate`, such as `generation_changed()`, or wrap a \
            closure with `predicate::func` or `predicate::object`"
)]
pub trait Predicate<K: Object>: Send + Sync + 'static {
    /// Whether the creation of an object passes. The objects of the initial list are creations.
    fn created(&self, new: &Entry<K>) -> bool {
        let _ = new;
        true
    }

    /// Whether an update passes. A resync is an update with equal versions.
    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        let _ = (old, new);
        true
    }

    /// Whether the deletion of an object passes, given its last known state.
    fn deleted(&self, last_known: &Entry<K>) -> bool {
        let _ = last_known;
        true
    }

    /// Whether an event passes: asks the method for its type.
    fn passes(&self, event: &Event<K>) -> bool {
        match (event.old(), event.current()) {
            (Some(old), Some(new)) => self.updated(old, new),
            (None, Some(new)) => self.created(new),
            (_, None) => self.deleted(event.entry()),
        }
    }
}

/// Both predicates must let an event pass; see [`and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(A, B);

/// One predicate that lets an event pass suffices; see [`or`].
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(A, B);

/// The opposite of a predicate; see [`not`].
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(A);

/// Lets everything pass; what a watch has that was given no predicate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everything;

/// What an event of any kind shows of itself, for a filter over all watches of a controller.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct EventSummary<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The object's key.
    pub key: &'a ObjectKey,
    /// The object's labels: the new ones, or the last known of a deleted object.
    pub labels: &'a Labels,
    /// Whether the object was deleted.
    pub is_delete: bool,
    /// Where the event comes from.
    pub origin: Origin,
}

/// Passes what both let pass.
pub fn and<A, B>(a: A, b: B) -> And<A, B> {
    And(a, b)
}

/// Passes what at least one lets pass.
pub fn or<A, B>(a: A, b: B) -> Or<A, B> {
    Or(a, b)
}

/// Passes the creations and updates that `predicate` does not, and every delete.
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

impl fmt::Debug for EventSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:?})", self.kind, self.key, self.origin)
    }
}

#[cfg(test)]
mod tests;
