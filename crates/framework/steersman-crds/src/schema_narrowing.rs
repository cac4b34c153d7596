//! Machine: finds the values that one schema accepts and another schema refuses or drops.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_object::{json_items, json_text};

/// A field in which a new schema accepts less than the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Narrowing {
    /// The version and the field, such as `v1.spec.replicas`; `[]` is a list item, and `*` a map value.
    pub(crate) path: String,
    /// The difference between the schemas in this field.
    pub(crate) problem: String,
    /// Whether the narrowing is the removal of a version in which objects may be stored.
    pub(crate) is_stored_version: bool,
}

impl Narrowing {
    pub(crate) fn new(path: &str, problem: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            problem: problem.into(),
            is_stored_version: false,
        }
    }
}

/// The JSON types that a schema accepts.
type Types<'a> = Vec<&'a str>;

/// The top-level fields of an object that the API server defines itself.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The keywords that bound a value, and whether it is an upper bound: a smaller one accepts less.
const BOUNDS: [(&str, bool); 8] = [
    ("maximum", true),
    ("minimum", false),
    ("maxLength", true),
    ("minLength", false),
    ("maxItems", true),
    ("minItems", false),
    ("maxProperties", true),
    ("minProperties", false),
];
/// The formats that API servers check (`SupportedVersionedFormats` of apiextensions, and numeric formats). Other
/// formats only inform readers.
const CHECKED_FORMATS: [&str; 29] = [
    "bsonobjectid", "byte", "cidr", "creditcard", "date", "date-time", "datetime", "duration",
    "email", "hexcolor", "hostname", "int32", "int64", "ipv4", "ipv6", "isbn", "isbn10", "isbn13",
    "mac", "password", "rgbcolor", "ssn", "uri", "uuid", "uuid3", "uuid4", "uuid5",
    "k8s-short-name", "k8s-long-name",
];

/// Adds the fields below `path` in which `new` accepts less than `old`, in the order of the schema.
pub(crate) fn compare(old: &Value, new: &Value, path: &str, found: &mut Vec<Narrowing>) {
    SchemaComparison { found }.schemas(old, new, path, true);
}

struct SchemaComparison<'a> {
    found: &'a mut Vec<Narrowing>,
}

impl SchemaComparison<'_> {
    fn add(&mut self, path: &str, problem: impl Into<String>) {
        self.found.push(Narrowing::new(path, problem));
    }

    fn schemas(&mut self, old: &Value, new: &Value, path: &str, is_root: bool) {
        if !self.types(old, new, path) {
            return;
        }
        if is_set(old, "nullable") && !is_set(new, "nullable") && types(new).is_some() {
            self.add(path, "null is no longer accepted");
        }
        self.bounds(old, new, path);
        self.texts(old, new, path);
        self.choices(old, new, path);
        self.required(old, new, path);
        let has_head = is_root || is_set(old, "x-kubernetes-embedded-resource");
        self.properties(old, new, path, has_head);
        self.additional(old, new, path);
        self.items(old, new, path);
        self.rules(old, new, path);
        self.combinations(old, new, path);
    }

    /// Compares the types of two schemas. Returns whether their other keywords can be compared.
    fn types(&mut self, old: &Value, new: &Value, path: &str) -> bool {
        let (before, now) = (types(old), types(new));
        let accepts = |kind: &&str| {
            let accepts = |now: &Types<'_>| {
                now.contains(kind) || *kind == "integer" && now.contains(&"number")
            };
            now.as_ref().is_none_or(accepts)
        };
        match before {
            Some(before) if before.iter().all(accepts) => true,
            None if now.is_none() => true,
            before => {
                let text = |types: Option<Types<'_>>| match types {
                    Some(types) => types.join(" or "),
                    None => "any value".to_owned(),
                };
                let problem = format!("the type changes from {} to {}", text(before), text(now));
                self.add(path, problem);
                false
            }
        }
    }

    fn bounds(&mut self, old: &Value, new: &Value, path: &str) {
        for (field, is_upper) in BOUNDS {
            let Some(now) = new[field].as_f64() else {
                continue;
            };
            let Some(before) = old[field].as_f64() else {
                // A minimum length or count of 0 accepts everything.
                if is_upper || field == "minimum" || now > 0.0 {
                    self.add(path, format!("{field} is {now} now"));
                }
                continue;
            };
            let is_tighter = if is_upper { now < before } else { now > before };
            let exclusive = match field {
                "maximum" => "exclusiveMaximum",
                "minimum" => "exclusiveMinimum",
                _ => "",
            };
            let is_exclusive = is_set(new, exclusive) && !is_set(old, exclusive);
            if is_tighter {
                self.add(path, format!("{field} changes from {before} to {now}"));
            } else if is_exclusive && same_number(before, now) {
                let problem = format!("the {field} {now} itself is no longer accepted");
                self.add(path, problem);
            }
        }
        if let Some(now) = new["multipleOf"].as_f64() {
            let before = old["multipleOf"].as_f64();
            if before.is_none_or(|before| !same_number(before % now, 0.0)) {
                self.add(path, format!("only multiples of {now} are accepted now"));
            }
        }
    }

    fn texts(&mut self, old: &Value, new: &Value, path: &str) {
        if let Some(now) = new["pattern"].as_str()
            && old["pattern"] != new["pattern"]
        {
            self.add(path, format!("the pattern is {now:?} now"));
        }
        let [before, now] = [old, new].map(|schema| json_text(&schema["format"]));
        let is_wider = before == "int32" && now == "int64";
        if CHECKED_FORMATS.contains(&now) && before != now && !is_wider {
            self.add(path, format!("the format is {now} now"));
        }
    }

    fn choices(&mut self, old: &Value, new: &Value, path: &str) {
        let Some(now) = new["enum"].as_array() else {
            return;
        };
        let Some(before) = old["enum"].as_array() else {
            self.add(path, "only listed values are accepted now");
            return;
        };
        let missing = before.iter().filter(|value| !now.contains(value));
        let missing: Vec<String> = missing.map(Value::to_string).collect();
        if !missing.is_empty() {
            self.add(
                path,
                format!("{} is no longer accepted", missing.join(", ")),
            );
        }
    }

    fn required(&mut self, old: &Value, new: &Value, path: &str) {
        let before = names(&old["required"]);
        let has_default =
            |schema: &Value, name: &str| schema["properties"][name].get("default").is_some();
        for name in names(&new["required"]) {
            // A required field with a default could be left out, so requiring it without the default is new.
            let was_needed = before.contains(&name) && !has_default(old, name);
            if !was_needed && !has_default(new, name) {
                let problem = "the field is required now, without a default";
                self.add(&below(path, name), problem);
            }
        }
    }

    fn properties(&mut self, old: &Value, new: &Value, path: &str, has_head: bool) {
        let (before, now) = (members(&old["properties"]), members(&new["properties"]));
        for (name, schema) in &before {
            let path = below(path, name);
            match (now.get(name), &new["additionalProperties"]) {
                (Some(new), _) => self.schemas(schema, new, &path, false),
                _ if has_head && HEAD.contains(&name.as_str()) => {}
                (None, Value::Object(_)) => {
                    self.schemas(schema, &new["additionalProperties"], &path, false);
                }
                _ if keeps_unknown(new) => {}
                _ => {
                    let problem = "the field is removed, so the API server would drop its value";
                    self.add(&path, problem);
                }
            }
        }
        for (name, schema) in now.iter().filter(|(name, _)| !before.contains_key(*name)) {
            if has_head && HEAD.contains(&name.as_str()) {
                continue;
            }
            let path = below(path, name);
            match &old["additionalProperties"] {
                Value::Object(_) => {
                    self.schemas(&old["additionalProperties"], schema, &path, false);
                }
                _ if keeps_unknown(old) => self.schemas(&Value::Null, schema, &path, false),
                _ => {}
            }
        }
    }

    fn additional(&mut self, old: &Value, new: &Value, path: &str) {
        let below = below(path, "*");
        match (&old["additionalProperties"], &new["additionalProperties"]) {
            (Value::Object(_), Value::Object(_)) => self.schemas(
                &old["additionalProperties"], &new["additionalProperties"], &below, false,
            ),
            (Value::Object(_), _) if !keeps_unknown(new) => {
                self.add(&below, "other fields are no longer accepted");
            }
            _ if keeps_unknown(old) && !keeps_unknown(new) => {
                self.add(&below, "unknown fields were kept and would be dropped now");
            }
            _ => {}
        }
    }

    fn items(&mut self, old: &Value, new: &Value, path: &str) {
        if new["items"].is_object() {
            self.schemas(&old["items"], &new["items"], &format!("{path}[]"), false);
        }
        let kind = "x-kubernetes-list-type";
        let [before, now] = [old, new].map(|schema| schema[kind].as_str().unwrap_or("atomic"));
        let keys = "x-kubernetes-list-map-keys";
        if now != "atomic" && (before != now || (now == "map" && old[keys] != new[keys])) {
            let problem = format!("the list is a {now} now, in which each key stands once");
            self.add(path, problem);
        }
    }

    fn rules(&mut self, old: &Value, new: &Value, path: &str) {
        let field = "x-kubernetes-validations";
        for rule in json_items(&new[field]).filter_map(|rule| rule["rule"].as_str()) {
            if !json_items(&old[field]).any(|known| known["rule"] == rule) {
                self.add(path, format!("the rule {rule:?} is new"));
            }
        }
    }

    fn combinations(&mut self, old: &Value, new: &Value, path: &str) {
        for field in ["allOf", "anyOf", "oneOf", "not"] {
            let (before, now) = (&old[field], &new[field]);
            if now.is_null() || before == now {
                continue;
            }
            let has_all_of = |list: &Value, all: &Value| {
                let (list, all) = (list.as_array(), all.as_array());
                list.zip(all)
                    .is_some_and(|(list, all)| all.iter().all(|one| list.contains(one)))
            };
            let is_wider = match field {
                "allOf" => has_all_of(before, now),
                // kubebuilder writes these two types out in `anyOf`, and kube does not.
                "anyOf" if is_set(new, "x-kubernetes-int-or-string") => true,
                "anyOf" => has_all_of(now, before),
                "oneOf" => has_all_of(now, before) && adds_new_fields(old, new),
                _ => false,
            };
            if !is_wider {
                self.add(path, format!("{field} changes"));
            }
        }
    }
}

/// Returns whether each new branch of `oneOf` requires a field that the old schema lacks, as variants of a Rust enum
/// do. No old object can match such a branch.
fn adds_new_fields(old: &Value, new: &Value) -> bool {
    let requires_new = |branch: &Value| {
        let mut required = names(&branch["required"]).into_iter();
        required.any(|name| old["properties"].get(name).is_none())
    };
    let is_known = |branch: &Value| json_items(&old["oneOf"]).any(|known| known == branch);
    old["oneOf"].is_array()
        && json_items(&new["oneOf"]).all(|branch| is_known(branch) || requires_new(branch))
}

/// Returns the JSON types that a schema accepts; `None` if it accepts all types.
fn types(schema: &Value) -> Option<Types<'_>> {
    if is_set(schema, "x-kubernetes-int-or-string") {
        return Some(vec!["integer", "string"]);
    }
    let kind = json_text(&schema["type"]);
    (!kind.is_empty()).then(|| vec![kind])
}

fn is_set(schema: &Value, field: &str) -> bool {
    schema[field] == true
}

fn keeps_unknown(schema: &Value) -> bool {
    is_set(schema, "x-kubernetes-preserve-unknown-fields")
        || is_set(schema, "additionalProperties")
        || schema.is_null()
}

fn same_number(one: f64, other: f64) -> bool {
    (one - other).abs() < f64::EPSILON
}

/// Returns the members of a JSON object by name, as references.
fn members(value: &Value) -> BTreeMap<&String, &Value> {
    value.as_object().into_iter().flatten().collect()
}

pub(crate) fn names(value: &Value) -> Vec<&str> {
    json_items(value).filter_map(Value::as_str).collect()
}

fn below(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

#[cfg(test)]
mod tests;
