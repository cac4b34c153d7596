//! Machine: compiles structural schemas of custom resources, removes undeclared fields (pruning), and applies defaults.

mod node;
mod properties;
mod keywords;

use serde_json::Value;
use steersman_apimachinery::order::METADATA;
use steersman_apimachinery::status::FieldError;

pub use keywords::{Bound, Keywords, Pattern, Restrictions};
pub use node::SchemaNode;
pub use properties::Properties;

/// One node of a compiled `openAPIV3Schema`: the schema of one value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one keyword of the schema language"
)]
pub struct Structural {
    /// The JSON type of the value (`type`), such as `object`; empty if the schema has none.
    pub kind: Box<str>,
    /// The format of a string or number (`format`), such as `date-time`; empty if the schema has none.
    pub format: Box<str>,
    /// The schemas of the fields that the schema names (`properties`).
    pub properties: Properties,
    /// Whether fields that `properties` does not name are allowed, and their schema (`additionalProperties`).
    pub additional: Additional,
    /// The schema of the items, if the value is a list (`items`).
    pub items: Option<SchemaNode>,
    /// The default for an absent value (`default`); `None` for a schema without default or with the default `null`.
    pub default: Option<Value>,
    /// Whether the value may be null (`nullable`).
    pub nullable: bool,
    /// Whether undeclared fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// Whether the value is an integer or a string (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Whether the value is an object with a kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// The keywords that restrict the values, such as `maximum`.
    pub rules: Restrictions,
}

/// The keyword `additionalProperties` of a schema, which is about fields that `properties` does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Additional {
    /// The keyword is absent or `false`: undeclared fields are removed (pruned).
    #[default]
    None,
    /// The keyword is `true`: undeclared fields may have any value.
    Any,
    /// The keyword is a schema for the values of undeclared fields.
    Schema(SchemaNode),
}

impl Structural {
    /// Compiles an `openAPIV3Schema`, and ignores unknown keywords. For a schema that stays in memory,
    /// [`SchemaNode::kept`] shares equal parts and so takes less memory.
    pub fn compile(schema: &Value) -> Self {
        Self::build(schema, &mut SchemaNode::alone)
    }

    /// Compiles a schema; `share` makes a node of each compiled child schema, either a new node or a shared one.
    fn build(schema: &Value, share: &mut dyn FnMut(Self) -> SchemaNode) -> Self {
        let flag = |name: &str| schema[name].as_bool().unwrap_or_default();
        let text = |name: &str| schema[name].as_str().unwrap_or_default().into();
        let mut node = |sub: &Value| {
            let content = Self::build(sub, share);
            share(content)
        };
        let listed = schema["properties"].as_object().into_iter().flatten();
        Self {
            kind: text("type"),
            format: text("format"),
            properties: listed
                .map(|(name, sub)| (name.as_str().into(), node(sub)))
                .collect(),
            additional: match &schema["additionalProperties"] {
                Value::Bool(true) => Additional::Any,
                sub @ Value::Object(_) => Additional::Schema(node(sub)),
                _ => Additional::None,
            },
            items: schema.get("items").map(&mut node),
            default: schema.get("default").filter(|one| !one.is_null()).cloned(),
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            embedded: flag("x-kubernetes-embedded-resource"),
            rules: Keywords::compile(schema, &mut node).into(),
        }
    }

    /// Removes undeclared fields from a value at `path`, and adds their paths to `unknown` in alphabetical order.
    ///
    /// With `root`, `apiVersion`, `kind` and `metadata` are always kept.
    pub fn prune(&self, value: &mut Value, path: &str, root: bool, unknown: &mut Vec<String>) {
        let before = unknown.len();
        let mut paths = Some(unknown);
        let keep = self.preserve_unknown;
        prune(Some(self), keep, value, (path, root), &mut paths);
        if let Some(unknown) = paths {
            unknown[before..].sort_unstable();
        }
    }

    /// Removes from a whole object the undeclared fields, and the nulls that the schema neither allows nor replaces by
    /// a default. kube-apiserver does this whenever it decodes or converts an object, from a request or from storage.
    pub fn coerce(&self, object: &mut Value) {
        let keep = self.preserve_unknown;
        prune(Some(self), keep, object, ("", true), &mut None);
        self.drop_nulls(object);
    }

    /// Removes undeclared fields from the `metadata` of embedded resources, and adds their paths to `unknown`.
    ///
    /// # Errors
    /// Fails if the `apiVersion` or `kind` of an embedded resource is not a string.
    pub fn prune_embedded(
        &self,
        value: &mut Value,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let at = child(path, name);
                    let typed = self.embedded && matches!(name.as_str(), "apiVersion" | "kind");
                    if typed && !member.is_string() {
                        let found = member.to_string();
                        return Err(FieldError::invalid(at, &found, "must be a string"));
                    }
                    if self.embedded && name == "metadata" {
                        if let Some(metadata) = member.as_object_mut() {
                            metadata.retain(|name, _| {
                                let known = METADATA.contains(&name.as_str());
                                if !known {
                                    unknown.push(child(&at, name));
                                }
                                known
                            });
                        }
                    } else if let Some(schema) = self.properties.get(name) {
                        schema.prune_embedded(member, &at, unknown)?;
                    } else if let Additional::Schema(schema) = &self.additional {
                        schema.prune_embedded(member, &format!("{path}[{name}]"), unknown)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else {
                    return Ok(());
                };
                for (index, item) in items.iter_mut().enumerate() {
                    schema.prune_embedded(item, &format!("{path}[{index}]"), unknown)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes the nulls that the schema does not allow, unless a default replaces them
    /// ([`apply_defaults`](Self::apply_defaults)). Nulls in lists stay.
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(members) => members.retain(|name, member| {
                let Some(schema) = self.member(name) else {
                    return true;
                };
                if member.is_null() && !schema.nullable && schema.default.is_none() {
                    return false;
                }
                schema.drop_nulls(member);
                true
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.drop_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }

    /// Applies defaults to a value and to every value in it. A null that the schema does not allow counts as absent.
    pub fn apply_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, schema) in self.properties.iter() {
                    let Some(default) = &schema.default else {
                        continue;
                    };
                    match members.get_mut(name) {
                        None => {
                            members.insert(name.to_owned(), default.clone());
                        }
                        Some(member) => schema.replace_null(member),
                    }
                }
                for (name, member) in members.iter_mut() {
                    let Some(schema) = self.member(name) else {
                        continue;
                    };
                    schema.replace_null(member);
                    schema.apply_defaults(member);
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.replace_null(item);
                        schema.apply_defaults(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let named = self.properties.get(name);
        named.or_else(|| self.additional.schema())
    }

    fn replace_null(&self, value: &mut Value) {
        if value.is_null()
            && !self.nullable
            && let Some(default) = &self.default
        {
            value.clone_from(default);
        }
    }
}

impl Additional {
    /// Returns the schema of undeclared fields; `None` if the keyword is absent, `true` or `false`.
    pub fn schema(&self) -> Option<&Structural> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::None | Self::Any => None,
        }
    }
}

/// Removes undeclared fields from a value. Without a schema, as under `additionalProperties: true`, all fields are
/// undeclared. `keep` keeps the undeclared fields of this value, or of its items if it is a list. The paths of removed
/// fields are added to `unknown`, if given.
fn prune(
    schema: Option<&Structural>,
    keep: bool,
    value: &mut Value,
    (path, root): (&str, bool),
    unknown: &mut Option<&mut Vec<String>>,
) {
    if keep && schema.is_none() {
        return;
    }
    let below = |schema: Option<&Structural>, member: &mut Value, at: &str, unknown: &mut _| {
        let keep = schema.is_some_and(|schema| schema.preserve_unknown);
        prune(schema, keep, member, (at, false), unknown);
    };
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let own_type = root || schema.is_some_and(|schema| schema.embedded);
            if own_type && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            // Most callers do not want the paths of removed fields; then no path is built.
            let at = match unknown {
                Some(_) => child(path, name),
                None => String::new(),
            };
            let named = schema.and_then(|schema| schema.properties.get(name));
            let others = schema.map(|schema| &schema.additional);
            match (named, others) {
                (Some(named), _) => below(Some(named), member, &at, unknown),
                (None, Some(Additional::Schema(schema))) => {
                    below(Some(schema), member, &at, unknown);
                }
                (None, Some(Additional::Any)) => below(None, member, &at, unknown),
                (None, Some(Additional::None) | None) if keep => {}
                (None, Some(Additional::None) | None) => {
                    if let Some(unknown) = unknown {
                        unknown.push(at);
                    }
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            let keep = keep || schema.is_some_and(|schema| schema.preserve_unknown);
            for (index, item) in items.iter_mut().enumerate() {
                let at = match unknown {
                    Some(_) => format!("{path}[{index}]"),
                    None => String::new(),
                };
                prune(schema, keep, item, (&at, false), unknown);
            }
        }
        _ => {}
    }
}

/// Returns the path of a field: `path.name`, or only the name if `path` is empty.
pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pruning_removes_unknown_members_at_every_level_and_reports_them() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "l": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}},
                "m": {"type": "object", "additionalProperties":
                    {"type": "object", "properties": {"y": {}}}},
            }},
        }}));
        let mut value = json!({"kind": "K", "metadata": {"any": 1}, "extra": 1, "spec": {
            "a": "x", "b": 1, "free": {"kept": 1}, "l": [{"x": 1, "z": 2}],
            "m": {"k": {"y": 1, "z": 2}},
        }});
        let mut unknown = Vec::new();
        schema.prune(&mut value, "", true, &mut unknown);
        assert_eq!(unknown, ["extra", "spec.b", "spec.l[0].z", "spec.m.k.z"]);
        assert_eq!(
            value,
            json!({"kind": "K", "metadata": {"any": 1}, "spec": {
                "a": "x", "free": {"kept": 1}, "l": [{"x": 1}], "m": {"k": {"y": 1}},
            }})
        );
    }

    #[test]
    fn embedded_metadata_has_the_fields_of_metadata() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object",
                "x-kubernetes-embedded-resource": true, "properties": {"spec": {}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object",
                "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}},
        }}));
        let thing = || json!({"kind": "K", "metadata": {"name": "n", "odd": 1}});
        let mut value = json!({"metadata": {"odd": 1}, "l": [thing()], "m": {"k": thing()}});
        let mut unknown = Vec::new();
        schema.prune_embedded(&mut value, "", &mut unknown).unwrap();
        assert_eq!(unknown, ["l[0].metadata.odd", "m[k].metadata.odd"]);
        assert_eq!(
            value["l"][0],
            json!({"kind": "K", "metadata": {"name": "n"}})
        );
        assert_eq!(value["metadata"], json!({"odd": 1}));
    }

    #[test]
    fn preserved_unknown_fields_include_list_items_but_not_declared_fields() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "l": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
                "items": {"type": "object", "properties": {"x": {"type": "object"}}}},
            "any": {"type": "object", "additionalProperties": true},
            "b": {"type": "object"}, "b-c": {"type": "object"},
        }}));
        let mut value = json!({"l": [{"x": {"gone": 1}, "kept": {"deep": 1}}],
            "any": {"kept": "x", "emptied": {"gone": 1}}, "b": {"z": 1}, "b-c": {"z": 1}});
        let mut unknown = Vec::new();
        schema.prune(&mut value, "", true, &mut unknown);
        assert_eq!(
            value,
            json!({"l": [{"x": {}, "kept": {"deep": 1}}], "any": {"kept": "x", "emptied": {}},
                "b": {}, "b-c": {}})
        );
        assert_eq!(unknown, ["any.emptied.gone", "b-c.z", "b.z", "l[0].x.gone"]);
    }

    #[test]
    fn nulls_in_maps_and_lists_get_defaults_or_are_removed() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "plain": {"type": "object", "additionalProperties": {"type": "string"}},
            "filled": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
            "free": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "l": {"type": "array", "items": {"type": "string", "default": "d"}},
            "none": {"type": "string", "nullable": true, "default": null},
        }}));
        let mut value = json!({"plain": {"a": null}, "filled": {"a": null}, "free": {"a": null},
            "l": [null, "x"]});
        schema.drop_nulls(&mut value);
        schema.apply_defaults(&mut value);
        assert_eq!(
            value,
            json!({"plain": {}, "filled": {"a": "d"}, "free": {"a": null}, "l": ["d", "x"]})
        );
    }

    #[test]
    fn defaults_fill_present_objects_only() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer", "default": 2},
                "plain": {"type": "string"},
                "kept": {"type": "string", "nullable": true, "default": "d"},
                "deep": {"type": "object", "default": {}, "properties": {
                    "on": {"type": "boolean", "default": true}}},
                "absent": {"type": "object", "properties": {"x": {"default": 1}}},
                "l": {"type": "array", "items": {"type": "object", "properties": {
                    "p": {"type": "string", "default": "TCP"}}}},
            }},
        }}));
        let mut value = json!({"spec": {"kept": null, "replicas": null, "plain": null, "l": [{}, {"p": "UDP"}]}});
        schema.drop_nulls(&mut value);
        schema.apply_defaults(&mut value);
        assert_eq!(
            value,
            json!({"spec": {
                "replicas": 2, "kept": null, "deep": {"on": true},
                "l": [{"p": "TCP"}, {"p": "UDP"}],
            }})
        );
        let mut empty = json!({});
        schema.apply_defaults(&mut empty);
        assert_eq!(empty, json!({}));
    }
}
