//! Machine: decodes the nodes of a YAML document into Go's values, and these into JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::go_value::{GoValue, go_syntax, jsonable};
use super::problems::{self, DEEPEST};
use super::scalar;
use super::tree::{Tree, YamlContent};
use crate::go;

/// The tag of the merge key `<<`.
const MERGE: &str = "tag:yaml.org,2002:merge";

/// Decodes a document.
///
/// # Errors
/// Fails with the message of `YAMLToJSON` of `sigs.k8s.io/yaml`.
pub(super) fn value(tree: &Tree) -> Result<Value, String> {
    let mut decoder = YamlDecoder::of(tree, false);
    let read = decoder.value(0).map_err(|why| format!("yaml: {why}"))?;
    let mut unsupported = None;
    let value = jsonable(&read, &mut unsupported)?;
    let Some(number) = unsupported.map(go::print_double) else {
        return Ok(value);
    };
    Err(format!("json: unsupported value: {number}"))
}

/// Returns a message for each duplicate key of a map, in the order of the text.
pub(super) fn duplicates(tree: &Tree) -> Vec<String> {
    let mut decoder = YamlDecoder::of(tree, true);
    match decoder.value(0) {
        Ok(_) => decoder.duplicates,
        Err(_) => Vec::new(),
    }
}

struct YamlDecoder<'a> {
    tree: &'a Tree,
    /// Whether a duplicate key is reported; then its first value stays.
    is_strict: bool,
    duplicates: Vec<String>,
    /// The aliased nodes that are being decoded, to find an alias within itself.
    active: Vec<usize>,
    depth: usize,
    /// The number of decoded nodes, and the number of those within aliases.
    decoded: usize,
    aliased: usize,
    /// The number of bytes in texts that aliases repeat.
    repeated: usize,
}

impl<'a> YamlDecoder<'a> {
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
        // SRV-3: each level takes several kilobytes of stack in an unoptimised build.
        stacker::maybe_grow(128 << 10, 1 << 20, || self.value_here(at))
    }

    fn value_here(&mut self, at: usize) -> Result<GoValue, String> {
        self.enter(at)?;
        let node = self.tree.node(at);
        let value = match &node.content {
            YamlContent::Scalar { text, is_plain } => {
                if !self.active.is_empty() {
                    self.repeated += text.len();
                }
                if *is_plain || !node.tag.is_empty() {
                    scalar::value(&node.tag, text)?
                } else {
                    GoValue::Text(text.clone())
                }
            }
            YamlContent::List(items) => {
                let items = items.iter().map(|item| self.value(*item));
                GoValue::List(items.collect::<Result<_, _>>()?)
            }
            YamlContent::Map(_) => {
                let mut map = BTreeMap::new();
                self.fill(at, &mut map)?;
                GoValue::Map(map)
            }
            YamlContent::Alias(target, name) => {
                self.follow(at, name)?;
                let value = self.value(*target)?;
                self.active.pop();
                value
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Checks the limits of the nesting, and of the nodes and bytes that aliases repeat (SRV-3).
    fn enter(&mut self, at: usize) -> Result<(), String> {
        self.depth += 1;
        // The deepest list may contain a scalar, or an alias of a scalar.
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

    /// Adds the entries of a map node to `map`.
    fn fill(&mut self, at: usize, map: &mut BTreeMap<GoValue, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        let YamlContent::Map(children) = &tree.node(at).content else {
            return Ok(());
        };
        for pair in children.chunks(2) {
            let [key, value] = *pair else { continue };
            if is_merge(tree, key) {
                self.merge(value, map)?;
                continue;
            }
            let key = self.value(key)?;
            if matches!(key, GoValue::List(_) | GoValue::Map(_)) {
                return Err(format!("invalid map key: {}", go_syntax(&key)));
            }
            let line = tree.node(value).line;
            let value = self.value(value)?;
            if self.is_strict && map.contains_key(&key) {
                let key = go_syntax(&key);
                let duplicate = format!("line {line}: key {key} already set in map");
                self.duplicates.push(duplicate);
            } else {
                map.insert(key, value);
            }
        }
        Ok(())
    }

    /// Adds the entries of the maps that the key `<<` names, in place of earlier ones.
    fn merge(&mut self, at: usize, map: &mut BTreeMap<GoValue, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        match &tree.node(at).content {
            YamlContent::List(items) => {
                // The first map is added last, because its entries have precedence.
                for item in items.iter().rev() {
                    self.merge_one(*item, map)?;
                }
                Ok(())
            }
            _ => self.merge_one(at, map),
        }
    }

    fn merge_one(&mut self, at: usize, map: &mut BTreeMap<GoValue, GoValue>) -> Result<(), String> {
        let tree = self.tree;
        let is_map = |at: usize| matches!(tree.node(at).content, YamlContent::Map(_));
        match &tree.node(at).content {
            YamlContent::Map(_) => {
                self.enter(at)?;
                self.fill(at, map)?;
            }
            YamlContent::Alias(target, name) if is_map(*target) => {
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

/// Maximum number of bytes in texts that aliases repeat.
const MAX_REPEATED: usize = 32 << 20;

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the numbers of nodes are small")]
    let (part, whole) = (part as f64, whole as f64);
    part / whole
}

/// Returns the maximum share of the decoded nodes that are within aliases: `allowedAliasRatio` of go-yaml.
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
        YamlContent::Scalar { text, is_plain } => text == "<<" && (*is_plain || node.tag == MERGE),
        _ => false,
    }
}
