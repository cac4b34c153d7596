//! Machine: `metadata.managedFields` read, written and ordered.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fields_v1;
use super::set::FieldSet;

/// What a manager does: apply its configuration, or change fields otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Server-side apply.
    Apply,
    /// Everything else.
    Update,
}

/// Who owns fields. An applier is the same in every version of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    /// Its name, for instance `kubectl`.
    pub(crate) name: String,
    /// What it does.
    pub(crate) operation: Operation,
    /// The version it writes in; empty for an applier.
    pub(crate) version: String,
    /// The subresource it writes, empty for the object itself.
    pub(crate) subresource: String,
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The fields, as named in `version`.
    pub(crate) fields: FieldSet,
    /// The version that the fields are of.
    pub(crate) version: String,
    /// When the manager last changed something, RFC 3339.
    pub(crate) time: Option<String>,
}

/// The managers of an object and what they own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    all: BTreeMap<Manager, Entry>,
}

impl Manager {
    /// The identity under which fields are owned by a request in `version`.
    pub(crate) fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let version = match operation {
            Operation::Apply => "",
            Operation::Update => version,
        };
        Self {
            name: name.to_owned(),
            operation,
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

impl Entries {
    /// Reads managedFields; nothing where they are absent.
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub(crate) fn read(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for one in managed.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let version = text("apiVersion");
            if version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err("missing fieldsType in managed fields entry".to_owned()),
                other => return Err(format!("unsupported fieldsType {other}")),
            }
            let manager = Manager::new(text("manager"), operation, version, text("subresource"));
            let entry = Entry {
                fields: fields_v1::read(&one["fieldsV1"])?,
                version: version.to_owned(),
                time: one["time"].as_str().map(str::to_owned),
            };
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// Writes managedFields; `None` where nobody owns anything. Appliers come first, then the one
    /// who wrote longest ago.
    pub(crate) fn write(&self) -> Option<Value> {
        let mut sorted: Vec<(&Manager, &Entry)> = self.all.iter().collect();
        sorted.retain(|(_, entry)| !entry.fields.is_empty());
        sorted.sort_by(|(left, left_entry), (right, right_entry)| {
            let key = |manager: &Manager, entry: &Entry| {
                let (operation, name) = (manager.operation, manager.name.clone());
                let (version, subresource) = (entry.version.clone(), manager.subresource.clone());
                (operation, entry.seconds(), name, version, subresource)
            };
            key(left, left_entry).cmp(&key(right, right_entry))
        });
        let written: Vec<Value> = sorted
            .into_iter()
            .map(|(manager, entry)| written(manager, entry))
            .collect();
        (!written.is_empty()).then_some(Value::Array(written))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn get(&self, manager: &Manager) -> Option<&Entry> {
        self.all.get(manager)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Manager, &Entry)> {
        self.all.iter()
    }

    /// Sets what a manager owns; a manager without fields is forgotten.
    pub(crate) fn set(&mut self, manager: Manager, entry: Entry) {
        if entry.fields.is_empty() {
            self.all.remove(&manager);
        } else {
            self.all.insert(manager, entry);
        }
    }

    pub(crate) fn remove(&mut self, manager: &Manager) -> Option<Entry> {
        self.all.remove(manager)
    }

    /// Changes what each manager owns and forgets those who own nothing then.
    pub(crate) fn change(&mut self, mut change: impl FnMut(&Manager, &mut Entry)) {
        self.all.retain(|manager, entry| {
            change(manager, entry);
            !entry.fields.is_empty()
        });
    }
}

impl Entry {
    /// When the manager last changed something, in seconds since 1970; 0 where that is not known.
    pub(crate) fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }
}

fn written(manager: &Manager, entry: &Entry) -> Value {
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let mut one =
        json!({"manager": manager.name, "operation": operation, "apiVersion": entry.version});
    if let Some(time) = &entry.time {
        one["time"] = json!(time);
    }
    one["fieldsType"] = json!("FieldsV1");
    one["fieldsV1"] = fields_v1::write(&entry.fields);
    if !manager.subresource.is_empty() {
        one["subresource"] = json!(manager.subresource);
    }
    one
}
