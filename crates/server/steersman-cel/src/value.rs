//! Words: the values of expressions. A value that is read from an object borrows the JSON of the object.

pub(crate) mod times;
mod address_errors;
pub(crate) mod addresses;
pub(crate) mod semver;
pub(crate) mod named_formats;
pub(crate) mod printing;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use steersman_apimachinery::go;
use steersman_apimachinery::quantity::Quantity;

use crate::authorizer::{self, AccessDecision, Query};
use crate::types::{Decl, Type};
use addresses::{Cidr, Url};
use named_formats::NamedFormat;
use semver::Semver;

/// A value in an expression: read from an object, or created by the expression.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// A `null` in an expression, or in JSON where the schema allows null or declares no type.
    Null,
    /// A boolean (`bool`).
    Bool(bool),
    /// A signed 64-bit integer (`int`).
    Int(i64),
    /// An unsigned 64-bit integer (`uint`).
    Uint(u64),
    /// A 64-bit floating-point number (`double`).
    Double(f64),
    /// A Unicode text (`string`).
    Text(Text<'a>),
    /// A sequence of bytes (`bytes`).
    Bytes(Arc<[u8]>),
    /// A duration (`google.protobuf.Duration`), in nanoseconds.
    Duration(i64),
    /// A point in time (`google.protobuf.Timestamp`).
    Timestamp(Timestamp),
    /// A list that the expression created, such as a literal.
    List(Arc<Vec<Self>>),
    /// A map that the expression created, such as a literal.
    Map(Arc<BTreeMap<MapKey, Self>>),
    /// A list in the JSON of an object, with its declaration if it has one.
    JsonList(&'a [Json], Option<&'a Decl>),
    /// An object or map in the JSON of an object, with its declaration if it has one.
    JsonMap(&'a Map<String, Json>, Option<&'a Decl>),
    /// An optional, with its value; `None` if it is empty.
    Optional(Option<Arc<Self>>),
    /// A type as a value, such as `int`, by its name.
    Type(Arc<str>),
    /// A quantity, such as `500m`.
    Quantity(Quantity),
    /// A URL, from the function `url`.
    Url(Arc<Url>),
    /// An IP address, from the function `ip`.
    Ip(IpAddr),
    /// A network in CIDR notation, such as `10.0.0.0/8`.
    Cidr(Cidr),
    /// A semantic version, from the function `semver`.
    Semver(Arc<Semver>),
    /// A named format, such as `dns1123Label`.
    Named(NamedFormat),
    /// An object of a named type that the expression created, such as `Object.spec{replicas: 3}`.
    Message(Arc<Message<'a>>),
    /// An authorization check that the expression builds, such as `authorizer.group('')`.
    Query(Arc<Query<'a>>),
    /// The answer to an authorization check.
    AccessDecision(Arc<AccessDecision>),
}

/// An object of a named type that the expression created, such as `Object.spec{replicas: 3}`.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The name of the object's type, such as `Object.spec`.
    pub name: String,
    /// The fields that the expression has set, by name.
    pub fields: BTreeMap<String, Value<'a>>,
}

/// A string in an expression: borrowed from an object, or created by the expression.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// A string in the JSON of an object.
    Json(&'a str),
    /// A string that the expression created, such as a literal.
    Made(Arc<str>),
}

/// The key of an entry in a map that the expression created, or of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
pub enum MapKey {
    /// A boolean key (`bool`).
    Bool(bool),
    /// A signed integer key (`int`).
    Int(i64),
    /// A `uint` key that is larger than every `int`. Smaller keys are `Int`, so that `1u` finds the entry of `1`.
    Uint(u64),
    /// A text key (`string`).
    Text(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Json(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl MapKey {
    pub(crate) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::Text(text) => Value::Text(Text::Made(Arc::clone(text))),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns a string value that owns its text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Made(text.into()))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The empty optional.
    pub const NONE: Self = Self::Optional(None);

    /// Converts JSON of an object to a value of the declared type; without a declaration, to one of its JSON type.
    ///
    /// # Errors
    /// Fails with a message for a null that the declaration does not allow, and for a text that does not parse as the
    /// bytes, duration or timestamp that the declaration requires.
    pub fn of(json: &'a Json, decl: Option<&'a Decl>) -> Result<Self, String> {
        let kind = decl.map_or(&Type::Dyn, |decl| &decl.kind);
        Ok(match (json, kind) {
            (Json::Null, Type::Dyn) => Self::Null,
            (Json::Null, _) => {
                if decl.is_some_and(|decl| decl.nullable) {
                    Self::Null
                } else {
                    let why = "invalid data, got null for schema with nullable=false";
                    return Err(why.to_owned());
                }
            }
            (Json::Bool(flag), _) => Self::Bool(*flag),
            (Json::Number(number), Type::Double) => {
                Self::Double(number.as_f64().unwrap_or_default())
            }
            (Json::Number(number), kind) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Self::Int(number),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "stops at the largest number, and has no fraction"
                )]
                (None, Some(float)) if *kind == Type::Int && float.fract() == 0.0 => {
                    Self::Int(float as i64)
                }
                (None, float) => Self::Double(float.unwrap_or_default()),
            },
            (Json::String(text), Type::Bytes) => {
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                Self::Bytes(decoded.map_err(|error| error.to_string())?.into())
            }
            (Json::String(text), Type::Duration) => Self::Duration(go::parse_duration(text)?),
            (Json::String(text), Type::Timestamp) => Self::Timestamp(times::timestamp(text)?),
            (Json::String(text), _) => Self::Text(Text::Json(text)),
            (Json::Array(items), _) => Self::JsonList(items, decl),
            (Json::Object(members), _) => Self::JsonMap(members, decl),
        })
    }

    /// Returns the name of the value's type, which `type(x)` returns and error messages print.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) | Self::JsonList(..) => "list",
            Self::Map(_) | Self::JsonMap(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Named(_) => "kubernetes.NamedFormat",
            Self::Message(message) => &message.name,
            Self::Query(query) => query.kind,
            Self::AccessDecision(_) => authorizer::DECISION,
        }
    }

    /// Returns the name of the value's type in cel-go's source, which some error messages print.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::Text(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            _ => "no such overload",
        }
    }

    /// Returns the size of the value, on which the cost of a call depends: the number of its characters, bytes, items
    /// or fields, and 1 for other values.
    pub fn size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::JsonList(items, _) => items.len(),
            Self::JsonMap(members, _) => members.len(),
            Self::Ip(address) if address.is_ipv4() => 4,
            Self::Ip(_) => 16,
            Self::Cidr(cidr) => usize::from(cidr.length.div_ceil(8)),
            Self::Optional(Some(held)) => return held.size(),
            _ => 1,
        };
        size as u64
    }

    /// Returns whether lists, maps and objects that the expression created nest less than `depth` levels deep in the
    /// value. Values from an object do not count: the parser of requests limits their depth.
    pub fn is_below(&self, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self {
            Self::List(items) => items.iter().all(|item| item.is_below(depth)),
            Self::Map(entries) => entries.values().all(|value| value.is_below(depth)),
            Self::Optional(Some(held)) => held.is_below(depth),
            Self::Message(message) => message.fields.values().all(|field| field.is_below(depth)),
            _ => true,
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::JsonList(..))
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::JsonMap(..))
    }

    /// Returns the item of a list at an index; `None` beyond its end. Fails if the item's JSON does not fit its schema.
    pub fn item(&self, index: usize) -> Option<Result<Self, String>> {
        match self {
            Self::List(items) => items.get(index).cloned().map(Ok),
            Self::JsonList(items, decl) => {
                let decl = decl.and_then(|decl| decl.items.as_deref());
                Some(Self::of(items.get(index)?, decl))
            }
            _ => None,
        }
    }

    /// Returns all items of a list. Fails for another value, and if the JSON of an item does not fit its schema.
    pub(crate) fn items(&self) -> Result<Vec<Self>, String> {
        match self {
            Self::List(items) => Ok((**items).clone()),
            Self::JsonList(..) => (0..).map_while(|index| self.item(index)).collect(),
            _ => Err(format!("no such overload: items of {}", self.type_name())),
        }
    }

    /// Returns the value of a map's key or an object's field, if present. Fails if its JSON does not fit the schema.
    pub fn member(&self, key: &MapKey) -> Option<Result<Self, String>> {
        match self {
            Self::Map(entries) => entries.get(key).cloned().map(Ok),
            Self::JsonMap(members, decl) => {
                let MapKey::Text(name) = key else { return None };
                match decl.map(|decl| &decl.kind) {
                    Some(Type::Object(object)) => {
                        let field = object.find(name)?;
                        // As in Kubernetes, a null in a declared field counts as absent.
                        let found = members.get(&field.json).filter(|one| !one.is_null())?;
                        Some(Self::of(found, Some(&field.decl)))
                    }
                    _ => {
                        let decl = decl.and_then(|decl| decl.items.as_deref());
                        Some(Self::of(members.get(&**name)?, decl))
                    }
                }
            }
            _ => None,
        }
    }

    pub(crate) fn keys(&self) -> Vec<MapKey> {
        let key = |name: &String| MapKey::Text(name.as_str().into());
        match self {
            Self::Map(entries) => entries.keys().cloned().collect(),
            Self::JsonMap(members, decl) => match decl.map(|decl| &decl.kind) {
                Some(Type::Object(object)) => {
                    let fields = object.fields.iter();
                    let fields = fields.filter(|(_, field)| members.contains_key(&field.json));
                    fields.map(|(name, _)| key(name)).collect()
                }
                _ => members.keys().map(key).collect(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the value as the key of a map; `None` if a value of this type cannot be a key. Equal numbers of
    /// different types are the same key: `1`, `1u` and `1.0`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "compared with what it was made from"
    )]
    pub fn key(&self) -> Option<MapKey> {
        Some(match self {
            Self::Bool(flag) => MapKey::Bool(*flag),
            Self::Int(number) => MapKey::Int(*number),
            Self::Uint(number) => i64::try_from(*number).map_or(MapKey::Uint(*number), MapKey::Int),
            Self::Double(number) => {
                let whole = *number as i64;
                if whole as f64 != *number {
                    return None;
                }
                MapKey::Int(whole)
            }
            Self::Text(Text::Made(text)) => MapKey::Text(Arc::clone(text)),
            Self::Text(text) => MapKey::Text((**text).into()),
            _ => return None,
        })
    }

    /// Returns what a loop with one variable visits: a list's items or a map's keys; `None` for other values.
    pub(crate) fn elements(&self) -> Result<Option<Vec<Self>>, String> {
        if self.is_list() {
            self.items().map(Some)
        } else if self.is_map() {
            Ok(Some(self.keys().iter().map(MapKey::value).collect()))
        } else {
            Ok(None)
        }
    }

    /// Compares values of one type, or two numbers. Returns `None` for values without an order, such as lists and NaN.
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers of different types are compared as floats, as upstream does"
    )]
    pub fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) | (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), Self::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Int(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Self::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Uint(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Text(a), Self::Text(b)) => Some((**a).cmp(&**b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Quantity(a), Self::Quantity(b)) => a.partial_cmp(b),
            (Self::Semver(a), Self::Semver(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}
