//! Machine: the JSONPath of printer columns, compiled once and evaluated without panics.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// A compiled path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Wildcard,
    Descend(String),
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    path: JsonPath,
    test: Option<(Comparison, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Maximum nesting of filters.
const MOST_NESTED: usize = 8;

impl JsonPath {
    /// Compiles a path with or without braces around it. `None` for an invalid or unsupported path.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(text);
        Self::parse_nested(text, 0)
    }

    fn parse_nested(text: &str, depth: usize) -> Option<Self> {
        if depth > MOST_NESTED {
            return None;
        }
        let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
        let mut segments = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("..") {
                let (name, after) = take_name(after)?;
                segments.push(Segment::Descend(name));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('.') {
                if let Some(after) = after.strip_prefix('*') {
                    segments.push(Segment::Wildcard);
                    rest = after;
                } else if after.is_empty() || after.starts_with('[') {
                    rest = after;
                } else {
                    let (name, after) = take_name(after)?;
                    segments.push(Segment::Field(name));
                    rest = after;
                }
            } else if let Some(after) = rest.strip_prefix('[') {
                let close = closing_bracket(after)?;
                segments.push(parse_bracket(after[..close].trim(), depth)?);
                rest = &after[close + 1..];
            } else {
                let (name, after) = take_name(rest)?;
                segments.push(Segment::Field(name));
                rest = after;
            }
        }
        Some(Self { segments })
    }

    /// Returns every value that the path selects, in document order.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for segment in &self.segments {
            let mut next = Vec::new();
            for value in found {
                segment.apply(value, &mut next);
            }
            found = next;
        }
        found
    }
}

impl Segment {
    fn apply<'a>(&self, value: &'a Value, out: &mut Vec<&'a Value>) {
        match self {
            Self::Field(name) => out.extend(value.get(name)),
            Self::Index(index) => {
                if let Value::Array(items) = value {
                    out.extend(position(*index, items.len()).and_then(|at| items.get(at)));
                }
            }
            Self::Slice(from, to) => {
                if let Value::Array(items) = value {
                    let start = bound(from.unwrap_or(0), items.len());
                    let end = to.map_or(items.len(), |to| bound(to, items.len()));
                    out.extend(items.get(start..end).unwrap_or_default());
                }
            }
            Self::Wildcard => out.extend(children(value)),
            Self::Descend(name) => descend(value, name, out),
            Self::Filter(filter) => {
                out.extend(children(value).filter(|child| filter.holds(child)));
            }
        }
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let found = self.path.find(item);
        let Some((comparison, wanted)) = &self.test else {
            return !found.is_empty();
        };
        match found.first() {
            Some(value) => comparison.holds(value, wanted),
            None => false,
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        if let (Some(left), Some(right)) = (left.as_f64(), right.as_f64()) {
            let ordering = left.partial_cmp(&right);
            return ordering.is_some_and(|ordering| self.accepts(ordering));
        }
        if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
            return self.accepts(left.cmp(right));
        }
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => false,
        }
    }

    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(Map::values))
}

fn descend<'a>(value: &'a Value, name: &str, out: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, name, out)),
        Value::Object(fields) => {
            for (key, field) in fields {
                if key == name {
                    out.push(field);
                }
                descend(field, name, out);
            }
        }
        _ => {}
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    if index < 0 {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    } else {
        usize::try_from(index).ok()
    }
}

fn bound(index: i64, length: usize) -> usize {
    position(index, length).unwrap_or(0).min(length)
}

/// Splits off a field name up to a dot or bracket; a backslash escapes a character.
fn take_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    (!name.is_empty()).then(|| (name, &text[end..]))
}

/// Returns the index of the bracket that closes an open one, skipping quotes and inner brackets.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if character == open {
                quote = None;
            }
            continue;
        }
        match character {
            '\'' | '"' => quote = Some(character),
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parse_bracket(text: &str, depth: usize) -> Option<Segment> {
    if text == "*" {
        return Some(Segment::Wildcard);
    }
    if let Some(inner) = text.strip_prefix('?') {
        let inner = inner.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
        return Some(Segment::Filter(Box::new(parse_filter(inner, depth + 1)?)));
    }
    if let Some(Value::String(name)) = parse_literal(text) {
        return Some(Segment::Field(name));
    }
    if let Some((from, to)) = text.split_once(':') {
        return Some(Segment::Slice(optional_number(from)?, optional_number(to)?));
    }
    text.parse().ok().map(Segment::Index)
}

fn optional_number(text: &str) -> Option<Option<i64>> {
    let text = text.trim();
    if text.is_empty() {
        Some(None)
    } else {
        text.parse().ok().map(Some)
    }
}

fn parse_filter(text: &str, depth: usize) -> Option<Filter> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let first = OPERATORS
        .iter()
        .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
        .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let Some((at, sign, comparison)) = first else {
        return Some(Filter {
            path: JsonPath::parse_nested(text, depth)?,
            test: None,
        });
    };
    let path = JsonPath::parse_nested(text[..at].trim(), depth)?;
    let wanted = parse_literal(text[at + sign.len()..].trim())?;
    Some(Filter {
        path,
        test: Some((comparison, wanted)),
    })
}

/// Parses a quoted text, a number, `true` or `false`.
fn parse_literal(text: &str) -> Option<Value> {
    for quote in ['\'', '"'] {
        let inner = text
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            let mut out = String::new();
            let mut characters = inner.chars();
            while let Some(character) = characters.next() {
                out.push(if character == '\\' {
                    characters.next()?
                } else {
                    character
                });
            }
            return Some(Value::String(out));
        }
    }
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number if number.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            // A bare number is a literal in a filter; inside a bracket the caller expects an index.
            serde_json::from_str::<serde_json::Number>(number)
                .ok()
                .map(Value::Number)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, root: &Value) -> Vec<Value> {
        JsonPath::parse(path)
            .unwrap_or_else(|| panic!("{path}"))
            .find(root)
            .into_iter()
            .cloned()
            .collect()
    }

    #[test]
    fn paths_of_printer_columns() {
        let object = json!({
            "spec": {"n": 3, "list": ["a", "b", "c"], "dotted.key": {"x": 1}},
            "status": {"conditions": [
                {"type": "Synced", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        assert_eq!(find(".spec.n", &object), [json!(3)]);
        assert_eq!(find("{.spec.n}", &object), [json!(3)]);
        assert_eq!(find("$.spec.list[0]", &object), [json!("a")]);
        assert_eq!(find(".spec.list[-1]", &object), [json!("c")]);
        assert_eq!(find(".spec.list[-9]", &object), Vec::<Value>::new());
        assert_eq!(find(".spec.list[0:2]", &object), [json!("a"), json!("b")]);
        assert_eq!(find(".spec.list[*]", &object).len(), 3);
        assert_eq!(find(r".spec.dotted\.key.x", &object), [json!(1)]);
        assert_eq!(find(".spec['dotted.key'].x", &object), [json!(1)]);
        let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(find(ready, &object), [json!("True")]);
        assert_eq!(
            find(".status.conditions[?(@.type=='Ready')].status", &object),
            [json!("True")]
        );
        assert_eq!(
            find(".status.conditions[?(@.n>=2)].type", &object),
            [json!("Ready")]
        );
        assert_eq!(
            find(".status.conditions[?(@.type!='Ready')].type", &object),
            [json!("Synced")]
        );
        assert_eq!(
            find(".status.conditions[?(@.absent)].type", &object),
            Vec::<Value>::new()
        );
        assert_eq!(find("..type", &object).len(), 2);
        assert_eq!(find(".missing.way[3].down", &object), Vec::<Value>::new());
    }

    #[test]
    fn an_invalid_jsonpath_is_refused_without_a_panic() {
        let deep = "[?(".repeat(200);
        for path in [
            ".a[", ".a[?(", ".a[?(@.b==)]", ".a[x]", "..", r".a\", "[?(@.a=='x]", &deep,
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
