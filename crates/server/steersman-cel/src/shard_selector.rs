//! Machine: parses the `shardSelector` of lists and watches (KEP-5866) with kube-apiserver's messages, and matches
//! objects.

use std::hash::Hasher as _;

use fnv::FnvHasher;
use steersman_apimachinery::go;
use steersman_apimachinery::status::Status;

use crate::syntax::ast::{ExprNode, NodeKind};
use crate::syntax::parse::parse_core;
use crate::value::Value;

/// A parsed `shardSelector`: selects the objects for which the hash of one field is in one of several ranges.
///
/// The hash is 64-bit FNV-1a, as in the `k8s.io/apimachinery/pkg/sharding` of Kubernetes 1.36.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSelector {
    /// The path of the field that is hashed: [`UID`] or [`NAMESPACE`].
    field: &'static str,
    ranges: Vec<HashRange>,
}

const UID: &str = "object.metadata.uid";
const NAMESPACE: &str = "object.metadata.namespace";

/// A range of hashes, from `start` up to but not including `end`; `None` stands for 2^64, which a `u64` cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HashRange {
    start: u64,
    end: Option<u64>,
}

/// The text of 2^64 as the end of a range. It is the only bound with more than sixteen hexadecimal digits.
const BEYOND: &str = "0x10000000000000000";

impl ShardSelector {
    /// Parses a selector: `shardRange(object.metadata.uid, '0x…', '0x…')`, or several of these calls joined by `||`.
    ///
    /// # Errors
    /// Fails as kube-apiserver 1.36 does: with status 500, without a reason, and with the message of the parser.
    pub fn parse(text: &str) -> Result<Self, Status> {
        read(text).map_err(|why| Status::internal_plain(format!("invalid shard selector: {why}")))
    }

    /// Returns whether the selector selects an object with this uid and namespace.
    pub fn matches(&self, uid: &str, namespace: &str) -> bool {
        let hash = fnv1a(if self.field == UID { uid } else { namespace });
        let mut ranges = self.ranges.iter();
        ranges.any(|range| range.start <= hash && range.end.is_none_or(|end| hash < end))
    }

    /// Returns the selector with all digits of each bound, as a list returns it in `metadata.shardInfo`.
    pub fn text(&self) -> String {
        let ranges = self.ranges.iter().map(|range| {
            let end = range.end.map(|end| format!("0x{end:016x}"));
            let (field, end) = (self.field, end.as_deref().unwrap_or(BEYOND));
            format!("shardRange({field}, '0x{:016x}', '{end}')", range.start)
        });
        ranges.collect::<Vec<_>>().join(" || ")
    }
}

fn fnv1a(text: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

fn read(text: &str) -> Result<ShardSelector, String> {
    let text = text.trim();
    if text.is_empty() {
        let why = "empty shard selector is not allowed; omit the parameter for unfiltered lists";
        return Err(why.to_owned());
    }
    let whole = parse_core(text).map_err(|why| format!("CEL parse error: {why}"))?;
    let mut parts = Vec::new();
    // Visits the calls of `shardRange` from left to right: the left side of each `||` is popped first.
    let mut waiting = vec![&whole];
    while let Some(node) = waiting.pop() {
        match &node.kind {
            NodeKind::Call { name, args, .. } if name == "_||_" => {
                waiting.extend(args.iter().rev())
            }
            NodeKind::Call { name, args, .. } if name == "shardRange" => {
                parts.push(shard_range(args)?);
            }
            NodeKind::Call { name, .. } => {
                return Err(format!(
                    "unsupported function {}; only shardRange() and || are allowed",
                    go::quote(name)
                ));
            }
            other => {
                return Err(format!(
                    "unexpected expression kind {}; expected shardRange() call or || operator",
                    kind_number(other)
                ));
            }
        }
    }
    // `parts` is not empty, because a selector that parses has at least one `shardRange`.
    let field = parts.first().map_or(UID, |(field, _)| *field);
    if let Some((other, _)) = parts.iter().find(|(other, _)| *other != field) {
        return Err(format!(
            "all shard ranges must use the same field, got {} and {}",
            go::quote(field),
            go::quote(other)
        ));
    }
    let ranges = parts.into_iter().map(|(_, range)| range).collect();
    Ok(ShardSelector { field, ranges })
}

fn shard_range(arguments: &[ExprNode]) -> Result<(&'static str, HashRange), String> {
    let [field, start, end] = arguments else {
        let count = arguments.len();
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {count}"
        ));
    };
    let path = field_path(field).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let Some(field) = [UID, NAMESPACE].into_iter().find(|known| *known == path) else {
        let path = go::quote(&path);
        return Err(format!(
            "unsupported field path {path}; supported: {UID}, {NAMESPACE}"
        ));
    };
    let (start_text, start) = bound(start, "hexStart")?;
    let (end_text, end) = bound(end, "hexEnd")?;
    match (start, end) {
        (Some(start), end) if end.is_none_or(|end| start < end) => {
            Ok((field, HashRange { start, end }))
        }
        _ => Err(format!(
            "shard range start {start_text} must be less than end {end_text}"
        )),
    }
}

/// Returns the field path that a node spells, such as `object.metadata.uid`. Fails if the node is no chain of fields.
fn field_path(node: &ExprNode) -> Result<String, String> {
    if let Some(path) = node.qualified() {
        return Ok(path);
    }
    let mut at = node;
    while let NodeKind::Select { operand, .. } = &at.kind {
        at = operand;
    }
    Err(format!(
        "expected field path (e.g. object.metadata.uid), got expression kind {}",
        kind_number(&at.kind)
    ))
}

/// Returns the text and the number of a range's bound; the number is `None` for 2^64. Errors call the bound `name`.
fn bound<'a>(node: &'a ExprNode, name: &str) -> Result<(&'a str, Option<u64>), String> {
    let NodeKind::Literal(literal) = &node.kind else {
        return Err(format!(
            "{name} must be a string literal (e.g. '0xff'), got expression kind {}",
            kind_number(&node.kind)
        ));
    };
    let Value::Text(text) = literal else {
        let kind = go_type(literal);
        return Err(format!("{name} must be a string literal, got {kind}"));
    };
    let text = &**text;
    let quoted = go::quote(text);
    let is_wrong = |c: &char| !matches!(c, '0'..='9' | 'a'..='f');
    let why = match text.strip_prefix("0x") {
        None => format!(" must have '0x' prefix, got {quoted}"),
        Some("") => ": hex value is required after '0x'".to_owned(),
        Some(digits) if digits.len() > 17 => {
            let (count, digits) = (digits.len(), go::quote(digits));
            format!(": hex value too long ({count} chars, max 17): {digits}")
        }
        Some(digits) => match (digits.chars().find(is_wrong), digits.len()) {
            (Some(bad), _) => {
                let bad = go::quote(&bad.to_string());
                format!(": invalid hex character {bad} in {quoted}")
            }
            (None, 17) if text == BEYOND => return Ok((text, None)),
            (None, 17) => {
                format!(": 17-digit hex value must be '{BEYOND}' (2^64), got {quoted}")
            }
            (None, 16) => return Ok((text, u64::from_str_radix(digits, 16).ok())),
            (None, _) => format!(
                " must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean \"0x{digits:0>16}\"?)"
            ),
        },
    };
    Err(format!("{name}{why}"))
}

/// Returns the number that cel-go's `ast.ExprKind` gives to this kind of node; error messages print it.
fn kind_number(kind: &NodeKind) -> u8 {
    match kind {
        NodeKind::Call { .. } => 1,
        NodeKind::Fold(_) => 2,
        NodeKind::Ident(_) => 3,
        NodeKind::List { .. } => 4,
        NodeKind::Literal(_) => 5,
        NodeKind::Map(_) => 6,
        NodeKind::Select { .. } => 7,
        NodeKind::Message { .. } => 8,
    }
}

fn go_type(literal: &Value<'_>) -> &'static str {
    match literal {
        Value::Text(_) => "string",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "[]uint8",
        _ => "structpb.NullValue",
    }
}

#[cfg(test)]
mod tests;
