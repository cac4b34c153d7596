//! Machine: writes the descriptions of Kubernetes' own types: the comments of Go's types, worded as kube-openapi does.
//!
//! Types of modules that are not read, and types without a comment, have the descriptions of `k8s-openapi`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::go_types::{GoField, GoTypes};
use super::source::Struct;
use super::table;

const HEADER: &str = "\
# Descriptions of Kubernetes' API types, version 1.36. Copyright The Kubernetes Authors, licensed under the Apache
# License, Version 2.0. `cargo xtask schemas --go DIR` generates this file from the comments of Kubernetes' Go types.
# The format is described in crates/server/steersman-schema/src/types/descriptions.rs.
";

/// Described types that are in no kind, without their prefix `io.k8s.apimachinery.pkg.`.
const OTHERS: &[&str] = &[
    "api.resource.Quantity",
    "apis.meta.v1.APIGroup",
    "apis.meta.v1.APIGroupList",
    "apis.meta.v1.APIResource",
    "apis.meta.v1.APIResourceList",
    "apis.meta.v1.APIVersions",
    "apis.meta.v1.GroupVersionForDiscovery",
    "apis.meta.v1.PartialObjectMetadata",
    "apis.meta.v1.PartialObjectMetadataList",
    "apis.meta.v1.Patch",
    "apis.meta.v1.ServerAddressByClientCIDR",
    "apis.meta.v1.Time",
    "apis.meta.v1.TypeMeta",
    "apis.meta.v1.WatchEvent",
    "util.intstr.IntOrString",
    "version.Info",
];

/// Descriptions that differ between Go's comments and `k8s-openapi`: the first is written by hand in `k8s-openapi`, and
/// the second has characters that both escape differently.
const DIFFERENT: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent", ""),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec",
        "validationActions",
    ),
];

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Description {
    text: String,
    /// The values of an enum, sorted.
    values: Vec<String>,
}

/// Descriptions by the name of the definition and the name of the field, which is empty for the type itself.
type Descriptions = BTreeMap<(String, String), Description>;

/// Returns the packed descriptions of all types of the table.
pub(super) fn write(
    table: &str,
    structs: &BTreeMap<String, Struct>,
    go: &GoTypes,
) -> Result<Vec<u8>, String> {
    let mut text = HEADER.to_owned();
    let mut owner = String::new();
    for ((definition, field), found) in describe(table, structs, go) {
        if definition != owner {
            owner.clone_from(&definition);
            text.push_str(&definition);
            // A type without a comment has an empty description.
            if !field.is_empty() {
                text.push_str("\t\n");
            }
        }
        if !field.is_empty() {
            text.push_str(&format!("\t{field}\t{}", found.values.join("|")));
        }
        text.push_str(&format!("\t{}\n", escaped(&found.text)));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder
        .write_all(text.as_bytes())
        .and_then(|()| encoder.finish());
    packed.map_err(|error| format!("the descriptions could not be packed: {error}"))
}

/// Compares packed descriptions with those of `k8s-openapi`, apart from white space, fences and the values of enums,
/// which `k8s-openapi` changes.
pub(super) fn check(
    packed: &[u8],
    table: &str,
    structs: &BTreeMap<String, Struct>,
) -> Result<(), String> {
    let mut text = String::new();
    let read = GzDecoder::new(packed).read_to_string(&mut text);
    read.map_err(|error| format!("the descriptions could not be unpacked: {error}"))?;
    let mut packed = BTreeMap::new();
    let mut owner = "";
    for line in text.lines().skip_while(|line| line.starts_with('#')) {
        let (name, rest) = line.split_once('\t').unwrap_or((line, ""));
        if name.is_empty() {
            let (field, rest) = rest.split_once('\t').unwrap_or_default();
            let (_, text) = rest.split_once('\t').unwrap_or_default();
            packed.insert((owner, field), text);
        } else {
            owner = name;
            packed.insert((owner, ""), rest);
        }
    }
    for ((definition, field), wanted) in describe(table, structs, &GoTypes::default()) {
        let at = (definition.as_str(), field.as_str());
        let found = packed.get(&at).copied().unwrap_or_default();
        if words(found) != words(&escaped(&wanted.text)) && !DIFFERENT.contains(&at) {
            let [definition, field] = [at.0, at.1];
            return Err(format!(
                "the description of {definition} {field} is out of date: run `cargo xtask schemas --go DIR`"
            ));
        }
    }
    Ok(())
}

/// Returns the words of an escaped description, without the values of an enum.
fn words(text: &str) -> Vec<&str> {
    let (text, _) = text
        .split_once("Possible enum values:")
        .unwrap_or((text, ""));
    let words = text.split([' ', '`']).flat_map(|word| word.split("\\n"));
    words
        .flat_map(|word| word.split("\\t"))
        .filter(|word| !word.is_empty())
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// Returns the descriptions of all types of the table, and of lists of kinds.
fn describe(table: &str, structs: &BTreeMap<String, Struct>, go: &GoTypes) -> Descriptions {
    let mut named: BTreeSet<String> = OTHERS
        .iter()
        .map(|name| format!("io.k8s.apimachinery.pkg.{name}"))
        .collect();
    let types: BTreeMap<&str, Option<&str>> = table::types(table).collect();
    for found in structs.values() {
        if let Some(api_version) = types.get(table::short(&found.definition).as_str()) {
            named.insert(found.definition.clone());
            if api_version.is_some() {
                named.insert(format!("{}List", found.definition));
            }
        }
    }
    let mut found = Descriptions::new();
    for found_in in structs
        .values()
        .filter(|one| named.contains(&one.definition))
    {
        add_generated(found_in, &mut found);
    }
    for definition in &named {
        add_comments(definition, go, &mut found);
    }
    found.retain(|_, description| description != &Description::default());
    found
}

fn add_generated(found: &Struct, descriptions: &mut Descriptions) {
    let mut add = |field: &str, text: &str| {
        let description = Description {
            text: text.trim().to_owned(),
            values: Vec::new(),
        };
        descriptions.insert((found.definition.clone(), field.to_owned()), description);
    };
    add("", &found.description);
    for field in &found.fields {
        if let Some(json) = found.names.get(&field.name) {
            add(json, &field.description);
        }
    }
}

fn add_comments(definition: &str, go: &GoTypes, descriptions: &mut Descriptions) {
    let short = table::short(definition);
    // Such as `resource.Quantity` of the package `api.resource`.
    let inner = short.split_once('.').map_or("", |(_, rest)| rest);
    let mut names = [short.as_str(), inner].into_iter();
    let Some(name) = names.find(|name| go.comments.contains_key(*name)) else {
        return;
    };
    let mut add = |field: &str, description: Description| {
        if !description.text.is_empty() || !description.values.is_empty() {
            descriptions.insert((definition.to_owned(), field.to_owned()), description);
        }
    };
    let (text, values) = (worded(go.comments[name].iter()), Vec::new());
    add("", Description { text, values });
    for field in fields(name, go) {
        add(&field.json, of_field(field, go));
    }
}

/// Returns the fields of a struct and of the structs that it embeds.
fn fields<'a>(name: &str, go: &'a GoTypes) -> Vec<&'a GoField> {
    let mut found = Vec::new();
    if go.kinds.contains(name) {
        found.extend(go.structs.get("meta.v1.TypeMeta").into_iter().flatten());
    }
    for field in go.structs.get(name).into_iter().flatten() {
        if field.json.is_empty() {
            found.extend(fields(field.ty.trim_start_matches('*'), go));
        } else {
            found.push(field);
        }
    }
    found
}

/// Returns the description of a field: its comment, and the values of its type if that is an enum.
fn of_field(field: &GoField, go: &GoTypes) -> Description {
    let ty = field.ty.trim_start_matches('*');
    let element = ty.strip_prefix("[]").or_else(|| {
        let map = ty.strip_prefix("map[")?;
        map.split_once(']').map(|(_, value)| value)
    });
    let ty = element.unwrap_or(ty).trim_start_matches('*');
    let comment = go.comments.get(ty);
    let is_enum = comment.is_some_and(|lines| lines.iter().any(|line| line == "+enum"));
    let constants = go.constants.get(ty).filter(|_| is_enum);
    let mut values = BTreeMap::new();
    for constant in constants.into_iter().flatten() {
        values.entry(constant.value.clone()).or_insert_with(|| {
            let comment = constant.comment.join(" ");
            let comment = comment.trim();
            let comment = comment.strip_prefix(&*constant.name).unwrap_or(comment);
            let comment: Vec<&str> = comment.split_whitespace().collect();
            format!(" - `\"{}\"` {}", constant.value, comment.join(" "))
        });
    }
    let mut lines = field.comment.clone();
    // The values of a list belong to its elements, and the description of the list does not explain them.
    if !values.is_empty() && element.is_none() {
        lines.extend(["", "Possible enum values:"].map(str::to_owned));
        let mut about: Vec<String> = values.values().cloned().collect();
        about.sort();
        lines.extend(about);
    }
    Description {
        text: worded(lines.iter()),
        values: values.into_keys().collect(),
    }
}

/// Returns a comment as a description: the lines of a paragraph in one line, and without instructions.
///
/// Source: `generateDescription` of kube-openapi.
fn worded<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    let mut text = String::new();
    for line in lines.take_while(|line| *line != "---") {
        let line = line.trim_end_matches(' ');
        let bare = line.trim_start_matches(' ');
        if line.is_empty() {
            text.pop();
            text.push_str("\n\n");
        } else if bare.starts_with("TODO") || bare.starts_with('+') {
        } else if line.starts_with([' ', '\t']) {
            text.pop();
            text.push_str(&format!("\n{line}\n"));
        } else {
            text.push_str(line);
            text.push(' ');
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_becomes_paragraphs_without_instructions() {
        let lines = [
            "Name of it,", "as text.", "", "Example:", "\ta", "TODO: no", "+optional", "End.",
            "---", "x",
        ];
        let lines = lines.map(str::to_owned);
        assert_eq!(
            worded(lines.iter()),
            "Name of it, as text.\n\nExample:\n\ta\nEnd."
        );
    }

    #[test]
    fn descriptions_are_compared_without_white_space_and_values() {
        let found = words("a\\n\\n\\tb ``` c\\n\\nPossible enum values:\\n - x");
        assert_eq!(found, ["a", "b", "c"]);
    }
}
