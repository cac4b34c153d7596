//! Machine: parses the `shardSelector` of KEP-5866 with kube-apiserver's messages, and matches
//! objects.

mod lexer;
mod syntax;

use std::hash::Hasher as _;

use fnv::FnvHasher;

use crate::go;
use crate::status::Status;

use syntax::{Expression, Literal};

/// The words that the grammar of CEL reserves beside its keywords (`true`, `false`, `null`, `in`). They
/// are no identifiers.
pub const RESERVED_WORDS: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A parsed `shardSelector`: the hash of one field must lie in one of several ranges.
///
/// The hash is 64-bit FNV-1a, as in the `k8s.io/apimachinery/pkg/sharding` of Kubernetes 1.36.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSelector {
    field: HashedField,
    ranges: Vec<Range>,
}

/// The field to hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HashedField {
    Uid,
    Namespace,
}

/// A range of hashes: start inclusive, end exclusive. No end means 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u64,
    end: Option<u64>,
}

/// The text of 2^64, the only bound with more than sixteen digits.
const BEYOND: &str = "0x10000000000000000";

impl ShardSelector {
    /// Parses the text of a query parameter: `shardRange(object.metadata.uid, '0x…', '0x…')`, or
    /// several of them joined by `||`.
    ///
    /// # Errors
    /// 500 without a reason, with the parser's message, as kube-apiserver 1.36 answers.
    pub fn parse(text: &str) -> Result<Self, Status> {
        read(text).map_err(|why| Status::internal_plain(format!("invalid shard selector: {why}")))
    }

    /// Returns whether an object with this uid and namespace matches.
    #[must_use]
    pub fn matches(&self, uid: &str, namespace: &str) -> bool {
        let hash = fnv1a(match self.field {
            HashedField::Uid => uid,
            HashedField::Namespace => namespace,
        });
        self.ranges
            .iter()
            .any(|range| range.start <= hash && range.end.is_none_or(|end| hash < end))
    }

    /// Returns the normalised text that a list repeats in `metadata.shardInfo`.
    #[must_use]
    pub fn text(&self) -> String {
        let ranges = self.ranges.iter().map(|range| {
            let end = range
                .end
                .map_or(BEYOND.to_owned(), |end| format!("0x{end:016x}"));
            let field = self.field.path();
            format!("shardRange({field}, '0x{:016x}', '{end}')", range.start)
        });
        ranges.collect::<Vec<_>>().join(" || ")
    }
}

impl HashedField {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// Returns the 64-bit FNV-1a hash.
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
    let whole = syntax::parse(text).map_err(|why| format!("CEL parse error: {why}"))?;
    let mut parts = Vec::new();
    // Visits the operands in order: the left side of an `||` before the right one.
    let mut waiting = vec![&whole];
    while let Some(expression) = waiting.pop() {
        match expression {
            Expression::Call(name, sides) if name == "_||_" => waiting.extend(sides.iter().rev()),
            Expression::Call(name, arguments) if name == "shardRange" => {
                parts.push(shard_range(arguments)?);
            }
            Expression::Call(name, _) => {
                return Err(format!(
                    "unsupported function {}; only shardRange() and || are allowed",
                    go::quote(name)
                ));
            }
            other => {
                return Err(format!(
                    "unexpected expression kind {}; expected shardRange() call or || operator",
                    other.kind()
                ));
            }
        }
    }
    // An expression has at least one range.
    let field = parts.first().map_or(HashedField::Uid, |(field, _)| *field);
    if let Some((other, _)) = parts.iter().find(|(other, _)| *other != field) {
        return Err(format!(
            "all shard ranges must use the same field, got {} and {}",
            go::quote(field.path()),
            go::quote(other.path())
        ));
    }
    let ranges = parts.into_iter().map(|(_, range)| range).collect();
    Ok(ShardSelector { field, ranges })
}

fn shard_range(arguments: &[Expression]) -> Result<(HashedField, Range), String> {
    let [field, start, end] = arguments else {
        let count = arguments.len();
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {count}"
        ));
    };
    let path = field_path(field).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let field = match path.as_str() {
        "object.metadata.uid" => HashedField::Uid,
        "object.metadata.namespace" => HashedField::Namespace,
        other => {
            return Err(format!(
                "unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace",
                go::quote(other)
            ));
        }
    };
    let (start_text, start) = bound(start, "hexStart")?;
    let (end_text, end) = bound(end, "hexEnd")?;
    match (start, end) {
        (Some(start), end) if end.is_none_or(|end| start < end) => {
            Ok((field, Range { start, end }))
        }
        _ => Err(format!(
            "shard range start {start_text} must be less than end {end_text}"
        )),
    }
}

/// Joins the names of a chain of field selections by dots.
fn field_path(expression: &Expression) -> Result<String, String> {
    let mut names = Vec::new();
    let mut at = expression;
    loop {
        match at {
            Expression::Select(operand, name) => {
                names.push(name.as_str());
                at = operand;
            }
            Expression::Ident(name) => {
                names.push(name);
                names.reverse();
                return Ok(names.join("."));
            }
            other => {
                return Err(format!(
                    "expected field path (e.g. object.metadata.uid), got expression kind {}",
                    other.kind()
                ));
            }
        }
    }
}

/// Returns a bound as written and as a number; `None` stands for 2^64.
fn bound<'a>(expression: &'a Expression, name: &str) -> Result<(&'a str, Option<u64>), String> {
    let Expression::Literal(literal) = expression else {
        return Err(format!(
            "{name} must be a string literal (e.g. '0xff'), got expression kind {}",
            expression.kind()
        ));
    };
    let Literal::String(text) = literal else {
        let kind = literal.go_type();
        return Err(format!("{name} must be a string literal, got {kind}"));
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!(
            "{name} must have '0x' prefix, got {}",
            go::quote(text)
        ));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > 17 {
        return Err(format!(
            "{name}: hex value too long ({} chars, max 17): {}",
            digits.len(),
            go::quote(digits)
        ));
    }
    if let Some(bad) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!(
            "{name}: invalid hex character {} in {}",
            go::quote(&bad.to_string()),
            go::quote(text)
        ));
    }
    if digits.len() == 17 {
        if text != BEYOND {
            return Err(format!(
                "{name}: 17-digit hex value must be '{BEYOND}' (2^64), got {}",
                go::quote(text)
            ));
        }
        return Ok((text, None));
    }
    if digits.len() != 16 {
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {} (did you mean \"0x{digits:0>16}\"?)",
            go::quote(text)
        ));
    }
    Ok((text, u64::from_str_radix(digits, 16).ok()))
}

#[cfg(test)]
mod tests;
