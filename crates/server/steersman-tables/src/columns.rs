//! Words: the definition of a built-in kind's columns.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::at;

/// One column heading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    /// The text of the heading.
    pub(super) name: &'static str,
    /// The type of the cells in the column definition; the cells themselves do not always have it.
    pub(super) kind: &'static str,
    /// The format of the cells, usually empty.
    pub(super) format: &'static str,
    /// The description of the column, one sentence.
    pub(super) about: &'static str,
    /// Whether kubectl shows the column only with `-o wide`.
    pub(super) wide: bool,
}

/// The columns of one kind after `Name`, and the function that fills them from an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// The headings after `Name`, or all headings if [`Heading::NAME`] is among them.
    pub(super) headings: &'static [Heading],
    /// One cell per heading.
    pub(super) row: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Heading {
    /// The column of the object's name.
    pub(super) const NAME: Self = Self {
        format: "name",
        ..shown(
            "Name",
            "Name of the object, unique among those of its kind and namespace.",
        )
    };

    /// Returns a column of integers.
    pub(super) const fn integer(self) -> Self {
        Self {
            kind: "integer",
            ..self
        }
    }

    /// Returns a column of booleans.
    pub(super) const fn boolean(self) -> Self {
        Self {
            kind: "boolean",
            ..self
        }
    }

    /// Returns whether this is the column of the name.
    pub(super) fn is_name(&self) -> bool {
        self.name == Self::NAME.name
    }
}

impl Columns {
    /// Returns whether the row contains the name itself, in another position or with an addition.
    pub(super) fn has_name(&self) -> bool {
        self.headings.iter().any(Heading::is_name)
    }
}

/// Creates a column that is always shown.
pub(super) const fn shown(name: &'static str, about: &'static str) -> Heading {
    Heading {
        name,
        kind: "string",
        format: "",
        about,
        wide: false,
    }
}

/// Creates a column that is shown with `-o wide`.
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

/// Returns the cell of the age column.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(at(object, &["metadata", "creationTimestamp"]), now).into()
}
