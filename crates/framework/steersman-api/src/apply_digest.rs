//! Machine: recognises the applies of a program in the `managedFields` of arriving objects.

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};
use steersman_object::Gvk;

use crate::amount::amount;
use crate::field_managers::FieldManagers;
use crate::owned_fields::{ItemKeys, OwnedFields};

/// Identifies an apply: the field manager, and the applied fields with their values.
///
/// Two applies of one manager have equal digests if they set the same fields to the same values. The digest of an
/// object that arrives is that of the apply that would change nothing: the manager owns exactly the fields of the
/// document, and they have its values (CLIENT-12). It is the first half of a SHA-256, so that no document can be made
/// to equal another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, derive_more::Debug)]
// Prints nothing of the document, which may be a Secret.
#[debug("{:02x}{:02x}…", _0[0], _0[1])]
pub struct ApplyDigest([u8; 16]);

/// The members that a document's digest does not hash like other members: its type, and its metadata.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The metadata that name an object in an apply. No manager owns these fields.
const NAMING: [&str; 2] = ["name", "namespace"];

impl ApplyDigest {
    /// Returns the digest of an apply of a document.
    pub fn of(manager: &str, gvk: &Gvk, document: &Value) -> Self {
        let mut hashed = Hashed::begin(manager, gvk);
        let metadata = document["metadata"].as_object().map(|metadata| {
            let mut metadata = metadata.clone();
            metadata.retain(|name, _| !NAMING.contains(&name.as_str()));
            Value::Object(metadata)
        });
        let metadata = metadata.filter(|metadata| !is_empty(metadata));
        let members = document.as_object().into_iter().flatten();
        let fields = members.map(|(name, value)| (&**name, value));
        let fields = fields.filter(|(name, _)| !HEAD.contains(name));
        let metadata = metadata.iter().map(|metadata| ("metadata", metadata));
        let fields = fields.chain(metadata).collect();
        hashed.members(fields);
        hashed.finish()
    }

    /// Returns the digests of the applies by known managers that left the object in this state. `json` is the object
    /// with its `managedFields`.
    pub(crate) fn found_in(json: &[u8], gvk: &Gvk, managers: &FieldManagers) -> Box<[Self]> {
        let Ok(object) = serde_json::from_slice::<Value>(json) else {
            return Box::default();
        };
        let Some(owned) = OwnedFields::of(&object, ItemKeys::AsOwned) else {
            return Box::default();
        };
        // An entry for another version of the kind is skipped, because its paths may differ.
        let api_version = gvk.api_version();
        let found = owned.applies("").filter_map(|entry| {
            let manager = entry["manager"].as_str()?;
            (managers.know(manager) && entry["apiVersion"] == *api_version)
                .then(|| Self::of(manager, gvk, &Value::Object(owned.part_of(entry))))
        });
        found.collect()
    }
}

/// The member of a container or a claim that holds its resource requirements.
const RESOURCES: &str = "resources";
/// The members of [`RESOURCES`] that hold quantities by resource.
const QUANTITIES: [&str; 2] = ["limits", "requests"];

/// The hash of a document. Equal values have equal hashes, whatever the order of members.
struct Hashed {
    context: Context,
    /// Whether the server rewrites quantities; it keeps those of custom resources unchanged.
    has_quantities: bool,
}

impl Hashed {
    fn begin(manager: &str, gvk: &Gvk) -> Self {
        let mut hashed = Self {
            context: Context::new(&SHA256),
            has_quantities: !gvk.group().contains('.') || gvk.group().ends_with(".k8s.io"),
        };
        hashed.text(manager);
        hashed.text(&gvk.api_version());
        hashed
    }

    fn members(&mut self, mut members: Vec<(&str, &Value)>) {
        members.sort_unstable_by_key(|(name, _)| *name);
        self.context.update(b"{");
        for (name, value) in members {
            self.text(name);
            match value {
                Value::Object(parts) if name == RESOURCES && self.has_quantities => {
                    self.resources(parts);
                }
                value => self.value(value),
            }
        }
        self.context.update(b"}");
    }

    /// Hashes the member `resources`, with each quantity by its amount, because the server writes `1000m` as `1`.
    fn resources(&mut self, parts: &Map<String, Value>) {
        let by_amount = |value: &Value| {
            let amount = value.as_str().and_then(amount);
            amount.map_or_else(|| value.clone(), |amount| amount.to_string().into())
        };
        let mut parts = parts.clone();
        for part in QUANTITIES {
            if let Some(Value::Object(quantities)) = parts.get_mut(part) {
                quantities
                    .values_mut()
                    .for_each(|value| *value = by_amount(value));
            }
        }
        self.value(&Value::Object(parts));
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (&**name, value));
                self.members(members.collect());
            }
            Value::Array(items) => {
                self.context.update(b"[");
                items.iter().for_each(|item| self.value(item));
                self.context.update(b"]");
            }
            Value::String(text) => self.text(text),
            // Numbers, booleans and null. No hashed text begins like one of them.
            other => self.context.update(format!("{other},").as_bytes()),
        }
    }

    /// Hashes a text with its length, so that no two sequences of texts have the same hash input.
    fn text(&mut self, text: &str) {
        self.context.update(format!("\"{}:", text.len()).as_bytes());
        self.context.update(text.as_bytes());
    }

    fn finish(self) -> ApplyDigest {
        let mut half = [0; 16];
        for (to, from) in half.iter_mut().zip(self.context.finish().as_ref()) {
            *to = *from;
        }
        ApplyDigest(half)
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests;
