//! Machine: reads and writes `fieldsV1`, the JSON form of a set of fields.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::field_set::{FieldNode, FieldSet};
use super::path_element::{Atom, PathElement};

/// Appends a set to `out` as `fieldsV1`.
pub(super) fn write(out: &mut String, set: &FieldSet) {
    out.push('{');
    write_nodes(out, set);
    close(out);
}

fn write_nodes(out: &mut String, set: &FieldSet) {
    for (element, node) in set.nodes() {
        let (prefix, rest) = name(element);
        write_prefixed(out, prefix, &rest);
        out.push_str(":{");
        if node.member && !node.below.is_empty() {
            out.push_str("\".\":{},");
        }
        write_nodes(out, &node.below);
        close(out);
        out.push(',');
    }
}

/// Closes a JSON object by replacing the comma after its last member.
fn close(out: &mut String) {
    if out.ends_with(',') {
        out.pop();
    }
    out.push('}');
}

pub(super) fn write_text(out: &mut String, text: &str) {
    write_prefixed(out, "", text);
}

/// Appends a JSON string that begins with `prefix`, which needs no escape.
fn write_prefixed(out: &mut String, prefix: &str, text: &str) {
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(prefix);
        out.push_str(text);
        out.push('"');
    } else {
        let text = [prefix, text].concat();
        out.push_str(&Value::from(text).to_string());
    }
}

/// Returns whether `written`, a set in the form of [`write()`], shares a field with `set`, without building a set.
pub(super) fn touches(written: &str, set: &FieldSet) -> bool {
    let mut reader = serde_json::Deserializer::from_str(written);
    // A text that does not parse counts as touched, so that the caller parses it and reports the error.
    TouchScan(set)
        .deserialize(&mut reader)
        .map_or(true, |seen| seen.touched)
}

/// Scans the text of a set for members of this set.
struct TouchScan<'a>(&'a FieldSet);

/// The result of the scan for one field of the text.
#[derive(Default)]
struct ScannedField {
    /// Whether the text names fields below this field.
    below: bool,
    /// Whether the text names the field itself, in addition to fields below it.
    itself: bool,
    /// Whether a field below this field is a member of both sets.
    touched: bool,
}

impl<'de> DeserializeSeed<'de> for TouchScan<'_> {
    type Value = ScannedField;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<ScannedField, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TouchScan<'_> {
    type Value = ScannedField;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a set of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ScannedField, A::Error> {
        let nodes: Vec<_> = self.0.nodes().map(|(e, node)| (name(e), node)).collect();
        let mut seen = ScannedField::default();
        while let Some(member) = members.next_key::<Cow<'_, str>>()? {
            seen.below = true;
            seen.itself |= member == ".";
            let named = |((prefix, rest), _): &&((&str, Cow<'_, str>), &FieldNode)| {
                member.strip_prefix(prefix) == Some(rest)
            };
            let Some((_, node)) = nodes.iter().find(named) else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let there = members.next_value_seed(TouchScan(&node.below))?;
            let member = there.itself || !there.below;
            seen.touched |= there.touched || (node.member && member);
        }
        Ok(seen)
    }
}

/// Returns the name of a path element in `fieldsV1`: the prefix of its form, and the rest.
fn name(element: &PathElement) -> (&'static str, Cow<'_, str>) {
    match element {
        PathElement::Field(name) => ("f:", Cow::Borrowed(name)),
        PathElement::Key(fields) => {
            let mut written = String::from("{");
            for (name, value) in fields {
                write_text(&mut written, name);
                written.push(':');
                write_atom(&mut written, value);
                written.push(',');
            }
            close(&mut written);
            ("k:", Cow::Owned(written))
        }
        PathElement::Value(value) => {
            let mut written = String::new();
            write_atom(&mut written, value);
            ("v:", Cow::Owned(written))
        }
        PathElement::Index(at) => ("i:", Cow::Owned(at.to_string())),
    }
}

/// Appends a value in a path element with the escapes of upstream's writer, which are a part of the field's name.
///
/// Source: `writeStringSlowPathWithHTMLEscaped` of json-iterator.
fn write_atom(out: &mut String, value: &Atom) {
    let Value::String(text) = &value.0 else {
        out.push_str(&value.0.to_string());
        return;
    };
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..=' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if c != ' ' => {
                // Writing to a `String` does not fail.
                write!(out, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Parses a set. Path elements of an unknown form are left out, with all fields below them.
pub(super) fn read(value: &Value) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    let members = match value {
        Value::Null => return Ok(set),
        Value::Object(members) => members,
        other => return Err(format!("expected an object of fields, found {other}")),
    };
    for (name, below) in members {
        let Some(element) = element(name)? else {
            continue;
        };
        let inner = read(below)?;
        let node = FieldNode {
            member: inner.is_empty() || below.get(".").is_some(),
            below: inner,
        };
        set.put(element, node);
    }
    Ok(set)
}

/// Parses one path element. Returns `Ok(None)` for the field itself (`.`) and for an unknown form.
fn element(name: &str) -> Result<Option<PathElement>, String> {
    if name == "." {
        return Ok(None);
    }
    let broken = |why: String| format!("{name}: {why}");
    let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| broken(e.to_string()));
    Ok(match name.split_once(':') {
        Some(("f", field)) => Some(PathElement::field(field)),
        Some(("k", keys)) => {
            let Value::Object(fields) = json(keys)? else {
                return Err(broken("the keys are no object".to_owned()));
            };
            let fields = fields.into_iter();
            let mut fields: Vec<_> = fields.map(|(name, value)| (name, Atom(value))).collect();
            fields.sort();
            Some(PathElement::Key(fields))
        }
        Some(("v", value)) => Some(PathElement::Value(Atom(json(value)?))),
        Some(("i", at)) => Some(PathElement::Index(
            at.parse().map_err(|_| broken("no index".to_owned()))?,
        )),
        _ if name.len() < 2 => return Err(broken("too short for a step".to_owned())),
        _ => None,
    })
}
