//! Machine: `metadata.managedFields` read, written and ordered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields_v1::{self, write_text};
use super::set::FieldSet;

/// What a manager does: apply its configuration, or change fields otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Everything else.
    Update,
}

/// Who owns fields. An applier is the same in every version of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Its name, for instance `kubectl`.
    pub name: String,
    /// What it does.
    pub operation: Operation,
    /// The version it writes in; empty for an applier.
    pub version: String,
    /// The subresource it writes, empty for the object itself.
    pub subresource: String,
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The fields, as named in `version`.
    fields: Fields,
    /// The version that the fields are of.
    pub version: String,
    /// When the manager last changed something, RFC 3339.
    pub time: Option<String>,
}

/// What a manager owns.
#[derive(Debug, Clone)]
enum Fields {
    /// As the server itself wrote them, in JSON. Most writes leave most entries as they are, and
    /// these are neither read nor written anew (APPLY-4).
    Written(Box<str>),
    Known(FieldSet),
}

/// An entry as it stands in an object.
#[derive(Debug, Deserialize)]
struct Written<'a> {
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

/// How much room the head of an entry usually takes.
const USUAL_HEAD: usize = 192;
/// How much room an entry usually takes.
const USUAL_ENTRY: usize = 1024;

/// The managers of an object and what they own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    all: BTreeMap<Manager, Entry>,
}

impl Manager {
    /// The identity under which fields are owned by a request in `version`.
    pub fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
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
            Self::Written(text) => {
                let value = serde_json::from_str(text).unwrap_or_default();
                Cow::Owned(fields_v1::read(&value).unwrap_or_default())
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
    /// Reads managedFields that a client sent; nothing where they are absent.
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub fn read(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for one in managed.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            let head = Written {
                manager: text("manager").into(),
                operation: text("operation").into(),
                version: text("apiVersion").into(),
                time: one["time"].as_str().map(Cow::Borrowed),
                fields_type: text("fieldsType").into(),
                subresource: text("subresource").into(),
                fields: None,
            };
            let (manager, version, time) = head.read()?;
            let set = fields_v1::read(&one["fieldsV1"])?;
            entries.all.insert(manager, Entry::new(set, &version, time));
        }
        Ok(entries)
    }

    /// The managedFields of a stored object, as the server itself wrote them: only what a write
    /// touches is read (APPLY-4).
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub fn stored(managed: Option<&str>) -> Result<Self, String> {
        let mut entries = Self::default();
        let Some(managed) = managed else {
            return Ok(entries);
        };
        let all: Vec<Written<'_>> = serde_json::from_str(managed).map_err(|e| e.to_string())?;
        for one in all {
            let fields = one.fields.map_or("{}", RawValue::get);
            let fields = Fields::Written(fields.into());
            let (manager, version, time) = one.read()?;
            let entry = Entry {
                fields,
                version,
                time,
            };
            entries.all.insert(manager, entry);
        }
        Ok(entries)
    }

    /// Writes managedFields as JSON; `None` where nobody owns anything. Appliers come first, then
    /// the one who wrote longest ago.
    pub fn write(self) -> Option<String> {
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
        let known = |entry: &Entry| match &entry.fields {
            Fields::Written(text) => text.len() + USUAL_HEAD,
            Fields::Known(_) => USUAL_ENTRY,
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
    pub fn iter(&self) -> impl Iterator<Item = (&Manager, &Entry)> {
        self.all.iter()
    }

    /// Sets what a manager owns; a manager without fields is forgotten.
    pub fn set(&mut self, manager: Manager, entry: Entry) {
        if entry.is_empty() {
            self.all.remove(&manager);
        } else {
            self.all.insert(manager, entry);
        }
    }

    /// Removes and returns the entry of a manager.
    pub fn remove(&mut self, manager: &Manager) -> Option<Entry> {
        self.all.remove(manager)
    }

    /// Changes what each manager owns and forgets those who own nothing then.
    pub fn change(&mut self, mut change: impl FnMut(&Manager, &mut Entry)) {
        self.all.retain(|manager, entry| {
            change(manager, entry);
            !entry.is_empty()
        });
    }
}

impl Entry {
    /// Fields of a version, last changed at that time.
    pub fn new(fields: FieldSet, version: &str, time: Option<String>) -> Self {
        Self {
            fields: Fields::Known(fields),
            version: version.to_owned(),
            time,
        }
    }

    /// The fields, as named in the entry's version.
    pub fn fields(&self) -> Cow<'_, FieldSet> {
        self.fields.known()
    }

    /// The fields alone.
    pub fn into_fields(self) -> FieldSet {
        match self.fields {
            Fields::Known(set) => set,
            written @ Fields::Written(_) => written.known().into_owned(),
        }
    }

    /// Returns whether the entry owns no field.
    pub fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Written(text) => matches!(&**text, "{}" | "null"),
            Fields::Known(set) => set.is_empty(),
        }
    }

    /// The entry with these fields as well.
    #[must_use]
    pub fn with(mut self, fields: FieldSet) -> Self {
        self.change(|own| own.extend(fields));
        self
    }

    /// Forgets all fields.
    pub fn clear(&mut self) {
        self.fields = Fields::Known(FieldSet::default());
    }

    /// Takes fields out.
    pub fn subtract(&mut self, fields: &FieldSet) {
        let untouched = match &self.fields {
            Fields::Written(text) => !fields_v1::touches(text, fields),
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
    pub fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }
}

impl Written<'_> {
    /// Who an entry is of, the version of its fields, and when they were written.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(self) -> Result<(Manager, String, Option<String>), String> {
        let operation = match &*self.operation {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
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

fn write_entry(out: &mut String, manager: &Manager, entry: &Entry) {
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    out.push_str("{\"apiVersion\":");
    write_text(out, &entry.version);
    out.push_str(",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
    match &entry.fields {
        Fields::Written(text) => out.push_str(text),
        Fields::Known(set) => fields_v1::write(out, set),
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
