//! Machine: decodes the nodes of a document into the values of Go, and these into JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::problems;
use super::scalar;
use super::tree::{Content, DEEPEST, Tree};
use crate::go;
use crate::json;

/// The tag of the key `<<`.
const MERGE: &str = "tag:yaml.org,2002:merge";

/// A value as go-yaml decodes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GoValue {
    Null,
    Bool(bool),
    Int(i64),
    /// A number beyond the range of `Int`.
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<GoKey, Self>),
}

/// A key of a map. Keys of different types are different keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GoKey {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of the number.
    Float(u64),
    Text(String),
}

/// Decodes a document.
///
/// # Errors
/// Fails with the message of `YAMLToJSON` of `sigs.k8s.io/yaml`.
pub(super) fn value(tree: &Tree) -> Result<Value, String> {
    let mut decoder = Decoder::of(tree, false);
    let read = decoder.value(0).map_err(|why| format!("yaml: {why}"))?;
    let mut unsupported = None;
    let value = jsonable(&read, &mut unsupported)?;
    match unsupported {
        None => Ok(value),
        Some(number) => Err(format!(
            "json: unsupported value: {}",
            go::print_double(number)
        )),
    }
}

/// Returns a message for each key that a map has already, in the order of the text. A document that does
/// not decode has none.
pub(super) fn duplicates(tree: &Tree) -> Vec<String> {
    let mut decoder = Decoder::of(tree, true);
    match decoder.value(0) {
        Ok(_) => decoder.duplicates,
        Err(_) => Vec::new(),
    }
}

struct Decoder<'a> {
    tree: &'a Tree,
    /// Whether duplicate keys are reported, and their first value stays.
    is_strict: bool,
    duplicates: Vec<String>,
    /// The aliases that are being decoded.
    active: Vec<usize>,
    depth: usize,
    /// The number of decoded nodes, and of those within aliases.
    decoded: usize,
    aliased: usize,
    /// The number of bytes of texts that aliases repeat.
    repeated: usize,
}

impl<'a> Decoder<'a> {
    fn of(tree: &'a Tree, is_strict: bool) -> Self {
        Self {
            tree,
            is_strict,
            duplicates: Vec::new(),
            active: Vec::new(),
            depth: 0,
            decoded: 0,
            aliased: 0,
            repeated: 0,
        }
    }

    fn value(&mut self, at: usize) -> Result<GoValue, String> {
        // SRV-3: each level takes some kilobytes of stack in an unoptimised build.
        stacker::maybe_grow(128 << 10, 1 << 20, || self.value_here(at))
    }

    fn value_here(&mut self, at: usize) -> Result<GoValue, String> {
        self.enter(at)?;
        let node = self.tree.node(at);
        let value = match &node.content {
            Content::Scalar { text, is_plain } => {
                if !self.active.is_empty() {
                    self.repeated += text.len();
                }
                if *is_plain || !node.tag.is_empty() {
                    scalar::value(&node.tag, text)?
                } else {
                    GoValue::Text(text.clone())
                }
            }
            Content::List(items) => {
                let items = items.iter().map(|item| self.value(*item));
                GoValue::List(items.collect::<Result<_, _>>()?)
            }
            Content::Map(_) => {
                let mut map = BTreeMap::new();
                self.fill(at, &mut map)?;
                GoValue::Map(map)
            }
            Content::Alias(target, name) => {
                self.follow(at, name)?;
                let value = self.value(*target)?;
                self.active.pop();
                value
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Bounds the nesting and what aliases repeat (SRV-3).
    fn enter(&mut self, at: usize) -> Result<(), String> {
        self.depth += 1;
        // A scalar, or an alias of one, may stand in the deepest list.
        if self.depth > DEEPEST + 2 {
            return Err(problems::too_deep(self.tree.node(at).line));
        }
        self.decoded += 1;
        if !self.active.is_empty() {
            self.aliased += 1;
        }
        let is_excessive = self.aliased > 100
            && self.decoded > 1000
            && ratio(self.aliased, self.decoded) > allowed_ratio(self.decoded);
        if is_excessive || self.repeated > MAX_REPEATED {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn follow(&mut self, at: usize, name: &str) -> Result<(), String> {
        if self.active.contains(&at) {
            return Err(format!("anchor '{name}' value contains itself"));
        }
        self.active.push(at);
        Ok(())
    }

    /// Adds the entries of a map node.
    fn fill(&mut self, at: usize, map: &mut BTreeMap<GoKey, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        let Content::Map(children) = &tree.node(at).content else {
            return Ok(());
        };
        for pair in children.chunks(2) {
            let [key, value] = *pair else { continue };
            if is_merge(tree, key) {
                self.merge(value, map)?;
                continue;
            }
            let key = match self.value(key)? {
                GoValue::Null => GoKey::Null,
                GoValue::Bool(flag) => GoKey::Bool(flag),
                GoValue::Int(number) => GoKey::Int(number),
                GoValue::Uint(number) => GoKey::Uint(number),
                GoValue::Float(number) => GoKey::Float(number.to_bits()),
                GoValue::Text(text) => GoKey::Text(text),
                other => return Err(format!("invalid map key: {}", go_syntax(&other))),
            };
            let line = tree.node(value).line;
            let value = self.value(value)?;
            if self.is_strict && map.contains_key(&key) {
                let key = go_syntax(&key.to_value());
                let duplicate = format!("line {line}: key {key} already set in map");
                self.duplicates.push(duplicate);
            } else {
                map.insert(key, value);
            }
        }
        Ok(())
    }

    /// Adds the entries of the map, or of the maps, that the key `<<` names. They replace those that
    /// stand before.
    fn merge(&mut self, at: usize, map: &mut BTreeMap<GoKey, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        match &tree.node(at).content {
            Content::List(items) => {
                // The first map counts most.
                for item in items.iter().rev() {
                    self.merge_one(*item, map)?;
                }
                Ok(())
            }
            _ => self.merge_one(at, map),
        }
    }

    fn merge_one(&mut self, at: usize, map: &mut BTreeMap<GoKey, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        let is_map = |at: usize| matches!(tree.node(at).content, Content::Map(_));
        match &tree.node(at).content {
            Content::Map(_) => {
                self.enter(at)?;
                self.fill(at, map)?;
            }
            Content::Alias(target, name) if is_map(*target) => {
                self.enter(at)?;
                self.follow(at, name)?;
                self.fill(*target, map)?;
                self.active.pop();
            }
            _ => return Err("map merge requires map or sequence of maps as the value".to_owned()),
        }
        self.depth -= 1;
        Ok(())
    }
}

/// Number of bytes of texts that aliases may repeat.
const MAX_REPEATED: usize = 32 << 20;

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the numbers of nodes are small")]
    let (part, whole) = (part as f64, whole as f64);
    part / whole
}

/// Returns which part of the decoded nodes may come from aliases: `allowedAliasRatio` of go-yaml.
fn allowed_ratio(decoded: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match decoded {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ratio(decoded - LOW, HIGH - LOW),
    }
}

fn is_merge(tree: &Tree, key: usize) -> bool {
    let node = tree.node(key);
    match &node.content {
        Content::Scalar { text, is_plain } => text == "<<" && (*is_plain || node.tag == MERGE),
        _ => false,
    }
}

impl GoKey {
    fn to_value(&self) -> GoValue {
        match self {
            Self::Null => GoValue::Null,
            Self::Bool(flag) => GoValue::Bool(*flag),
            Self::Int(number) => GoValue::Int(*number),
            Self::Uint(number) => GoValue::Uint(*number),
            Self::Float(bits) => GoValue::Float(f64::from_bits(*bits)),
            Self::Text(text) => GoValue::Text(text.clone()),
        }
    }

    /// Returns the key in JSON: `convertToJSONableObject` of `sigs.k8s.io/yaml`. A null and a number
    /// beyond `int` have none.
    fn text(&self) -> Option<String> {
        match self {
            Self::Null | Self::Uint(_) => None,
            Self::Bool(flag) => Some(flag.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Float(bits) => {
                #[expect(clippy::cast_possible_truncation, reason = "as in Go")]
                let number = f64::from_bits(*bits) as f32;
                Some(match go::print_float(number).as_str() {
                    "+Inf" => ".inf".to_owned(),
                    "-Inf" => "-.inf".to_owned(),
                    "NaN" => ".nan".to_owned(),
                    text => text.to_owned(),
                })
            }
        }
    }
}

/// Returns the JSON of a value, and notes the first number that JSON does not have.
fn jsonable(value: &GoValue, unsupported: &mut Option<f64>) -> Result<Value, String> {
    Ok(match value {
        GoValue::Null => Value::Null,
        GoValue::Bool(flag) => (*flag).into(),
        GoValue::Int(number) => (*number).into(),
        GoValue::Uint(number) => (*number).into(),
        GoValue::Float(number) => {
            if !number.is_finite() {
                unsupported.get_or_insert(*number);
            }
            // Go's encoder writes a whole float as an integer.
            let mut value = (*number).into();
            json::write_whole(&mut value);
            value
        }
        GoValue::Text(text) => text.as_str().into(),
        GoValue::List(items) => {
            let deeper =
                |item| stacker::maybe_grow(128 << 10, 1 << 20, || jsonable(item, unsupported));
            let items = items.iter().map(deeper);
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        GoValue::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let Some(text) = key.text() else {
                    let (kind, key) = match key {
                        GoKey::Uint(number) => ("uint64", format!("{number:#x}")),
                        _ => ("%!s(<nil>)", "<nil>".to_owned()),
                    };
                    let value = match value {
                        GoValue::Null => "<nil>".to_owned(),
                        value => go_syntax(value),
                    };
                    return Err(format!(
                        "unsupported map key of type: {kind}, key: {key}, value: {value}"
                    ));
                };
                let deeper = || jsonable(value, unsupported);
                let value = stacker::maybe_grow(128 << 10, 1 << 20, deeper)?;
                map.insert(text, value);
            }
            Value::Object(map)
        }
    })
}

/// Prints a value as `%#v` does.
fn go_syntax(value: &GoValue) -> String {
    match value {
        GoValue::Null => "interface {}(nil)".to_owned(),
        GoValue::Bool(flag) => flag.to_string(),
        GoValue::Int(number) => number.to_string(),
        GoValue::Uint(number) => format!("{number:#x}"),
        GoValue::Float(number) => go::print_double(*number),
        GoValue::Text(text) => go::quote(text),
        GoValue::List(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        GoValue::Map(entries) => {
            let mut text = "map[interface {}]interface {}{".to_owned();
            for (number, (key, value)) in entries.iter().enumerate() {
                let comma = if number > 0 { ", " } else { "" };
                let key = go_syntax(&key.to_value());
                // Writing to a text cannot fail.
                let _ = write!(text, "{comma}{key}:{}", go_syntax(value));
            }
            text + "}"
        }
    }
}
