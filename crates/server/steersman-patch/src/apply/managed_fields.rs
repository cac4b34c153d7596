//! Machine: parses, writes and orders the entries of `metadata.managedFields`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::field_set::FieldSet;
use super::fields_v1::{self, write_text};

/// The kind of write by which a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerOperation {
    /// Server-side apply.
    Apply,
    /// Any write other than server-side apply.
    Update,
}

/// The identity of an owner of fields. For applies, a manager is the same in every version of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The manager's name, for instance `kubectl`.
    pub name: String,
    /// Whether the manager applies or updates.
    pub operation: ManagerOperation,
    /// The API version of the manager's writes; empty for applies.
    pub version: String,
    /// The subresource that the manager writes; empty for the object itself.
    pub subresource: String,
}

/// The managedFields entry of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerEntry {
    /// The fields of the manager, with their names in `version`.
    fields: EntryFields,
    /// The API version that the names of the fields belong to.
    pub version: String,
    /// The time at which the manager last changed a field, in the form of RFC 3339.
    pub time: Option<String>,
}

/// The fields of an entry, parsed or still as JSON text.
#[derive(Debug, Clone)]
enum EntryFields {
    /// The JSON text that the server wrote earlier. Most writes leave most entries unchanged, and such entries are
    /// neither parsed nor written anew (APPLY-4).
    Written(Box<str>),
    Known(FieldSet),
}

/// The JSON of an entry, borrowed from an object.
#[derive(Debug, Deserialize)]
struct WrittenEntry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default, rename = "apiVersion")]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "fieldsType")]
    fields_type: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

/// Usual length, in bytes, of an entry without its fields.
const USUAL_HEAD: usize = 192;
/// Usual length of an entry, in bytes.
const USUAL_ENTRY: usize = 1024;

/// The managers of an object, with the fields of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagerEntries {
    all: BTreeMap<Manager, ManagerEntry>,
}

impl Manager {
    /// Returns the manager that owns the fields which a request in `version` writes.
    pub fn new(name: &str, operation: ManagerOperation, version: &str, subresource: &str) -> Self {
        let version = match operation {
            ManagerOperation::Apply => "",
            ManagerOperation::Update => version,
        };
        Self {
            name: name.to_owned(),
            operation,
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

impl EntryFields {
    fn known(&self) -> Cow<'_, FieldSet> {
        match self {
            // A text that does not parse was not written by this server, and counts as a text without fields.
            Self::Written(text) => {
                let value = serde_json::from_str(text).unwrap_or_default();
                Cow::Owned(fields_v1::read(&value).unwrap_or_default())
            }
            Self::Known(set) => Cow::Borrowed(set),
        }
    }
}

impl PartialEq for EntryFields {
    fn eq(&self, other: &Self) -> bool {
        self.known() == other.known()
    }
}

impl Eq for EntryFields {}

impl ManagerEntries {
    /// Parses managedFields that a client sent. Absent managedFields have no entries.
    ///
    /// # Errors
    /// Fails with a description of the first invalid entry.
    pub fn read(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for one in managed.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            let head = WrittenEntry {
                manager: text("manager").into(),
                operation: text("operation").into(),
                version: text("apiVersion").into(),
                time: one["time"].as_str().map(in_whole_seconds),
                fields_type: text("fieldsType").into(),
                subresource: text("subresource").into(),
                fields: None,
            };
            let (manager, version, time) = head.read()?;
            let set = fields_v1::read(&one["fieldsV1"])?;
            let entry = ManagerEntry::new(set, &version, time);
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// Reads the managedFields of a stored object. The fields of an entry stay text until a write touches them
    /// (APPLY-4).
    ///
    /// # Errors
    /// Fails with a description of the first invalid entry.
    pub fn stored(managed: Option<&str>) -> Result<Self, String> {
        let mut entries = Self::default();
        let Some(managed) = managed else {
            return Ok(entries);
        };
        let all: Vec<WrittenEntry<'_>> =
            serde_json::from_str(managed).map_err(|e| e.to_string())?;
        for one in all {
            let fields = one.fields.map_or("{}", RawValue::get);
            let fields = EntryFields::Written(fields.into());
            let (manager, version, time) = one.read()?;
            let entry = ManagerEntry {
                fields,
                version,
                time,
            };
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// Writes managedFields as JSON; `None` if no manager owns a field. Entries of applies come first, then entries of
    /// updates, the oldest time first.
    pub fn write(self) -> Option<String> {
        let all = self.all.into_iter();
        let mut sorted: Vec<_> = all
            .filter(|(_, entry)| !entry.is_empty())
            .map(|(manager, entry)| (entry.seconds(), manager, entry))
            .collect();
        sorted.sort_by(|left, right| {
            fn key((seconds, manager, entry): &(i64, Manager, ManagerEntry)) -> impl Ord + '_ {
                let who = (&manager.name, &entry.version, &manager.subresource);
                (manager.operation, *seconds, who)
            }
            key(left).cmp(&key(right))
        });
        let known = |entry: &ManagerEntry| match &entry.fields {
            EntryFields::Written(text) => text.len() + USUAL_HEAD,
            EntryFields::Known(_) => USUAL_ENTRY,
        };
        let usual = sorted.iter().map(|(_, _, entry)| known(entry)).sum();
        let mut out = String::with_capacity(usual);
        for (_, manager, entry) in &sorted {
            out.push(if out.is_empty() { '[' } else { ',' });
            write_entry(&mut out, manager, entry);
        }
        if out.is_empty() {
            return None;
        }
        out.push(']');
        Some(out)
    }

    /// Returns whether no manager owns a field.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the managers with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (&Manager, &ManagerEntry)> {
        self.all.iter()
    }

    /// Sets the fields of a manager, or removes the manager if the entry has no fields.
    pub fn set(&mut self, manager: Manager, entry: ManagerEntry) {
        if entry.is_empty() {
            self.all.remove(&manager);
        } else {
            self.all.insert(manager, entry);
        }
    }

    /// Removes and returns the entry of a manager.
    pub fn remove(&mut self, manager: &Manager) -> Option<ManagerEntry> {
        self.all.remove(manager)
    }

    /// Calls `change` for the entry of each manager, and removes the managers that own no field afterwards.
    pub fn change(&mut self, mut change: impl FnMut(&Manager, &mut ManagerEntry)) {
        self.all.retain(|manager, entry| {
            change(manager, entry);
            !entry.is_empty()
        });
    }
}

impl ManagerEntry {
    /// Creates an entry of fields with their names in `version`, last changed at `time`.
    pub fn new(fields: FieldSet, version: &str, time: Option<String>) -> Self {
        Self {
            fields: EntryFields::Known(fields),
            version: version.to_owned(),
            time,
        }
    }

    /// Returns the fields of the entry, with their names in the entry's version.
    pub fn fields(&self) -> Cow<'_, FieldSet> {
        self.fields.known()
    }

    /// Returns the fields of the entry.
    pub fn into_fields(self) -> FieldSet {
        match self.fields {
            EntryFields::Known(set) => set,
            written @ EntryFields::Written(_) => written.known().into_owned(),
        }
    }

    /// Returns whether the entry owns no field.
    pub fn is_empty(&self) -> bool {
        match &self.fields {
            EntryFields::Written(text) => matches!(&**text, "{}" | "null"),
            EntryFields::Known(set) => set.is_empty(),
        }
    }

    /// Returns the entry with these fields added.
    #[must_use]
    pub fn with(mut self, fields: FieldSet) -> Self {
        self.change(|own| own.extend(fields));
        self
    }

    /// Removes all fields of the entry.
    pub fn clear(&mut self) {
        self.fields = EntryFields::Known(FieldSet::default());
    }

    /// Removes these fields from the entry.
    pub fn subtract(&mut self, fields: &FieldSet) {
        if let EntryFields::Written(text) = &self.fields
            && !fields_v1::touches(text, fields)
        {
            return;
        }
        self.change(|own| own.subtract(fields));
    }

    fn change(&mut self, change: impl FnOnce(&mut FieldSet)) {
        let mut set = match &mut self.fields {
            EntryFields::Known(set) => std::mem::take(set),
            EntryFields::Written(_) => self.fields.known().into_owned(),
        };
        change(&mut set);
        self.fields = EntryFields::Known(set);
    }

    /// Returns the time of the manager's last change, in seconds since 1970; 0 if it is unknown.
    pub fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }
}

impl WrittenEntry<'_> {
    /// Splits a JSON entry into its manager, the version of its fields, and its time.
    fn read(self) -> Result<(Manager, String, Option<String>), String> {
        let operation = match &*self.operation {
            "Apply" => ManagerOperation::Apply,
            "Update" => ManagerOperation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if self.version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match &*self.fields_type {
            "FieldsV1" => {}
            "" => return Err("missing fieldsType in managed fields entry".to_owned()),
            other => return Err(format!("unsupported fieldsType {other}")),
        }
        let manager = Manager::new(&self.manager, operation, &self.version, &self.subresource);
        let time = self.time.map(Cow::into_owned);
        Ok((manager, self.version.into_owned(), time))
    }
}

/// Returns a time that a client sent in the form that the server writes: in whole seconds, and in UTC.
fn in_whole_seconds(time: &str) -> Cow<'_, str> {
    match time.parse::<jiff::Timestamp>() {
        Ok(parsed) => Cow::Owned(parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        Err(_) => Cow::Borrowed(time),
    }
}

fn write_entry(out: &mut String, manager: &Manager, entry: &ManagerEntry) {
    let operation = match manager.operation {
        ManagerOperation::Apply => "Apply",
        ManagerOperation::Update => "Update",
    };
    out.push_str("{\"apiVersion\":");
    write_text(out, &entry.version);
    out.push_str(",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
    match &entry.fields {
        EntryFields::Written(text) => out.push_str(text),
        EntryFields::Known(set) => fields_v1::write(out, set),
    }
    out.push_str(",\"manager\":");
    write_text(out, &manager.name);
    out.push_str(",\"operation\":");
    write_text(out, operation);
    if !manager.subresource.is_empty() {
        out.push_str(",\"subresource\":");
        write_text(out, &manager.subresource);
    }
    if let Some(time) = &entry.time {
        out.push_str(",\"time\":");
        write_text(out, time);
    }
    out.push('}');
}
