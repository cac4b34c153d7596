//! Reads the structs of `k8s-openapi`: their fields, the JSON names of the fields, and how they merge.
//!
//! The sources are generated and regular line by line. Code in an unexpected form is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A struct or enum of `k8s-openapi`.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// The name of its definition, for example `io.k8s.api.core.v1.PodSpec`.
    pub(super) definition: String,
    /// Whether the type has a JSON form of its own: it is an enum or a tuple struct.
    pub(super) opaque: bool,
    pub(super) description: String,
    /// The `apiVersion` if the type is a kind, for example `apps/v1`.
    pub(super) api_version: Option<String>,
    pub(super) fields: Vec<Field>,
    /// JSON names by Rust names.
    pub(super) names: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) description: String,
    pub(super) merge: Option<Merge>,
}

/// How a list or map merges. A map that merges key by key, as maps without a rule do, has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Merge {
    /// Replaced as a whole.
    Atomic,
    /// A list of distinct scalars.
    Set,
    /// A list merged by these fields of its elements (Rust names).
    ListMap(Vec<String>),
}

/// Returns all structs below a folder by their Rust paths, for example `crate::api::core::v1::PodSpec`.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Struct>, String> {
    let mut found = BTreeMap::new();
    read_folder(folder, "crate", &mut found)?;
    Ok(found)
}

fn read_folder(
    folder: &Path,
    module: &str,
    found: &mut BTreeMap<String, Struct>,
) -> Result<(), String> {
    let problem = |error| format!("{} could not be read: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            read_folder(&path, &format!("{module}::{name}"), found)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path).map_err(problem)?;
            if let Some((name, read)) = one(&text) {
                found.insert(format!("{module}::{name}"), read);
            }
        }
    }
    Ok(())
}

/// Reads one file. Returns `None` if the file defines no type.
fn one(text: &str) -> Option<(String, Struct)> {
    let marker = "// Generated from definition ";
    let definition = text.lines().find_map(|line| line.strip_prefix(marker))?;
    let mut read = Struct {
        definition: definition.to_owned(),
        ..Struct::default()
    };
    let mut name = None;
    let mut lines = text.lines();
    let mut comment = Vec::new();
    for line in lines.by_ref() {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words);
        }
        let as_enum = line.strip_prefix("pub enum ");
        if let Some(rest) = line.strip_prefix("pub struct ").or(as_enum) {
            read.opaque = as_enum.is_some() || rest.contains('(');
            name = rest.split([' ', '(', ';', '<']).next();
            break;
        }
    }
    let name = name?.to_owned();
    read.description = description(&comment);
    if !read.opaque {
        comment.clear();
        for line in lines.by_ref().take_while(|line| *line != "}") {
            if let Some(words) = line.strip_prefix("    ///") {
                comment.push(words);
            }
            if let Some((name, kind)) = line
                .strip_prefix("    pub ")
                .and_then(|rest| rest.trim_end_matches(',').split_once(": "))
            {
                read.fields.push(Field {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    description: description(&std::mem::take(&mut comment)),
                    merge: merge(text, name),
                });
            }
        }
    }
    for line in lines.map(str::trim) {
        if let Some(version) = line.strip_prefix("const API_VERSION: &'static str = \"") {
            read.api_version = version.split('"').next().map(str::to_owned);
        }
        // "clusterIP" => Field::Key_cluster_ip,
        let arm = line
            .strip_prefix('"')
            .and_then(|rest| rest.split_once("\" => Field::Key_"));
        if let Some((json, rust)) = arm {
            let rust = rust.trim_end_matches(',').to_owned();
            read.names.insert(rust, json.to_owned());
        }
    }
    Some((name, read))
}

/// Returns the description that a comment was made from. `k8s-openapi` escapes what would be a link or HTML.
fn description(comment: &[&str]) -> String {
    let lines = comment
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    for escaped in ["\\[", "\\]", "\\<", "\\>", "\\\\"] {
        text = text.replace(escaped, &escaped[1..]);
    }
    text
}

/// Returns how a field merges, from the implementation of `DeepMerge`.
fn merge(text: &str, field: &str) -> Option<Merge> {
    for (strategy, found) in [
        ("list::atomic", Merge::Atomic),
        ("map::atomic", Merge::Atomic),
        ("list::set", Merge::Set),
    ] {
        if text.contains(&format!("merge_strategies::{strategy}(&mut self.{field},")) {
            return Some(found);
        }
    }
    let start = format!("merge_strategies::list::map(\n            &mut self.{field},\n");
    let (_, rest) = text.split_once(&start)?;
    let keys = rest.lines().find(|line| line.trim().starts_with("&["))?;
    let keys = keys.split("lhs.").skip(1);
    let keys = keys.filter_map(|key| key.split(' ').next());
    Some(Merge::ListMap(keys.map(str::to_owned).collect()))
}
