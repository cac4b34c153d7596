//! Words: the keywords of a schema that restrict values.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde_json::Value;
use steersman_apimachinery::patterns;

use super::SchemaNode;

/// The keywords of one schema node that restrict values, such as `required` and `maximum`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Keywords {
    /// The names of the fields that must be present (`required`).
    pub required: Vec<String>,
    /// The values that are allowed (`enum`); empty allows every value.
    pub allowed: Vec<Value>,
    /// The lower bound of a number (`minimum`), with `true` if the bound itself is not allowed.
    pub minimum: Option<(Bound, bool)>,
    /// The upper bound of a number (`maximum`), with `true` if the bound itself is not allowed.
    pub maximum: Option<(Bound, bool)>,
    /// The number that divides every valid value (`multipleOf`).
    pub multiple_of: Option<Bound>,
    /// The limits of a string's length, in characters (`minLength` and `maxLength`); `None` is no limit.
    pub length: (Option<u64>, Option<u64>),
    /// The limits of the number of items of a list (`minItems` and `maxItems`); `None` is no limit.
    pub items: (Option<u64>, Option<u64>),
    /// The limits of the number of fields of an object (`minProperties` and `maxProperties`); `None` is no limit.
    pub properties: (Option<u64>, Option<u64>),
    /// The regular expression that a string must match (`pattern`).
    pub pattern: Option<Pattern>,
    /// How a list's items are identified (`x-kubernetes-list-type`): `atomic`, `set` or `map`; empty if absent.
    pub list_type: String,
    /// The fields that identify an item of a list of type `map` (`x-kubernetes-list-map-keys`).
    pub list_map_keys: Vec<String>,
    /// How fields of a map are merged (`x-kubernetes-map-type`): `granular` or `atomic`; empty if absent.
    pub map_type: String,
    /// The schemas that a value must all match (`allOf`).
    pub all_of: Vec<SchemaNode>,
    /// The schemas of which a value must match at least one (`anyOf`).
    pub any_of: Vec<SchemaNode>,
    /// The schemas of which a value must match exactly one (`oneOf`).
    pub one_of: Vec<SchemaNode>,
    /// The schema that a value must not match (`not`).
    pub not: Option<SchemaNode>,
    /// The validation rules in CEL (`x-kubernetes-validations`), not compiled.
    pub validations: Vec<Value>,
}

/// The restricting keywords of a schema node. Most nodes have none; then no memory is allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Restrictions(Option<Box<Keywords>>);

/// A number in a schema. Two numbers are equal if their bits are equal, so that schemas can be compared and hashed.
#[derive(Debug, Clone, Copy)]
pub struct Bound(pub f64);

/// The regular expression of the keyword `pattern`, compiled at its first use.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Option<Box<Regex>>>,
}

impl Keywords {
    pub(super) fn compile(schema: &Value, node: &mut dyn FnMut(&Value) -> SchemaNode) -> Self {
        let strings = |name: &str| -> Vec<String> {
            let listed = schema[name].as_array().into_iter().flatten();
            listed
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        let text = |name: &str| schema[name].as_str().unwrap_or_default().to_owned();
        let mut schemas = |name: &str| -> Vec<SchemaNode> {
            let listed = schema[name].as_array().into_iter().flatten();
            listed.map(&mut *node).collect()
        };
        let bound = |name: &str, exclusive: &str| {
            let exclusive = schema[exclusive].as_bool().unwrap_or_default();
            schema[name].as_f64().map(|bound| (Bound(bound), exclusive))
        };
        let values = |name: &str| schema[name].as_array().cloned().unwrap_or_default();
        let range = |least: &str, most: &str| (schema[least].as_u64(), schema[most].as_u64());
        Self {
            required: strings("required"),
            allowed: values("enum"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64().map(Bound),
            length: range("minLength", "maxLength"),
            items: range("minItems", "maxItems"),
            properties: range("minProperties", "maxProperties"),
            pattern: schema["pattern"].as_str().map(Pattern::new),
            list_type: text("x-kubernetes-list-type"),
            list_map_keys: strings("x-kubernetes-list-map-keys"),
            map_type: text("x-kubernetes-map-type"),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: schema.get("not").map(node),
            validations: values("x-kubernetes-validations"),
        }
    }
}

impl From<Keywords> for Restrictions {
    fn from(keywords: Keywords) -> Self {
        Self((keywords != Keywords::default()).then(|| Box::new(keywords)))
    }
}

impl Deref for Restrictions {
    type Target = Keywords;

    fn deref(&self) -> &Keywords {
        static NONE: LazyLock<Keywords> = LazyLock::new(Keywords::default);
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Bound {}

impl Hash for Bound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Pattern {
    fn new(source: &str) -> Self {
        let (source, compiled) = (source.into(), OnceLock::new());
        Self { source, compiled }
    }

    /// Returns the source of the regular expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether a text matches the pattern. A pattern that does not compile matches every text, but a CRD with
    /// such a pattern is refused (CEL-3).
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| {
            let compiled = patterns::compile(&self.source, patterns::MOST_COMPILED);
            compiled.ok().map(Box::new)
        });
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}
