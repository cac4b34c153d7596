//! Machine: `metadata.managedFields` read, written and ordered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

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
    fields: Fields,
    /// The version that the fields are of.
    pub(crate) version: String,
    /// When the manager last changed something, RFC 3339.
    pub(crate) time: Option<String>,
}

/// What a manager owns.
#[derive(Debug, Clone)]
enum Fields {
    /// As the server itself wrote it: the whole entry. Most writes leave most entries as they are,
    /// and these are neither read nor written anew (APPLY-4).
    Written(Value),
    Known(FieldSet),
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

impl Fields {
    fn known(&self) -> Cow<'_, FieldSet> {
        match self {
            // What cannot be read was not written by the server, and names no fields.
            Self::Written(entry) => {
                Cow::Owned(fields_v1::read(&entry["fieldsV1"]).unwrap_or_default())
            }
            Self::Known(set) => Cow::Borrowed(set),
        }
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.known() == other.known()
    }
}

impl Eq for Fields {}

impl Entries {
    /// Reads managedFields; nothing where they are absent.
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub(crate) fn read(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for one in managed.and_then(Value::as_array).into_iter().flatten() {
            let (manager, version) = head(one)?;
            let set = fields_v1::read(&one["fieldsV1"])?;
            let time = one["time"].as_str().map(str::to_owned);
            let entry = Entry::new(set, &version, time);
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// The managedFields of a stored object, which the server itself wrote: only what a write
    /// touches is read (APPLY-4).
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub(crate) fn stored(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for one in managed.and_then(Value::as_array).into_iter().flatten() {
            let (manager, version) = head(one)?;
            let entry = Entry {
                fields: Fields::Written(one.clone()),
                version,
                time: one["time"].as_str().map(str::to_owned),
            };
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// Writes managedFields; `None` where nobody owns anything. Appliers come first, then the one
    /// who wrote longest ago.
    pub(crate) fn write(self) -> Option<Value> {
        let all = self.all.into_iter();
        let mut sorted: Vec<_> = all
            .filter(|(_, entry)| !entry.is_empty())
            .map(|(manager, entry)| (entry.seconds(), manager, entry))
            .collect();
        sorted.sort_by(|left, right| {
            fn key((seconds, manager, entry): &(i64, Manager, Entry)) -> impl Ord + '_ {
                let who = (&manager.name, &entry.version, &manager.subresource);
                (manager.operation, *seconds, who)
            }
            key(left).cmp(&key(right))
        });
        let entries = sorted.into_iter();
        let written: Vec<Value> = entries
            .map(|(_, manager, entry)| written(&manager, entry))
            .collect();
        (!written.is_empty()).then_some(Value::Array(written))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Manager, &Entry)> {
        self.all.iter()
    }

    /// Sets what a manager owns; a manager without fields is forgotten.
    pub(crate) fn set(&mut self, manager: Manager, entry: Entry) {
        if entry.is_empty() {
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
            !entry.is_empty()
        });
    }
}

impl Entry {
    /// Fields of a version, last changed at that time.
    pub(crate) fn new(fields: FieldSet, version: &str, time: Option<String>) -> Self {
        Self {
            fields: Fields::Known(fields),
            version: version.to_owned(),
            time,
        }
    }

    /// The fields, as named in the entry's version.
    pub(crate) fn fields(&self) -> Cow<'_, FieldSet> {
        self.fields.known()
    }

    /// The fields alone.
    pub(crate) fn into_fields(self) -> FieldSet {
        match self.fields {
            Fields::Known(set) => set,
            written @ Fields::Written(_) => written.known().into_owned(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Written(entry) => entry["fieldsV1"].as_object().is_none_or(Map::is_empty),
            Fields::Known(set) => set.is_empty(),
        }
    }

    /// The entry with these fields as well.
    pub(crate) fn with(mut self, fields: FieldSet) -> Self {
        self.change(|own| own.extend(fields));
        self
    }

    /// Forgets all fields.
    pub(crate) fn clear(&mut self) {
        self.fields = Fields::Known(FieldSet::default());
    }

    /// Takes fields out.
    pub(crate) fn subtract(&mut self, fields: &FieldSet) {
        let untouched = match &self.fields {
            Fields::Written(entry) => !fields_v1::touches(&entry["fieldsV1"], fields),
            Fields::Known(_) => false,
        };
        if untouched {
            return;
        }
        self.change(|own| own.subtract(fields));
    }

    fn change(&mut self, change: impl FnOnce(&mut FieldSet)) {
        let mut set = match &mut self.fields {
            Fields::Known(set) => std::mem::take(set),
            Fields::Written(_) => self.fields.known().into_owned(),
        };
        change(&mut set);
        self.fields = Fields::Known(set);
    }

    /// When the manager last changed something, in seconds since 1970; 0 where that is not known.
    pub(crate) fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }
}

/// Who an entry is of, and the version of its fields.
fn head(entry: &Value) -> Result<(Manager, String), String> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
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
    Ok((manager, version.to_owned()))
}

fn written(manager: &Manager, entry: Entry) -> Value {
    let fields = match entry.fields {
        Fields::Written(entry) => return entry,
        Fields::Known(set) => set,
    };
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let mut one =
        json!({"manager": manager.name, "operation": operation, "apiVersion": entry.version});
    if let Some(time) = entry.time {
        one["time"] = time.into();
    }
    one["fieldsType"] = json!("FieldsV1");
    one["fieldsV1"] = fields_v1::write(&fields);
    if !manager.subresource.is_empty() {
        one["subresource"] = json!(manager.subresource);
    }
    one
}
