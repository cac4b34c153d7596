//! Words: one element of a field path, as managedFields and conflict messages name it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use steersman_apimachinery::go;

/// One step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// The member of an object with this name.
    Field(String),
    /// The element of a list of type `map` with these values of the key fields, which are sorted by name.
    Key(Vec<(String, Atom)>),
    /// The element of a list of type `set` with this value.
    Value(Atom),
    /// The element of a list at this index.
    Index(u64),
}

/// A JSON value with a total order, so that it can be part of a path.
#[derive(Debug, Clone)]
pub struct Atom(pub Value);

impl PathElement {
    /// Creates the path element of an object's member.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => {
                    let float = |n: &serde_json::Number| n.as_f64().unwrap_or_default();
                    float(left).total_cmp(&float(right))
                }
            },
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (left, right) => rank(left)
                .cmp(&rank(right))
                .then_with(|| left.to_string().cmp(&right.to_string())),
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(&go::quote(text)),
            other => write!(f, "{other}"),
        }
    }
}

/// Prints the element as conflict messages do: `.spec`, `[name="a"]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}
