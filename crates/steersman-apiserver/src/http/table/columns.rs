//! Words: what a built-in kind's columns are made of.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::at;

/// One heading: name, type, description, and whether only `-o wide` shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    /// The heading's text.
    pub(super) name: &'static str,
    /// The type of the cells as the definition has it; the cells themselves do not always follow.
    pub(super) kind: &'static str,
    /// The format of the cells, mostly empty.
    pub(super) format: &'static str,
    /// One sentence about the column.
    pub(super) about: &'static str,
    /// Whether only `-o wide` shows it.
    pub(super) wide: bool,
}

/// The columns of one kind after `Name`, and how an object fills them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// The headings after `Name`, or all of them where [`Heading::NAME`] is among them.
    pub(super) headings: &'static [Heading],
    /// One cell per heading.
    pub(super) row: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Heading {
    /// The column of the objects' names.
    pub(super) const NAME: Self = Self {
        format: "name",
        ..shown(
            "Name",
            "Name of the object, unique among those of its kind and namespace.",
        )
    };

    /// A column of whole numbers.
    pub(super) const fn integer(self) -> Self {
        Self {
            kind: "integer",
            ..self
        }
    }

    /// A column of yes and no.
    pub(super) const fn boolean(self) -> Self {
        Self {
            kind: "boolean",
            ..self
        }
    }

    /// Whether this is the column of the names.
    pub(super) fn is_name(&self) -> bool {
        self.name == Self::NAME.name
    }
}

impl Columns {
    /// Whether the row says the name itself, in a place of its own or with something added.
    pub(super) fn has_name(&self) -> bool {
        self.headings.iter().any(Heading::is_name)
    }
}

/// A column that is always shown.
pub(super) const fn shown(name: &'static str, about: &'static str) -> Heading {
    Heading {
        name,
        kind: "string",
        format: "",
        about,
        wide: false,
    }
}

/// A column for `-o wide`.
pub(super) const fn wide(name: &'static str, about: &'static str) -> Heading {
    Heading {
        wide: true,
        ..shown(name, about)
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
