//! Words: the definition of a built-in kind's columns.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::{at, containers, labels, selector};

/// Reads a cell, or a list of cells, from an object at a time.
type ReadCells = fn(&Value, Timestamp) -> Value;

#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    pub(super) name: &'static str,
    /// The type of the cells in the column definition; the cells themselves do not always have it.
    pub(super) kind: &'static str,
    /// The format of the cells, usually empty.
    pub(super) format: &'static str,
    pub(super) about: &'static str,
    /// Whether kubectl shows the column only with `-o wide`.
    pub(super) wide: bool,
    /// Reads the cells of a column that several kinds have.
    pub(super) cell: Option<ReadCells>,
}

/// The columns of one kind after `Name`, and the function that fills them from an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// The headings after `Name`, or all headings if [`Heading::NAME`] is among them.
    pub(super) headings: &'static [Heading],
    /// Returns a list with a cell for each heading that has no function of its own.
    pub(super) row: ReadCells,
}

impl Heading {
    /// The column of the object's name.
    pub(super) const NAME: Self = Self {
        format: "name",
        ..shown("Name", "Name, unique per kind and namespace.")
    };

    pub(super) const fn integer(mut self) -> Self {
        self.kind = "integer";
        self
    }

    pub(super) const fn boolean(mut self) -> Self {
        self.kind = "boolean";
        self
    }

    /// Returns a column with cells that this function reads.
    const fn reads(mut self, cell: ReadCells) -> Self {
        self.cell = Some(cell);
        self
    }
}

impl Columns {
    /// Returns whether the row contains the name itself, in another position or with an addition.
    pub(super) fn has_name(&self) -> bool {
        self.headings
            .iter()
            .any(|heading| heading.name == Heading::NAME.name)
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut row = (self.row)(object, now);
        let mut own = row
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default()
            .into_iter();
        let mut cells = Vec::new();
        for heading in self.headings {
            match heading.cell {
                Some(cell) => cells.push(cell(object, now)),
                None => cells.extend(own.next()),
            }
        }
        cells.extend(own);
        cells
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
        cell: None,
    }
}

/// Creates a column that is shown with `-o wide`.
pub(super) const fn wide(name: &'static str, about: &'static str) -> Heading {
    Heading {
        wide: true,
        ..shown(name, about)
    }
}

pub(super) const AGE: Heading = shown("Age", "Time since the object was created.").reads(age);

pub(super) const CONTAINERS: Heading =
    wide("Containers", "Names of the containers of the pod template.")
        .reads(|object, _| containers(template(object), "name").into());

pub(super) const IMAGES: Heading = wide("Images", "Images of the containers of the pod template.")
    .reads(|object, _| containers(template(object), "image").into());

/// The label selector. That of a ReplicationController is a plain map of labels.
pub(super) const SELECTOR: Heading =
    wide("Selector", "Label selector of the pods.").reads(|object, _| {
        let chosen = at(jobs(object), "spec.selector");
        let members = chosen.and_then(Value::as_object);
        let is_plain = members.is_some_and(|map| map.values().all(Value::is_string));
        let format = if is_plain { labels } else { selector };
        format(chosen).into()
    });

/// Returns the template of a CronJob's jobs, or the object itself.
fn jobs(object: &Value) -> &Value {
    at(object, "spec.jobTemplate").unwrap_or(object)
}

fn template(object: &Value) -> &Value {
    at(jobs(object), "spec.template").unwrap_or(&Value::Null)
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(at(object, "metadata.creationTimestamp"), now).into()
}
