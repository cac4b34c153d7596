//! Machine: reads the part of an object that one field manager owns, from its `managedFields`.

use serde_json::{Map, Value};

/// Whether a list item of which a manager owns a part gets the keys that identify the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKeys {
    /// Each item has its keys, as in a document that is applied again.
    Added,
    /// An item has only its owned fields, which do not include a key that the server has defaulted.
    AsOwned,
}

/// Reads the entries of `managedFields`.
#[derive(Clone, Copy, Debug)]
pub struct OwnedFields<'a> {
    object: &'a Value,
    entries: &'a [Value],
    item_keys: ItemKeys,
}

/// The part of a path that identifies an item of a list.
enum ItemPath {
    Keys(Map<String, Value>),
    Value(Value),
    Index(usize),
}

impl<'a> OwnedFields<'a> {
    /// Reads the `managedFields` of an object; `None` if the object has none.
    pub fn of(object: &'a Value, item_keys: ItemKeys) -> Option<Self> {
        let entries = object["metadata"]["managedFields"].as_array()?;
        let entries = Some(entries).filter(|entries| !entries.is_empty())?;
        Some(Self {
            object,
            entries,
            item_keys,
        })
    }

    /// Returns the entries of managers that applied the object through a subresource; `""` means the object itself.
    pub fn applies(&self, subresource: &'a str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.entries.iter().filter(move |entry| {
            entry["operation"] == "Apply"
                && entry["subresource"].as_str().unwrap_or_default() == subresource
        })
    }

    /// Returns the fields of the object that an entry owns, with their values.
    ///
    /// The fields are read as `managedfields.ExtractInto` of apimachinery reads them. Without the schema there is one
    /// difference: a map that is owned as a whole is returned as a whole, unless a manager owns single members of the
    /// map.
    pub fn part_of(&self, entry: &Value) -> Map<String, Value> {
        let all: Vec<&Value> = self.entries.iter().map(|one| &one["fieldsV1"]).collect();
        match entry["fieldsV1"].as_object() {
            Some(fields) => self.members(fields, self.object, &all),
            None => Map::new(),
        }
    }

    /// Returns the part of `value` that `fields` names. `all` has the field sets of all managers at this path.
    fn owned(&self, fields: &Value, value: &Value, all: &[&Value]) -> Value {
        let Some(set) = fields.as_object().filter(|set| has_children(set)) else {
            // The value is owned as a whole. If other managers own members of it, it was empty when it was applied.
            let mut sets = all.iter().filter_map(|other| other.as_object());
            let apart = sets.any(has_children);
            return match value {
                Value::Object(_) if apart => Value::Object(Map::new()),
                Value::Array(_) if apart => Value::Array(Vec::new()),
                whole => whole.clone(),
            };
        };
        match value {
            Value::Object(_) => Value::Object(self.members(set, value, all)),
            Value::Array(list) => Value::Array(self.items(set, list, all)),
            other => other.clone(),
        }
    }

    /// Returns the members of an object that `set` names.
    fn members(
        &self,
        set: &Map<String, Value>,
        value: &Value,
        all: &[&Value],
    ) -> Map<String, Value> {
        let mut out = Map::new();
        for (path, fields) in set {
            let Some(name) = path.strip_prefix("f:") else {
                continue;
            };
            if let Some(member) = value.get(name) {
                let member = self.owned(fields, member, &below(all, path));
                out.insert(name.to_owned(), member);
            }
        }
        out
    }

    /// Returns the items of a list that `set` names, in the order of the list.
    fn items(&self, set: &Map<String, Value>, list: &[Value], all: &[&Value]) -> Vec<Value> {
        // Parsed once per list, because a list of a thousand items has a thousand paths.
        let paths: Vec<_> = set
            .iter()
            .filter_map(|(path, fields)| Some((path, ItemPath::of(path)?, fields)))
            .collect();
        let mut out = Vec::new();
        for (at, item) in list.iter().enumerate() {
            for (path, wanted, fields) in &paths {
                let found = match wanted {
                    ItemPath::Keys(keys) if has_keys(item, keys) => {
                        let owned = self.owned(fields, item, &below(all, path));
                        Some(match self.item_keys {
                            ItemKeys::Added => with_keys(owned, keys.clone()),
                            ItemKeys::AsOwned => owned,
                        })
                    }
                    ItemPath::Value(value) if value == item => Some(item.clone()),
                    ItemPath::Index(index) if *index == at => Some(item.clone()),
                    _ => None,
                };
                out.extend(found);
            }
        }
        out
    }
}

impl ItemPath {
    fn of(path: &str) -> Option<Self> {
        match path.split_once(':')? {
            ("k", keys) => match parse(keys)? {
                Value::Object(keys) => Some(Self::Keys(keys)),
                _ => None,
            },
            ("v", value) => parse(value).map(Self::Value),
            ("i", index) => index.parse().ok().map(Self::Index),
            _ => None,
        }
    }
}

fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter()
        .all(|(name, value)| item.get(name) == Some(value))
}

/// Adds the keys to an item, because they identify the item in its list.
fn with_keys(item: Value, keys: Map<String, Value>) -> Value {
    match item {
        Value::Object(mut members) => {
            members.extend(keys);
            Value::Object(members)
        }
        other => other,
    }
}

fn below<'a>(all: &[&'a Value], path: &str) -> Vec<&'a Value> {
    all.iter().filter_map(|set| set.get(path)).collect()
}

fn has_children(set: &Map<String, Value>) -> bool {
    set.keys().any(|path| path != ".")
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
