//! Machine: checks the parts of versions: schema, subresources, columns and selectable fields.
//!
//! Parts that all versions share count as parts of the whole definition. Their errors name `spec`,
//! not each version.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;

use super::{openapi, print, versions};

/// The parts that all versions may share.
const PARTS: &[&str] = &[
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// Largest number of selectable fields.
const MOST_FIELDS: usize = 8;

/// Some parts of a version, with the path that errors name.
#[derive(Debug)]
pub(super) struct VersionParts<'a> {
    version: &'a Value,
    path: String,
    /// The name of the schema's field below the path.
    schema_field: &'static str,
    parts: Vec<&'static str>,
}

/// Returns whether the part is equal in all versions.
pub(super) fn is_shared(crd: &Value, part: &str) -> bool {
    let first = versions(crd).next();
    first.is_some_and(|first| versions(crd).all(|one| one.get(part) == first.get(part)))
}

/// Prints the versions for a message, without the parts that all versions share.
pub(super) fn print_versions(crd: &Value, schema_is_shared: bool) -> String {
    let print = |version: &Value| {
        let part = |name: &str| {
            let shared = if name == "schema" {
                schema_is_shared
            } else {
                is_shared(crd, name)
            };
            let value = version.get(name).filter(|_| !shared);
            match value.filter(|value| !value.is_null()) {
                None => "null".to_owned(),
                Some(value) if name == "schema" => {
                    let schema = print::schema(&value["openAPIV3Schema"]);
                    format!("{{\"OpenAPIV3Schema\":{schema}}}")
                }
                Some(value) => value.to_string(),
            }
        };
        let flag = |name: &str| version[name].as_bool().unwrap_or_default();
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            go::quote(version["name"].as_str().unwrap_or_default()),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            version["deprecationWarning"],
            part("schema"),
            part("subresources"),
            part("additionalPrinterColumns"),
            part("selectableFields"),
        )
    };
    if !crd["spec"]["versions"].is_array() {
        return "null".to_owned();
    }
    let printed: Vec<String> = versions(crd).map(print).collect();
    format!("[{}]", printed.join(","))
}

impl<'a> VersionParts<'a> {
    /// Returns the parts that all versions share.
    pub(super) fn shared(crd: &'a Value) -> Option<Self> {
        let shared = PARTS.iter().filter(|part| is_shared(crd, part));
        Some(Self {
            version: versions(crd).next()?,
            path: "spec".to_owned(),
            schema_field: "validation",
            parts: shared.copied().collect(),
        })
    }

    /// Returns the parts that only this version has.
    pub(super) fn of_version(crd: &Value, version: &'a Value, path: &str) -> Self {
        let own = PARTS.iter().filter(|part| !is_shared(crd, part));
        Self {
            version,
            path: path.to_owned(),
            schema_field: "schema",
            parts: own.copied().collect(),
        }
    }

    pub(super) fn check(&self, errors: &mut Vec<FieldError>) {
        for part in &self.parts {
            match *part {
                "schema" => self.schema(errors),
                "subresources" => self.scale(errors),
                "additionalPrinterColumns" => self.columns(errors),
                _ => self.selectable(errors),
            }
        }
    }

    fn list(&self, part: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
        let list = self.version[part].as_array().into_iter().flatten();
        list.enumerate()
    }

    fn schema(&self, errors: &mut Vec<FieldError>) {
        let schema = &self.version["schema"]["openAPIV3Schema"];
        if schema.is_object() {
            let path = format!("{}.{}.openAPIV3Schema", self.path, self.schema_field);
            // As upstream, the schema is checked together with the status subresource only if all
            // versions share both, or each version has its own schema and its own subresources.
            let status = self.parts.contains(&"subresources")
                && self.version["subresources"]["status"].is_object();
            openapi::check(schema, &path, status, errors);
        }
    }

    fn scale(&self, errors: &mut Vec<FieldError>) {
        let scale = &self.version["subresources"]["scale"];
        if !scale.is_object() {
            return;
        }
        let path = format!("{}.subresources.scale", self.path);
        for (name, root) in [
            ("specReplicasPath", ".spec"),
            ("statusReplicasPath", ".status"),
        ] {
            let field = format!("{path}.{name}");
            let found = scale[name].as_str().unwrap_or_default();
            if found.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else if check_path(&field, found, errors) && !is_below(found, &[root]) {
                let detail = format!("should be a json path under {root}");
                errors.push(FieldError::invalid(field, &go::quote(found), &detail));
            }
        }
        let found = scale["labelSelectorPath"].as_str().unwrap_or_default();
        let field = format!("{path}.labelSelectorPath");
        if !found.is_empty()
            && check_path(&field, found, errors)
            && !is_below(found, &[".spec", ".status"])
        {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(field, &go::quote(found), detail));
        }
    }

    fn columns(&self, errors: &mut Vec<FieldError>) {
        const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
        const FORMATS: &[&str] = &[
            "byte",
            "date",
            "date-time",
            "double",
            "float",
            "int32",
            "int64",
            "password",
        ];
        for (index, column) in self.list("additionalPrinterColumns") {
            let path = format!("{}.additionalPrinterColumns[{index}]", self.path);
            let text = |name: &str| column[name].as_str().unwrap_or_default();
            if text("name").is_empty() {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            }
            let detail = format!("must be one of {}", TYPES.join(","));
            let field = format!("{path}.type");
            if text("type").is_empty() {
                errors.push(FieldError::required(field, &detail));
            } else if !TYPES.contains(&text("type")) {
                errors.push(FieldError::invalid(
                    field,
                    &go::quote(text("type")),
                    &detail,
                ));
            }
            if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
                let detail = format!("must be one of {}", FORMATS.join(","));
                let field = format!("{path}.format");
                errors.push(FieldError::invalid(
                    field,
                    &go::quote(text("format")),
                    &detail,
                ));
            }
            let field = format!("{path}.JSONPath");
            if text("jsonPath").is_empty() {
                errors.push(FieldError::required(field, ""));
            } else {
                check_path(&field, text("jsonPath"), errors);
            }
        }
    }

    fn selectable(&self, errors: &mut Vec<FieldError>) {
        let path = format!("{}.selectableFields", self.path);
        let mut seen: Vec<&str> = Vec::new();
        for (index, field) in self.list("selectableFields") {
            let at = format!("{path}[{index}].jsonPath");
            let found = field["jsonPath"].as_str().unwrap_or_default();
            if found.is_empty() {
                errors.push(FieldError::required(at, ""));
                continue;
            }
            let refusal = match self.pointed_at(found) {
                None if found.contains('[') => "is an invalid path: array notation is not allowed",
                None => "is an invalid path: does not refer to a valid field",
                Some(_) if found.starts_with(".metadata.") => {
                    "must not point to fields in metadata"
                }
                Some(kind) if !matches!(kind, "string" | "boolean" | "integer") => {
                    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
                }
                Some(_) if seen.contains(&found) => {
                    errors.push(FieldError::duplicate(at, &go::quote(found)));
                    continue;
                }
                Some(_) => {
                    seen.push(found);
                    continue;
                }
            };
            errors.push(FieldError::invalid(at, &go::quote(found), refusal));
        }
        if seen.len() > MOST_FIELDS {
            errors.push(FieldError::too_many(&path, seen.len(), MOST_FIELDS as u64));
        }
    }

    /// Returns the type of the field at a path.
    fn pointed_at(&self, path: &str) -> Option<&'a str> {
        let mut at = &self.version["schema"]["openAPIV3Schema"];
        for key in path.strip_prefix('.')?.split('.') {
            at = at["properties"].get(key)?;
        }
        Some(at["type"].as_str().unwrap_or_default())
    }
}

fn is_below(path: &str, roots: &[&str]) -> bool {
    roots.iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Checks that a path is a simple JSON path. Returns whether the path is one.
fn check_path(field: &str, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(field, &go::quote(path), detail));
    }
    simple
}
