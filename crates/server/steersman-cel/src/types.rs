//! Words: the types of CEL expressions, and `Decl`, the declaration of a value by a schema.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::structural::{Additional, Structural};

/// The largest request, in bytes, that cost estimates assume. It limits the sizes of values without a declared maximum.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The size that cost estimates assume for a value without a known maximum.
const UNBOUNDED: u64 = i64::MAX as u64;

/// The keywords of the CEL grammar. A field with such a name is escaped: `__in__`.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// The other words that the CEL grammar reserves. A variable cannot have such a name, and a field is escaped.
const RESERVED_WORDS: [&str; 17] = [
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
];

/// A type of CEL values, as the type checker knows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// `dyn`: any value, of a type that is known only at run time.
    Dyn,
    /// The type of an expression with an error. It fits everywhere, so that each error is reported once.
    Error,
    /// The type of `null`.
    Null,
    /// The type `bool`.
    Bool,
    /// The type `int`, of signed 64-bit integers.
    Int,
    /// The type `uint`, of unsigned 64-bit integers.
    Uint,
    /// The type `double`, of 64-bit floating-point numbers.
    Double,
    /// The type `string`.
    String,
    /// The type `bytes`.
    Bytes,
    /// The type `google.protobuf.Duration`.
    Duration,
    /// The type `google.protobuf.Timestamp`.
    Timestamp,
    /// A list: the type of its items.
    List(Arc<Self>),
    /// A map: the types of its keys and of its values.
    Map(Arc<(Self, Self)>),
    /// An optional that may hold a value of this type (`optional_type`).
    Optional(Arc<Self>),
    /// The type of a type that is used as a value, such as `int` in `type(x) == int`.
    Of(Arc<Self>),
    /// An object with the fields that a schema declares.
    Object(Arc<ObjectType>),
    /// A type without fields that only functions can read, by its name in Kubernetes, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type variable, by its number: a type that the checker does not know yet.
    Param(usize),
}

/// An object type: the declared fields of an object, by the names that expressions use.
#[derive(Debug)]
pub struct ObjectType {
    name: String,
    /// The declared fields, by their names in expressions.
    pub fields: BTreeMap<String, ObjectField>,
    /// Whether an object may also have undeclared fields, of any type.
    open: bool,
}

/// A declared field of an object type.
#[derive(Debug, Clone)]
pub struct ObjectField {
    /// The name of the field in JSON; its name in expressions may be escaped.
    pub json: String,
    /// What the schema says about the field's value.
    pub decl: Arc<Decl>,
}

/// What a schema says about a value: its type and its limits.
#[derive(Debug, Clone)]
pub struct Decl {
    /// The type of the value in expressions.
    pub kind: Type,
    /// The maximum number of characters, items or fields of the value. It is 0 for an object with declared fields,
    /// because cost estimates ignore the size of such objects.
    pub most: u64,
    /// The minimum length of the value as JSON, in bytes, which limits the number of such values in a request.
    pub least_bytes: u64,
    /// The declaration of a list's items or of a map's values; `None` for other values.
    pub items: Option<Arc<Self>>,
    /// How a list's items are identified (`x-kubernetes-list-type`); empty if the schema does not say.
    pub list_type: String,
    /// The key fields of the items in a list of type `map` (`x-kubernetes-list-map-keys`).
    pub keys: Vec<String>,
    /// Whether the schema allows `null` for the value (`nullable`).
    pub nullable: bool,
}

impl ObjectField {
    fn of(json: &str, decl: Decl) -> Self {
        let (json, decl) = (json.to_owned(), Arc::new(decl));
        Self { json, decl }
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl ObjectType {
    /// Returns the type of a field by its name in expressions; `dyn` for an undeclared field that the object may have.
    pub fn field(&self, name: &str) -> Option<Type> {
        let declared = self.field_of(name).map(|field| field.decl.kind.clone());
        declared.or(self.open.then_some(Type::Dyn))
    }

    /// Returns a declared field by its name in expressions, which may also be an unescaped reserved word.
    pub fn field_of(&self, name: &str) -> Option<&ObjectField> {
        let escaped = || {
            let reserved = RESERVED_WORDS.contains(&name);
            self.fields.get(&format!("__{name}__")).filter(|_| reserved)
        };
        self.fields.get(name).or_else(escaped)
    }

    /// Returns a declared field by its name in expressions, or else by its name in JSON.
    pub fn find(&self, name: &str) -> Option<&ObjectField> {
        let escaped = || self.fields.get(&escape(name)?);
        self.fields.get(name).or_else(escaped)
    }

    /// Returns a declared field by its name in JSON.
    pub fn json_field(&self, json: &str) -> Option<&ObjectField> {
        let field = self.fields.get(&escape(json)?);
        field.filter(|field| field.json == json)
    }
}

impl Type {
    /// Returns the type of a list with items of the type `items`.
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns an object type without declared fields that allows any field.
    pub fn open(name: &str) -> Self {
        Self::object(name, BTreeMap::new(), true)
    }

    fn object(name: &str, fields: BTreeMap<String, ObjectField>, open: bool) -> Self {
        let name = name.to_owned();
        Self::Object(Arc::new(ObjectType { name, fields, open }))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Returns the type of an object that a mutating policy creates (Kubernetes: `apiserver/pkg/cel/mutation`):
    /// `JSONPatch`, `Object`, or a part such as `Object.spec`; `None` for other names.
    pub fn message(name: &str) -> Option<Self> {
        if name == "JSONPatch" {
            let text = || Decl::of_type(Self::String);
            let fields = [
                ("op", text()),
                ("path", text()),
                ("from", text()),
                ("value", Decl::of_type(Self::Dyn)),
            ];
            return Some(Decl::of_fields(name, fields).kind);
        }
        let object = name == "Object" || name.starts_with("Object.");
        object.then(|| Self::open(name))
    }

    /// Returns the name without item types, such as `list` for `list(int)`; error messages about values print it.
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Of(_) => "type",
            Self::Object(object) => &object.name,
            Self::Opaque(name) => name,
            Self::Param(_) => "type_param",
        }
    }

    /// Returns whether every value of the type `other` is also a value of this type.
    pub fn is_as_general_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), _) => true,
            (_, Self::Dyn | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_as_general_as(b)
            }
            (Self::Map(a), Self::Map(b)) => {
                a.0.is_as_general_as(&b.0) && a.1.is_as_general_as(&b.1)
            }
            (Self::Of(_), Self::Of(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Returns whether cost estimates give a value of the type, such as a number, the size 1 if no schema declares it.
    pub fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::Duration
            | Self::Timestamp => true,
            Self::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }

    /// Returns whether the type has fewer than `left` parts, itself included, and subtracts the number of parts that it
    /// visited from `left`. The checker replaces a larger type by `dyn`, because types can double with each operation.
    pub fn is_below(&self, left: &mut usize) -> bool {
        *left = left.saturating_sub(1);
        *left > 0
            && match self {
                Self::List(of) | Self::Optional(of) | Self::Of(of) => of.is_below(left),
                Self::Map(entry) => entry.0.is_below(left) && entry.1.is_below(left),
                _ => true,
            }
    }

    /// Returns whether `null` may stand where this type is expected.
    pub fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Object(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Opaque(_)
                | Self::Optional(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Of(of) => write!(f, "type({of})"),
            Self::Param(number) => write!(f, "_var{number}"),
            other => f.write_str(other.name()),
        }
    }
}

/// Returns a JSON field's name in expressions, such as `a__dash__b` for `a-b`; `None` if it cannot be named.
pub(crate) fn escape(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) || RESERVED_WORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.next_if_eq(&'_').is_some() => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            '_' => out.push('_'),
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

impl Decl {
    fn simple(kind: Type, most: u64, least_bytes: u64) -> Self {
        Self {
            kind,
            most,
            least_bytes,
            items: None,
            list_type: String::new(),
            keys: Vec::new(),
            nullable: false,
        }
    }

    /// Returns the declaration of a value of a type, without a maximum size.
    pub fn of_type(kind: Type) -> Self {
        Self::simple(kind, UNBOUNDED, 1)
    }

    /// Returns the declaration of an object that the server creates, such as `request`; its field names need no escape.
    pub fn of_fields<'f>(name: &str, fields: impl IntoIterator<Item = (&'f str, Self)>) -> Self {
        let field = |(json, decl): (&str, Self)| (json.to_owned(), ObjectField::of(json, decl));
        let fields = fields.into_iter().map(field).collect();
        Self::simple(Type::object(name, fields, false), 0, 2)
    }

    /// Returns the declaration of a list or map of the type `kind`; `items` declares the items or the map's values.
    pub fn of_items(kind: Type, items: Self) -> Self {
        Self {
            items: Some(Arc::new(items)),
            ..Self::of_type(kind)
        }
    }

    /// Returns the declaration of the field `name` (in JSON). If expressions cannot name the field, only its own rules
    /// see its value, and the declaration is made from the field's schema, which `schema` returns.
    pub fn property<S: Borrow<Structural>>(
        &self,
        name: &str,
        schema: impl FnOnce() -> S,
    ) -> Option<Arc<Self>> {
        match (&self.kind, escape(name)) {
            (Type::Object(object), Some(name)) => {
                let field = object.fields.get(&name)?;
                Some(Arc::clone(&field.decl))
            }
            (_, None) => {
                let schema = schema();
                let schema: &Structural = schema.borrow();
                Self::of(schema, schema.embedded, "selfType").map(Arc::new)
            }
            _ => None,
        }
    }

    /// Returns the declaration of a map's key. Its maximum length is 0, because Kubernetes ignores the length of keys
    /// in cost estimates.
    pub fn key() -> Self {
        Self::simple(Type::String, 0, 2)
    }

    /// Returns the declaration of a value with this schema, and names its type `name`; `None` if rules cannot use the
    /// value. `root` is true for a whole resource, which has a type even if the schema has none.
    ///
    /// The sizes are those of Kubernetes (`apiserver/pkg/cel/common/schemas.go`).
    pub fn of(schema: &Structural, root: bool, name: &str) -> Option<Self> {
        let mut decl = Self::bare(schema, root, name)?;
        decl.nullable = schema.nullable;
        Some(decl)
    }

    fn bare(schema: &Structural, root: bool, name: &str) -> Option<Self> {
        let length = schema.rules.length.1;
        if schema.int_or_string {
            let most = length.map_or(MAX_REQUEST - 2, |most| most.saturating_mul(4));
            return Some(Self::simple(Type::Dyn, most, 1));
        }
        match &*schema.kind {
            "array" => {
                let items = schema.items.as_ref()?;
                let items = Self::of(items, items.embedded, &format!("{name}.@idx"))?;
                let fits = (MAX_REQUEST - 2) / (items.least_bytes + 1);
                let most = schema.rules.items.1.unwrap_or(fits);
                Some(Self {
                    list_type: schema.rules.list_type.clone(),
                    keys: schema.rules.list_map_keys.clone(),
                    items: Some(Arc::new(items.clone())),
                    ..Self::simple(Type::list(items.kind), most, 2)
                })
            }
            "object" => match &schema.additional {
                Additional::Schema(values) => {
                    let values = Self::of(values, values.embedded, &format!("{name}.@elem"))?;
                    let fits = (MAX_REQUEST - 2) / (values.least_bytes + 6);
                    let most = schema.rules.properties.1.unwrap_or(fits);
                    let kind = Type::map(Type::String, values.kind.clone());
                    Some(Self {
                        items: Some(Arc::new(values)),
                        ..Self::simple(kind, most, 2)
                    })
                }
                Additional::Any | Additional::None => Some(Self::object(schema, root, name)),
            },
            "string" => Some(Self::text(schema, length)),
            "boolean" => Some(Self::simple(Type::Bool, 0, 4)),
            "number" => Some(Self::simple(Type::Double, 0, 1)),
            "integer" => Some(Self::simple(Type::Int, 0, 1)),
            _ => None,
        }
    }

    fn text(schema: &Structural, length: Option<u64>) -> Self {
        match &*schema.format {
            "byte" => Self::simple(Type::Bytes, length.unwrap_or(MAX_REQUEST - 2), 2),
            "duration" => Self::simple(Type::Duration, 32, 3),
            "date" => Self::simple(Type::Timestamp, 12, 12),
            "date-time" => Self::simple(Type::Timestamp, 32, 21),
            _ => {
                let named = schema.rules.allowed.iter().filter_map(|one| one.as_str());
                let longest = named.map(|one| one.len() as u64).max();
                let most = match length {
                    Some(most) => most.saturating_mul(4),
                    None if schema.rules.allowed.is_empty() => MAX_REQUEST - 2,
                    None => longest.unwrap_or_default(),
                };
                Self::simple(Type::String, most, 2)
            }
        }
    }

    fn object(schema: &Structural, root: bool, name: &str) -> Self {
        let mut fields = BTreeMap::new();
        let mut least = 2;
        for (json, sub) in schema.properties.iter() {
            let Some(decl) = Self::of(sub, sub.embedded, &format!("{name}.{json}")) else {
                continue;
            };
            if sub.default.is_none() && schema.rules.required.iter().any(|name| name == json) {
                least += json.len() as u64 + decl.least_bytes + 4;
            }
            add(&mut fields, json, decl);
        }
        if root {
            let text = || Self::simple(Type::String, MAX_REQUEST - 2, 2);
            let mut named = BTreeMap::new();
            for field in ["name", "generateName"] {
                add(&mut named, field, text());
            }
            let metadata = Type::object(&format!("{name}.metadata"), named, false);
            let metadata = Self::simple(metadata, 0, 2);
            add(&mut fields, "metadata", metadata);
            for field in ["apiVersion", "kind"] {
                add(&mut fields, field, text());
            }
        }
        Self::simple(Type::object(name, fields, false), 0, least)
    }
}

fn add(fields: &mut BTreeMap<String, ObjectField>, json: &str, decl: Decl) {
    if let Some(escaped) = escape(json) {
        fields.insert(escaped, ObjectField::of(json, decl));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_as_expressions_write_them() {
        for (name, escaped) in [
            ("plain", Some("plain")),
            ("my_field", Some("my_field")),
            ("a__b", Some("a__underscores__b")),
            ("foo-bar", Some("foo__dash__bar")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("namespace", Some("__namespace__")),
            ("9lives", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }

    #[test]
    fn a_schema_declares_types_and_sizes() {
        let schema = Structural::compile(&json!({"type": "object", "required": ["s"],
        "properties": {
            "s": {"type": "string", "maxLength": 5}, "e": {"enum": ["ab", "c"], "type": "string"},
            "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": {"type": "number"}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "either": {"x-kubernetes-int-or-string": true},
        }}));
        let decl = Decl::of(&schema, true, "self").unwrap();
        assert_eq!(decl.least_bytes, 2 + 1 + 2 + 4);
        let Type::Object(object) = &decl.kind else {
            panic!("no object: {decl:?}");
        };
        let fields: Vec<String> = object
            .fields
            .iter()
            .map(|(name, field)| format!("{name} {} {}", field.decl.kind, field.decl.most))
            .collect();
        let free = MAX_REQUEST - 2;
        assert_eq!(
            fields,
            [
                format!("apiVersion string {free}"),
                "e string 2".to_owned(),
                format!("either dyn {free}"),
                format!("kind string {free}"),
                format!("l list(int) {}", free / 2),
                format!("m map(string, double) {}", free / 7),
                "metadata self.metadata 0".to_owned(),
                "s string 20".to_owned(),
            ]
        );
    }
}
