//! Words: what a built-in kind's columns are made of.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::at;

/// One heading: name, description, and whether only `-o wide` shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    /// The heading's text.
    pub(super) name: &'static str,
    /// One sentence about the column.
    pub(super) about: &'static str,
    /// Whether only `-o wide` shows it.
    pub(super) wide: bool,
}

/// The columns of one kind after `Name`, and how an object fills them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// The headings after `Name`.
    pub(super) headings: &'static [Heading],
    /// One cell per heading.
    pub(super) row: fn(&Value, Timestamp) -> Vec<Value>,
}

/// A column that is always shown.
pub(super) const fn shown(name: &'static str, about: &'static str) -> Heading {
    Heading {
        name,
        about,
        wide: false,
    }
}

/// A column for `-o wide`.
pub(super) const fn wide(name: &'static str, about: &'static str) -> Heading {
    Heading {
        name,
        about,
        wide: true,
    }
}

/// The age column.
pub(super) const AGE: Heading = shown("Age", "Time since the object was created.");
/// The container names of a pod template.
pub(super) const CONTAINERS: Heading =
    wide("Containers", "Names of the containers of the pod template.");
/// The images of a pod template.
pub(super) const IMAGES: Heading = wide("Images", "Images of the containers of the pod template.");
/// The label selector.
pub(super) const SELECTOR: Heading = wide("Selector", "Label selector of the pods.");

/// The cell of the age column.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(at(object, &["metadata", "creationTimestamp"]), now).into()
}
