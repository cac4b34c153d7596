//! Machine: predicates over changes of one part of an object.

use steersman_informer::Entry;
use steersman_object::{LabelSelector, Object};

use crate::predicate::Predicate;

/// Passes updates that change one part of an object, and all creations and deletes.
///
/// Made by [`generation_changed`], [`resource_version_changed`], [`labels_changed`],
/// [`annotations_changed`] and [`finalizers_changed`].
#[derive(Debug, Clone, Copy)]
pub struct Changed(ComparedPart);

#[derive(Debug, Clone, Copy)]
enum ComparedPart {
    Generation,
    Version,
    Labels,
    Annotations,
    Finalizers,
}

/// Passes events of the objects that a label selector selects; see [`labelled`].
#[derive(Debug, Clone)]
pub struct Labelled(LabelSelector);

/// Passes updates that change `metadata.generation`: the server increases it when the spec changes, and when the
/// deletion of the object is requested. Creations and deletes pass.
///
/// Changes of nothing but the status, labels, annotations or finalizers do not pass. For a custom resource without a
/// status subresource every change counts. Updates of an object without a generation (a ConfigMap, a Secret) always
/// pass; controller-runtime's predicate of this name drops them.
#[must_use]
pub fn generation_changed() -> Changed {
    Changed(ComparedPart::Generation)
}

/// Passes updates that change `metadata.resourceVersion`: every update but a resync.
#[must_use]
pub fn resource_version_changed() -> Changed {
    Changed(ComparedPart::Version)
}

/// Passes updates that change labels. Creations and deletes pass.
#[must_use]
pub fn labels_changed() -> Changed {
    Changed(ComparedPart::Labels)
}

/// Passes updates that change annotations. Creations and deletes pass.
#[must_use]
pub fn annotations_changed() -> Changed {
    Changed(ComparedPart::Annotations)
}

/// Passes updates that change finalizers. Creations and deletes pass.
#[must_use]
pub fn finalizers_changed() -> Changed {
    Changed(ComparedPart::Finalizers)
}

/// Passes the events of objects that `selector` selects.
///
/// An update passes if the selector selects the old or the new object, so that the handler sees an object that is no
/// longer selected. Deletes of objects that the selector does not select do not pass.
#[must_use]
pub fn labelled(selector: LabelSelector) -> Labelled {
    Labelled(selector)
}

impl<K: Object> Predicate<K> for Changed {
    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        // An object with another uid is another object, so the update counts as a change even if the fields are equal.
        if old.uid() != new.uid() {
            return true;
        }
        match self.0 {
            ComparedPart::Generation => match (old.generation(), new.generation()) {
                (Some(before), Some(after)) => {
                    before != after || old.is_deleting() != new.is_deleting()
                }
                _ => true,
            },
            ComparedPart::Version => old.version() != new.version(),
            ComparedPart::Labels => old.labels() != new.labels(),
            ComparedPart::Annotations => old.annotations() != new.annotations(),
            ComparedPart::Finalizers => old.finalizers() != new.finalizers(),
        }
    }
}

impl Labelled {
    fn selects<K: Object>(&self, entry: &Entry<K>) -> bool {
        self.0.selects(entry.labels())
    }
}

impl<K: Object> Predicate<K> for Labelled {
    fn created(&self, new: &Entry<K>) -> bool {
        self.selects(new)
    }

    fn updated(&self, old: &Entry<K>, new: &Entry<K>) -> bool {
        self.selects(old) || self.selects(new)
    }

    fn deleted(&self, last_known: &Entry<K>) -> bool {
        self.selects(last_known)
    }
}
