//! Writes the table of types: one line per type, sorted, in the form that the API server reads.

use std::collections::{BTreeMap, BTreeSet};

use super::facts;
use super::source::{Field, Merge, Struct};

const HEADER: &str = "\
# Kubernetes' own types for decoding and merging, one type per line. `cargo xtask schemas` generates this file
# from the sources of k8s-openapi (v1_36) and the facts in xtask/src/schemas/facts.rs. The format is described in
# crates/server/steersman-schema/src/types/table.rs. Do not edit: change the facts and generate the file again.
";

type Structs = BTreeMap<String, Struct>;

/// Returns the table of types. A type in an unexpected form, and a fact about a field that does not exist, are errors.
pub(super) fn write(structs: &Structs) -> Result<String, String> {
    let roots = structs.iter().filter(|(_, found)| is_root(found));
    let mut waiting: Vec<&str> = roots.map(|(path, _)| path.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut lines = BTreeMap::new();
    while let Some(path) = waiting.pop() {
        if !seen.insert(path) {
            continue;
        }
        let found = lookup(structs, path)?;
        let (line, named) = line(structs, found)?;
        lines.insert(short(&found.definition), line);
        waiting.extend(named);
    }
    check_facts(&lines)?;
    let mut text = HEADER.to_owned();
    for line in lines.into_values() {
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Returns whether a type is a kind in a version that clusters serve by default, such as `v1` or `v2`, or
/// in a version that an option of the server enables.
fn is_root(found: &Struct) -> bool {
    let named = found.api_version.as_deref().unwrap_or_default();
    let version = named.rsplit('/').next().unwrap_or_default();
    let stable = version.starts_with('v') && version[1..].parse::<u32>().is_ok();
    (stable || facts::ENABLED.contains(&named))
        && found.fields.iter().any(|field| field.name == "metadata")
}

fn check_facts(lines: &BTreeMap<String, String>) -> Result<(), String> {
    let lists = facts::LISTS.iter().map(|(field, _)| field);
    for field in lists.chain(facts::GRANULAR) {
        let (name, field) = field.rsplit_once('.').unwrap_or_default();
        let line = lines.get(name).map(String::as_str).unwrap_or_default();
        if !line.contains(&format!(" {field}:")) {
            return Err(format!("facts.rs: {name} has no field {field}"));
        }
    }
    let absent = facts::ATOMIC
        .iter()
        .find(|name| !lines.contains_key(**name));
    absent.map_or(Ok(()), |name| {
        Err(format!("facts.rs: there is no type {name}"))
    })
}

/// Returns the line of a type, and the paths of the types that it names.
fn line<'a>(structs: &'a Structs, found: &'a Struct) -> Result<(String, Vec<&'a str>), String> {
    let name = short(&found.definition);
    let mut line = name.clone();
    let mut named = Vec::new();
    if let Some(version) = &found.api_version {
        line.push_str(&format!(" @kind:{version}"));
    }
    if facts::ATOMIC.contains(&name.as_str()) {
        line.push_str(" @atomic");
    }
    let mut fields = BTreeMap::new();
    for own in ["apiVersion", "kind"] {
        if found.api_version.is_some() {
            fields.insert(own.to_owned(), "string".to_owned());
        }
    }
    for field in &found.fields {
        let json = found
            .names
            .get(&field.name)
            .ok_or_else(|| format!("{name}.{} has no name in JSON", field.name))?;
        let (kind, required) = match inner(&field.kind, "Option<") {
            Some(kind) => (kind, false),
            None => (field.kind.as_str(), field.name != "metadata"),
        };
        let kind = kind_of(structs, &name, json, field, kind, &mut named)?;
        let is_granular = facts::GRANULAR.contains(&format!("{name}.{json}").as_str());
        let tilde = if is_granular { "~" } else { "" };
        let mark = if required { "!" } else { "" };
        fields.insert(format!("{json}{mark}"), format!("{tilde}{kind}"));
    }
    for (field, kind) in fields {
        line.push_str(&format!(" {field}:{kind}"));
    }
    Ok((line, named))
}

/// Returns the type of a field as the table spells it, and adds the named types to `named`.
fn kind_of<'a>(
    structs: &'a Structs,
    owner: &str,
    json: &str,
    field: &'a Field,
    kind: &'a str,
    named: &mut Vec<&'a str>,
) -> Result<String, String> {
    if let Some(items) = inner(kind, "std::vec::Vec<") {
        let path = format!("{owner}.{json}");
        let fact = facts::LISTS.iter().find(|(field, _)| *field == path);
        let rules = match (fact, &field.merge) {
            (Some((_, rules)), _) => (*rules).to_owned(),
            (None, Some(Merge::Set)) => "set".to_owned(),
            (None, Some(Merge::ListMap(keys))) => {
                let element = lookup(structs, items)?;
                let keys = keys.iter().map(|key| {
                    let found = element.names.get(key).cloned();
                    found.ok_or_else(|| format!("{owner}.{json}: no key {key}"))
                });
                let keys: Result<Vec<_>, _> = keys.collect();
                format!("map:{}", keys?.join(","))
            }
            (None, _) => String::new(),
        };
        return Ok(format!("[{rules}]{}", plain(structs, items, named)?));
    }
    if let Some(values) = inner(kind, "std::collections::BTreeMap<std::string::String, ") {
        let is_atomic = field.merge == Some(Merge::Atomic);
        let atomic = if is_atomic { "atomic" } else { "" };
        return Ok(format!("{{{atomic}}}{}", plain(structs, values, named)?));
    }
    plain(structs, kind, named)
}

/// Returns a type other than a list or map as the table spells it.
fn plain<'a>(
    structs: &'a Structs,
    kind: &'a str,
    named: &mut Vec<&'a str>,
) -> Result<String, String> {
    if let Some(kind) = inner(kind, "std::boxed::Box<") {
        return plain(structs, kind, named);
    }
    if let Some(items) = inner(kind, "std::vec::Vec<") {
        return Ok(format!("[]{}", plain(structs, items, named)?));
    }
    Ok(match kind {
        "bool" => "boolean".to_owned(),
        "i32" => "int32".to_owned(),
        "i64" => "integer".to_owned(),
        "f64" => "number".to_owned(),
        "std::string::String" => "string".to_owned(),
        "crate::ByteString" => "bytes".to_owned(),
        "crate::serde_json::Value" => "any".to_owned(),
        path => {
            let found = lookup(structs, path)?;
            let scalar = facts::SCALARS
                .iter()
                .find(|(name, _)| *name == found.definition);
            if let Some((_, scalar)) = scalar {
                (*scalar).to_owned()
            } else if found.opaque {
                "any".to_owned()
            } else {
                named.push(path);
                short(&found.definition)
            }
        }
    })
}

fn lookup<'a>(structs: &'a Structs, path: &str) -> Result<&'a Struct, String> {
    structs
        .get(path)
        .ok_or_else(|| format!("there is no type {path}"))
}

fn inner<'a>(kind: &'a str, generic: &str) -> Option<&'a str> {
    kind.strip_prefix(generic)?.strip_suffix('>')
}

/// Returns the names of the types in a table, each with its `apiVersion` if it is a kind.
pub(super) fn types(table: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        Some((name, words.find_map(|word| word.strip_prefix("@kind:"))))
    })
}

/// Returns the name of a definition without the prefixes that all definitions share.
pub(super) fn short(definition: &str) -> String {
    let prefixes = [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apimachinery.pkg.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.kube-aggregator.pkg.apis.",
    ];
    let name = prefixes
        .into_iter()
        .find_map(|prefix| definition.strip_prefix(prefix));
    name.unwrap_or(definition).to_owned()
}
