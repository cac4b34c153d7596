//! Writes the table of protobuf messages: field numbers come from the crate `k8s-pb`, which is generated
//! from Kubernetes' `.proto` files, and JSON names from the table of types.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::zeros;

const HEADER: &str = "\
# The protobuf messages of Kubernetes' own types, one message per line: its name, and its fields as
# `number:name=kind`. `cargo xtask schemas --proto DIR` generates this file from the sources of k8s-pb and the facts
# in xtask/src/schemas/zeros.rs. The format is described in crates/steersman-schema/src/types/protobuf/messages.rs.
# Do not edit.
";

/// Types with another form in JSON than in protobuf.
const SCALARS: &[(&str, &str)] = &[
    ("api.resource.quantity", "quantity"),
    ("apiextensions.v1.json", "raw"),
    ("apiextensions.v1.jsonschemapropsorarray", "schemaOrArray"),
    ("apiextensions.v1.jsonschemapropsorbool", "schemaOrBool"),
    (
        "apiextensions.v1.jsonschemapropsorstringarray",
        "schemaOrStrings",
    ),
    ("authentication.v1.extravalue", "strings"),
    ("authorization.v1.extravalue", "strings"),
    ("certificates.v1.extravalue", "strings"),
    ("meta.v1.fieldsv1", "raw"),
    ("meta.v1.microtime", "microTime"),
    ("meta.v1.time", "time"),
    ("runtime.rawextension", "raw"),
    ("util.intstr.intorstring", "intOrString"),
];

/// A message of `k8s-pb`.
#[derive(Debug)]
pub(super) struct Message {
    name: String,
    fields: Vec<MessageField>,
}

/// A field of a message.
#[derive(Debug)]
struct MessageField {
    name: String,
    number: u32,
    /// The name of a scalar type, or `message`.
    kind: String,
    shape: Shape,
    /// The name of the message in lower case, if the field is a message.
    target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

/// Messages by their names in lower case.
pub(super) type Messages = BTreeMap<String, Message>;

/// An entry of the table of types. Fields map a squashed name to the JSON name and whether the field
/// is required.
#[derive(Debug, Default)]
struct Known<'a> {
    name: &'a str,
    is_kind: bool,
    fields: BTreeMap<String, (&'a str, bool)>,
}

/// Reads the sources of `k8s-pb`.
///
/// # Errors
/// Names the file that could not be read.
pub(super) fn read(folder: &Path) -> Result<Messages, String> {
    let mut messages = Messages::new();
    let mut waiting = vec![(folder.to_owned(), Vec::new())];
    while let Some((at, path)) = waiting.pop() {
        let broken = |error| format!("{} could not be read: {error}", at.display());
        for entry in fs::read_dir(&at).map_err(broken)? {
            let entry = entry.map_err(broken)?.path();
            let name = entry.file_name().and_then(|name| name.to_str());
            let Some(name) = name else { continue };
            if entry.is_dir() {
                let mut below: Vec<String> = path.clone();
                below.push(name.to_owned());
                waiting.push((entry, below));
            } else if name == "mod.rs" {
                let text = fs::read_to_string(&entry).map_err(broken)?;
                for message in read_file(&text, &path) {
                    messages.insert(message.name.to_lowercase(), message);
                }
            }
        }
    }
    if messages.is_empty() {
        return Err(format!("{} holds no messages", folder.display()));
    }
    Ok(messages)
}

/// Returns the messages of one file; `path` holds the names of its parent modules.
fn read_file(text: &str, path: &[String]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut attribute = None;
    let mut open = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            let name = rest.trim_end_matches(['{', '}', ' ']);
            messages.push(Message {
                name: format!("{}.{name}", package(path)),
                fields: Vec::new(),
            });
        } else if let Some(rest) = line.strip_prefix("#[prost(") {
            attribute = Some(rest.trim_end_matches(")]"));
        } else if let Some(given) = attribute
            && !line.starts_with("//")
        {
            // A long type spans several lines.
            open.push_str(line);
            if line.ends_with(',') && open.matches('<').count() == open.matches('>').count() {
                let field = field(&open, given, path);
                if let (Some(message), Some(field)) = (messages.last_mut(), field) {
                    message.fields.push(field);
                }
                open.clear();
                attribute = None;
            }
        }
    }
    messages
}

fn field(line: &str, attribute: &str, path: &[String]) -> Option<MessageField> {
    let (name, kind) = line.strip_prefix("pub ")?.split_once(':')?;
    let number = attribute.split("tag = \"").nth(1)?;
    let number = number.trim_end_matches('"').parse().ok()?;
    let first = attribute.split([',', ' ']).next()?;
    let (scalar, shape) = if let Some(map) = attribute.strip_prefix("btree_map = \"string, ") {
        (map.split('"').next()?, Shape::Map)
    } else if attribute.contains("repeated") {
        (first, Shape::List)
    } else {
        (first, Shape::One)
    };
    // The innermost type is the last word before the closing brackets.
    let target = kind.trim_end_matches([',', '>', ' ']);
    let target = target.rsplit(['<', ',', ' ']).next()?;
    Some(MessageField {
        name: name.trim_start_matches("r#").to_owned(),
        number,
        kind: scalar.to_owned(),
        shape,
        target: resolve(target, path).to_lowercase(),
    })
}

/// Returns the name of a type from its path relative to a module.
fn resolve(target: &str, path: &[String]) -> String {
    let mut words: Vec<&str> = target.split("::").collect();
    let name = words.pop().unwrap_or_default();
    let mut at: Vec<String> = path.to_vec();
    for word in words {
        if word == "super" {
            at.pop();
        } else {
            at.push(word.to_owned());
        }
    }
    format!("{}.{name}", package(&at))
}

/// Returns the package of a module as the table of types names it.
fn package(path: &[String]) -> String {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let rest = match path.as_slice() {
        ["api", rest @ ..]
        | [
            "apimachinery" | "apiextensions_apiserver" | "kube_aggregator",
            "pkg",
            "apis",
            rest @ ..,
        ]
        | ["apimachinery", "pkg", rest @ ..] => rest,
        other => other,
    };
    rest.join(".")
}

/// Returns the table: all messages that the body of a request can hold.
///
/// # Errors
/// Names a fact in zeros.rs about a field that does not exist.
pub(super) fn write(types: &str, messages: &Messages) -> Result<String, String> {
    let known = known(types);
    for (owner, field) in zeros::named_fields() {
        let found = known.get(&owner.to_lowercase());
        if !found.is_some_and(|found| found.fields.contains_key(&squash(field))) {
            return Err(format!("zeros.rs: {owner} has no field {field}"));
        }
    }
    // Each message with the types that its fields may belong to: its own and those of its owners.
    let mut waiting: Vec<(String, Vec<String>)> = known
        .iter()
        .filter(|(_, found)| found.is_kind)
        .map(|(name, _)| (name.clone(), Vec::new()))
        .collect();
    waiting.push(("meta.v1.deleteoptions".to_owned(), Vec::new()));
    let mut seen = BTreeSet::new();
    let mut lines: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    while let Some((name, owners)) = waiting.pop() {
        if !seen.insert((name.clone(), owners.clone())) {
            continue;
        }
        let Some(message) = find(messages, &name) else {
            continue;
        };
        let owners = [vec![name.clone()], owners].concat();
        let fields = lines.entry(title(&known, messages, &name)).or_default();
        for field in &message.fields {
            let named = owners.iter().find_map(|owner| {
                let owner = known.get(owner)?;
                let (json, required) = owner.fields.get(&squash(&field.name))?;
                Some((owner.name, *json, *required))
            });
            let kind = kind(&known, messages, field);
            if let Some((owner, json, required)) = named {
                let scalar =
                    field.shape == Shape::One && (field.kind != "message" || kind == "intOrString");
                let stands =
                    scalar && (required || zeros::matter(owner, json, field.kind == "string"));
                let mark = if stands { "*" } else { "" };
                fields.insert(field.number, format!("{json}{mark}={kind}"));
                if field.kind == "message" {
                    waiting.push((current(&known, &field.target), Vec::new()));
                }
            } else if is_part(&known, messages, field, &owners) {
                fields.insert(field.number, format!("={kind}"));
                waiting.push((field.target.clone(), owners.clone()));
            }
            // Other fields belong to an older or newer version of the Kubernetes API.
        }
    }
    let mut text = HEADER.to_owned();
    for (name, fields) in lines {
        text.push_str(&name);
        for (number, field) in fields {
            text.push_str(&format!(" {number}:{field}"));
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns whether a message is embedded: in JSON its fields are fields of its owner.
fn is_part(
    known: &BTreeMap<String, Known<'_>>,
    messages: &Messages,
    field: &MessageField,
    owners: &[String],
) -> bool {
    let part = find(messages, &field.target).filter(|_| field.shape == Shape::One);
    let fields = part.map_or(&[][..], |part| &part.fields);
    field.kind == "message"
        && fields.iter().any(|field| {
            let mut owners = owners.iter().filter_map(|owner| known.get(owner));
            owners.any(|owner| owner.fields.contains_key(&squash(&field.name)))
        })
}

/// Finds a message. A type that is new in `v1` has the field numbers of its `v1beta1`.
fn find<'a>(messages: &'a Messages, name: &str) -> Option<&'a Message> {
    let before = || messages.get(&name.replace(".v1.", ".v1beta1."));
    messages.get(name).or_else(before)
}

/// Returns the name of a type in the served version, for example that of `v1` for a type of `v1beta1`.
fn current(known: &BTreeMap<String, Known<'_>>, name: &str) -> String {
    let newer = name.replace(".v1beta1.", ".v1.");
    if known.contains_key(&newer) {
        newer
    } else {
        name.to_owned()
    }
}

/// Returns the name of a message as the table spells it.
fn title(known: &BTreeMap<String, Known<'_>>, messages: &Messages, name: &str) -> String {
    let own = known.get(name).map(|known| known.name.to_owned());
    own.or_else(|| find(messages, name).map(|message| message.name.clone()))
        .unwrap_or_else(|| name.to_owned())
}

/// Returns the type of a field as the table spells it.
fn kind(known: &BTreeMap<String, Known<'_>>, messages: &Messages, field: &MessageField) -> String {
    let one = match field.kind.as_str() {
        "message" => {
            let scalar = SCALARS.iter().find(|(name, _)| *name == field.target);
            scalar.map_or_else(
                || title(known, messages, &current(known, &field.target)),
                |(_, scalar)| (*scalar).to_owned(),
            )
        }
        scalar => scalar.to_owned(),
    };
    match field.shape {
        Shape::One => one,
        Shape::List => format!("[]{one}"),
        Shape::Map => format!("{{}}{one}"),
    }
}

/// Reads the table of types; the keys are names in lower case.
fn known(types: &str) -> BTreeMap<String, Known<'_>> {
    let mut all = BTreeMap::new();
    for line in types.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut known = Known {
            name,
            ..Known::default()
        };
        for word in words {
            known.is_kind |= word.starts_with("@kind:");
            if let Some((field, _)) = word.split_once(':').filter(|_| !word.starts_with('@')) {
                let json = field.trim_end_matches('!');
                known.fields.insert(squash(json), (json, json != field));
            }
        }
        all.insert(name.to_lowercase(), known);
    }
    all
}

/// Returns a name in lower case without separators, which is equal for the Rust and the JSON name.
fn squash(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// A thing.
pub struct ThingSpec {
    #[prost(string, optional, tag = \"1\")]
    pub cluster_i_ps: ::core::option::Option<::prost::alloc::string::String>,
    /// Words.
    #[prost(btree_map = \"string, message\", tag = \"3\")]
    pub limits: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        super::super::super::apimachinery::pkg::api::resource::Quantity,
    >,
    #[prost(message, optional, tag = \"2\")]
    pub part: ::core::option::Option<Part>,
}
pub struct Part {
    #[prost(int32, optional, tag = \"7\")]
    pub r#type: ::core::option::Option<i32>,
}
";

    #[test]
    fn a_message_is_read_with_the_names_and_types_of_its_fields() {
        let path = ["api", "core", "v1"].map(str::to_owned);
        let messages = read_file(SOURCE, &path);
        let messages: Messages = messages
            .into_iter()
            .map(|message| (message.name.to_lowercase(), message))
            .collect();
        let types =
            "core.v1.ThingSpec @kind:v1 clusterIPs!:string limits:{}quantity type:integer\n";
        let known = known(types);
        assert_eq!(known["core.v1.thingspec"].fields.len(), 3);
        let fields = &messages["core.v1.thingspec"].fields;
        assert_eq!(kind(&known, &messages, &fields[1]), "{}quantity");
        assert_eq!(kind(&known, &messages, &fields[2]), "core.v1.Part");
        assert_eq!(fields[2].number, 2);
        assert_eq!(squash("clusterIPs"), squash(&fields[0].name));
    }
}
