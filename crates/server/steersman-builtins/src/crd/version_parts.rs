//! Machine: checks the parts of versions: schema, subresources, columns and selectable fields.
//!
//! Parts that all versions share count as parts of the whole definition. Their errors name `spec`, not each version.

use serde_json::Value;
use steersman_apimachinery::status::FieldError;

use super::lists::need_text;
use super::print::VERSIONS;
use super::{openapi, versions};
use crate::fields::FieldPath;

/// The parts that all versions may share.
const PARTS: [&str; 4] = [
    "schema", "subresources", "additionalPrinterColumns", "selectableFields",
];

const MOST_FIELDS: usize = 8;

fn is_shared(crd: &Value, part: &str) -> bool {
    let first = versions(crd).next();
    first.is_some_and(|first| versions(crd).all(|one| one.get(part) == first.get(part)))
}

/// Refuses the versions. The message shows them without the parts that all versions share.
pub(super) fn refuse(all: &FieldPath<'_>, crd: &Value, detail: &str) {
    let mut own = all.value().clone();
    let shared: Vec<_> = PARTS.iter().filter(|part| is_shared(crd, part)).collect();
    for version in own.as_array_mut().into_iter().flatten() {
        for part in &shared {
            version[**part].take();
        }
    }
    all.with(&own).invalid_printed(&VERSIONS, detail);
}

/// Checks the parts that all versions share.
pub(super) fn check_shared(root: &FieldPath<'_>) {
    let crd = root.value();
    if let Some(first) = versions(crd).next() {
        check(crd, &root.at("spec").with(first), true);
    }
}

/// Checks those parts of a version that the versions do not share.
pub(super) fn check_own(crd: &Value, version: &FieldPath<'_>) {
    check(crd, version, false);
}

fn check(crd: &Value, version: &FieldPath<'_>, shared: bool) {
    let [schema, subresources, columns, selectable] =
        PARTS.map(|part| is_shared(crd, part) == shared);
    if schema {
        let field = if shared { "validation" } else { "schema" };
        let whole = version.named(field, version.value().get("schema"));
        // As upstream, the schema is checked together with the status subresource only if all
        // versions share both, or each version has its own schema and its own subresources.
        let status = subresources && version.down("subresources.status").is_set();
        whole
            .at("openAPIV3Schema")
            .if_set(|schema| openapi::check(schema, status));
    }
    if subresources {
        version.down("subresources.scale").if_set(check_scale);
    }
    if columns {
        version.at("additionalPrinterColumns").each(check_column);
    }
    if selectable {
        check_selectable(version);
    }
}

fn check_scale(scale: &FieldPath<'_>) {
    const PATHS: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], ".spec"),
        ("statusReplicasPath", &[".status."], ".status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "either .spec or .status",
        ),
    ];
    for (name, roots, place) in PATHS {
        let at = scale.at(name);
        if name != "labelSelectorPath" {
            at.need("");
        }
        let is_below = roots.iter().any(|root| at.text().starts_with(root));
        if !at.is_empty() && is_simple_path(&at) && !is_below {
            at.invalid_text(&format!("should be a json path under {place}"));
        }
    }
}

fn check_column(column: &FieldPath<'_>) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &[
        "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
    ];
    column.at("name").need("");
    let [kind, format] = column.parts(["type", "format"]);
    if !TYPES.contains(&kind.text()) {
        need_text(&kind, &format!("must be one of {}", TYPES.join(",")));
    }
    if !format.is_empty() && !FORMATS.contains(&format.text()) {
        format.invalid_text(&format!("must be one of {}", FORMATS.join(",")));
    }
    let path = column.named("JSONPath", column.value().get("jsonPath"));
    path.need("");
    path.if_filled(|path| {
        is_simple_path(path);
    });
}

fn check_selectable(version: &FieldPath<'_>) {
    let list = version.at("selectableFields");
    let schema = &version.value()["schema"]["openAPIV3Schema"];
    let mut seen: Vec<&str> = Vec::new();
    for field in list.items() {
        let at = field.at("jsonPath");
        let found = at.text();
        match pointed_at(schema, found) {
            _ if found.is_empty() => at.required(""),
            None if found.contains('[') => {
                at.invalid("is an invalid path: array notation is not allowed");
            }
            None => at.invalid("is an invalid path: does not refer to a valid field"),
            Some(_) if found.starts_with(".metadata.") => {
                at.invalid("must not point to fields in metadata");
            }
            Some(kind) if !matches!(kind, "string" | "boolean" | "integer") => {
                at.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
            }
            Some(_) if seen.contains(&found) => at.duplicate(),
            Some(_) => seen.push(found),
        }
    }
    if seen.len() > MOST_FIELDS {
        let error = FieldError::too_many(list.path(), seen.len(), MOST_FIELDS as u64);
        list.push(error);
    }
}

/// Returns the type of the field at a path.
fn pointed_at<'a>(schema: &'a Value, path: &str) -> Option<&'a str> {
    let mut at = schema;
    for key in path.strip_prefix('.')?.split('.') {
        at = at["properties"].get(key)?;
    }
    Some(at["type"].as_str().unwrap_or_default())
}

/// Checks that a path is a simple JSON path. Returns whether the path is one.
fn is_simple_path(path: &FieldPath<'_>) -> bool {
    let simple = path.text().starts_with('.');
    if !simple {
        path.invalid("must be a simple json path starting with .");
    }
    simple
}
