//! Machine: generates the Rust types of a kind from the schema in its definition.
//!
//! The types can read every object that an API server with this definition stores, and most objects of a later
//! definition: enums are strings, numbers have the widest JSON range, and a field without a schema is a [`Value`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use steersman_object::json_items;

use super::definition::ExternalKind;
use super::docs::doc_lines;
use super::rust_names::{field_name, type_name, unlike};

#[derive(Debug, Default)]
struct RustTypes {
    /// The source texts of the structs, in the order in which the structs first appear.
    structs: Vec<String>,
    names: BTreeSet<String>,
    imports: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

const META: &str = "k8s_openapi::apimachinery::pkg::apis::meta::v1";
/// The modules and types that a generated file may import. No generated struct has one of these names.
const IMPORTED: [(&str, &str); 11] = [
    ("std::collections", "BTreeMap"),
    (META, "Condition"),
    ("std::borrow", "Cow"),
    ("serde", "Deserialize"),
    (
        "k8s_openapi::apimachinery::pkg::util::intstr",
        "IntOrString",
    ),
    (META, "ObjectMeta"),
    ("steersman::kube_core", "Resource"),
    ("serde", "Serialize"),
    (META, "Time"),
    ("steersman::serde_json", "Value"),
    ("steersman::object", "WholeObject"),
];
/// The trait implementations that name a kind.
const RESOURCE: &str = include_str!("../../../templates/external/resource.rs.tmpl");
/// The fields of a Kubernetes condition. `observedGeneration` is missing, because it is optional.
const OF_A_CONDITION: [&str; 5] = ["lastTransitionTime", "message", "reason", "status", "type"];
/// The top-level fields of an object that Kubernetes defines.
const OF_AN_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Returns the source of a module with the Rust types of a kind. `origin` is the path of the definition's file.
pub(crate) fn source(kind: &ExternalKind, origin: &str) -> String {
    let root = kind.type_name();
    let mut types = RustTypes::default();
    types.names.insert(root.clone());
    types
        .names
        .extend(IMPORTED.map(|(_, name)| name.to_owned()));
    for name in [
        "Cow", "Deserialize", "ObjectMeta", "Resource", "Serialize", "WholeObject",
    ] {
        types.import(name);
    }
    types.object(&kind.schema, &root);
    let mut text = format!(
        "{}, made of {origin}.\n\n#![allow(missing_docs, reason = \"the definition leaves some out\")]\n\n",
        kind.header()
    );
    let of_library = |module: &str| module.starts_with("std");
    for is_of_library in [true, false] {
        let modules = types.imports.iter();
        for (module, names) in modules.filter(|(module, _)| of_library(module) == is_of_library) {
            let names: Vec<&str> = names.iter().copied().collect();
            let names = names.join(", ");
            let _ = writeln!(text, "use {module}::{{{names}}};");
        }
        text.push('\n');
    }
    text += &types.structs.concat();
    text += &resource(kind, &root);
    text
}

impl RustTypes {
    fn object(&mut self, schema: &Value, root: &str) {
        let at = self.begin();
        let mut fields = "    #[serde(default)]\n    pub metadata: ObjectMeta,\n".to_owned();
        fields += &self.fields(schema, root, &OF_AN_OBJECT);
        self.end(at, root, schema, &fields);
    }

    /// Reserves the position of a struct, so that the struct precedes the structs of its fields.
    fn begin(&mut self) -> usize {
        self.structs.push(String::new());
        self.structs.len() - 1
    }

    fn end(&mut self, at: usize, name: &str, schema: &Value, fields: &str) {
        let docs = doc_lines(schema, "");
        self.structs[at] = format!(
            "{docs}#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]\n\
             #[serde(rename_all = \"camelCase\")]\npub struct {name} {{\n{fields}}}\n\n"
        );
    }

    /// Returns the struct fields for the properties of a schema, except for the properties in `without`.
    fn fields(&mut self, schema: &Value, name: &str, without: &[&str]) -> String {
        let required = names_in(&schema["required"]);
        let mut taken = BTreeSet::from(["metadata".to_owned()]);
        let mut text = String::new();
        for (property, inner) in schema["properties"].as_object().into_iter().flatten() {
            if without.contains(&property.as_str()) {
                continue;
            }
            let (field, rename) = field_name(property, &taken);
            taken.insert(field.clone());
            let of_field = self.type_of(inner, &format!("{name}{}", type_name(property)));
            // `Time` has no default, but every generated struct derives `Default`, so the field is an `Option`.
            let is_optional = !required.contains(&property.as_str()) || of_field == "Time";
            let is_nullable = inner["nullable"] == true;
            let mut options = Vec::new();
            options.extend(rename.then(|| format!("rename = {property:?}")));
            let skips = is_optional.then(|| "skip_serializing_if = \"Option::is_none\"".to_owned());
            options.extend(skips);
            text += &doc_lines(inner, "    ");
            if !options.is_empty() {
                let _ = writeln!(text, "    #[serde({})]", options.join(", "));
            }
            let of_field = match is_optional || is_nullable {
                true => format!("Option<{of_field}>"),
                false => of_field,
            };
            let _ = writeln!(text, "    pub {field}: {of_field},");
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            self.import("BTreeMap");
            self.import("Value");
            let rest = unlike("other_fields", &taken);
            text += "    /// What the definition does not name.\n    #[serde(flatten)]\n";
            let _ = writeln!(text, "    pub {rest}: BTreeMap<String, Value>,");
        }
        text
    }

    /// Returns the Rust type for a schema. A struct that the type needs is added as `name`, or as a similar free name.
    fn type_of(&mut self, schema: &Value, name: &str) -> String {
        if schema["x-kubernetes-int-or-string"] == true {
            return self.import("IntOrString");
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            return self.import("Value");
        }
        match schema["type"].as_str() {
            Some("boolean") => "bool".to_owned(),
            Some("integer") => "i64".to_owned(),
            Some("number") => "f64".to_owned(),
            Some("string") if schema["format"] == "date-time" => self.import("Time"),
            Some("string") => "String".to_owned(),
            Some("array") => {
                let item = self.element(&schema["items"], name);
                format!("Vec<{item}>")
            }
            Some("object") => self.type_of_object(schema, name),
            _ => self.import("Value"),
        }
    }

    fn type_of_object(&mut self, schema: &Value, name: &str) -> String {
        if is_condition(schema) {
            return self.import("Condition");
        }
        let properties = schema["properties"].as_object();
        if properties.is_some_and(|all| !all.is_empty()) {
            let name = unlike(name, &self.names);
            self.names.insert(name.clone());
            let at = self.begin();
            let fields = self.fields(schema, &name, &[]);
            self.end(at, &name, schema, &fields);
            return name;
        }
        self.import("BTreeMap");
        let value = self.element(&schema["additionalProperties"], name);
        format!("BTreeMap<String, {value}>")
    }

    /// Returns the Rust type of the elements of a list or map.
    fn element(&mut self, schema: &Value, name: &str) -> String {
        let element = self.type_of(schema, name);
        match schema["nullable"] == true {
            true => format!("Option<{element}>"),
            false => element,
        }
    }

    fn import(&mut self, name: &str) -> String {
        for (module, name) in IMPORTED.into_iter().filter(|(_, known)| *known == name) {
            self.imports.entry(module).or_default().insert(name);
        }
        name.to_owned()
    }
}

/// Returns the source of the trait implementations that name the kind.
fn resource(kind: &ExternalKind, root: &str) -> String {
    let scope = if kind.is_namespaced {
        "NamespaceResourceScope"
    } else {
        "ClusterResourceScope"
    };
    // The names are from a file: as literals, they stay names whatever they contain.
    let literal = |name: &str| format!("{name:?}");
    RESOURCE
        .replace("{{type}}", root)
        .replace("{{scope}}", scope)
        .replace("{{kind}}", &literal(&kind.kind))
        .replace("{{group}}", &literal(&kind.group))
        .replace("{{version}}", &literal(&kind.version))
        .replace("{{plural}}", &literal(&kind.plural))
}

fn is_condition(schema: &Value) -> bool {
    let required = names_in(&schema["required"]);
    let Some(properties) = schema["properties"].as_object() else {
        return false;
    };
    let mut known = properties.keys().map(String::as_str);
    known.all(|name| OF_A_CONDITION.contains(&name) || name == "observedGeneration")
        && OF_A_CONDITION.iter().all(|name| required.contains(name))
        && properties["lastTransitionTime"]["format"] == "date-time"
}

fn names_in(list: &Value) -> Vec<&str> {
    json_items(list).filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_definition_become_literals() {
        let kind = ExternalKind {
            group: "a\\b".to_owned(),
            version: "v1".to_owned(),
            kind: r#"Ba"ckup"#.to_owned(),
            plural: "backups".to_owned(),
            is_namespaced: true,
            schema: Value::Null,
            definition: Value::Null,
        };
        let source = resource(&kind, "Backup");
        for line in [
            "impl Resource for Backup {",
            "type Scope = k8s_openapi::NamespaceResourceScope;",
            r#"Cow::Borrowed("Ba\"ckup")"#,
            r#"Cow::Borrowed("a\\b")"#,
            r#"Cow::Borrowed("v1")"#,
            r#"Cow::Borrowed("backups")"#,
        ] {
            assert!(source.contains(line), "{line} is missing:\n{source}");
        }
    }
}
