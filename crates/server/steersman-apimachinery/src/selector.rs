//! Machine: parses label and field selectors with kube-apiserver's messages, matches objects, and writes selectors.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names::{check_key, check_label_value};
use crate::status::Status;

/// A parsed `labelSelector`, which matches objects that meet every requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

/// A parsed `fieldSelector`, which matches objects that meet every term.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTerm>);

/// One term of a field selector: a field label is compared with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTerm {
    /// The label of the field, for instance `metadata.name`.
    pub label: String,
    /// The value that the field is compared with.
    pub value: String,
    /// Whether field and value must be equal (`=` or `==`) or differ (`!=`).
    pub equal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Parses the text of a label selector.
    ///
    /// # Errors
    /// Fails with 400 and the message of kube-apiserver's parser.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = SelectorParser {
            tokens: lex(text),
            at: 0,
        };
        parser.requirements().map(Self).map_err(Status::bad_request)
    }

    /// Returns whether the selector is empty and so matches every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an object with these `metadata.labels` matches.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.matches_labels(|key| labels[key].as_str())
    }

    /// Returns whether an object matches; `label` returns the object's label with a key.
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(requirement.key.as_str());
            match &requirement.test {
                Test::In(values) => value.is_some_and(|v| values.iter().any(|one| one == v)),
                Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|one| one != v)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Above(n) => number(value).is_some_and(|v| v > *n),
                Test::Below(n) => number(value).is_some_and(|v| v < *n),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

struct SelectorParser<'a> {
    /// The words and signs of the selector's text.
    tokens: Vec<&'a str>,
    at: usize,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// The signs of a label selector; of two signs with the same start, the longer one is first.
const SIGNS: [&str; 9] = ["==", "!=", "!", "=", ",", "(", ")", ">", "<"];

fn is_word(token: &str) -> bool {
    !token.is_empty() && !SIGNS.contains(&token)
}

fn refuse<T>(token: &str, expected: &str) -> Result<T, String> {
    Err(format!("found '{token}', expected: {expected}"))
}

impl<'a> SelectorParser<'a> {
    /// Returns the next token; empty at the end.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let begins = |token: &str| token == "!" || is_word(token);
        let mut out = Vec::new();
        match self.peek() {
            "" => return Ok(out),
            first if begins(first) => {}
            other => return refuse(other, "!, identifier, or 'end of string'"),
        }
        loop {
            let one = self.requirement();
            out.push(one.map_err(|e| format!("unable to parse requirement: {e}"))?);
            match self.take() {
                "" => return Ok(out),
                "," if begins(self.peek()) => {}
                "," => return refuse(self.peek(), "identifier after ','"),
                other => return refuse(other, "',' or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == "!";
        self.at += usize::from(absent);
        let key = self.take();
        if !is_word(key) {
            return refuse(key, "identifier");
        }
        let wrong = check_key(key);
        if !wrong.is_empty() {
            return Err(invalid("<nil>", key, &wrong.join("; ")));
        }
        let test = if absent {
            Test::Absent
        } else if matches!(self.peek(), "" | ",") {
            Test::Exists
        } else {
            self.comparison(key)?
        };
        let key = key.to_owned();
        Ok(Requirement { key, test })
    }

    /// Parses the operator of a requirement and its values.
    fn comparison(&mut self, key: &str) -> Result<Test, String> {
        let (test, values) = match self.take() {
            "in" => (Test::In as fn(Vec<String>) -> Test, self.values()?),
            "notin" => (Test::NotIn as _, self.values()?),
            "=" | "==" => (Test::In as _, vec![self.value()?]),
            "!=" => (Test::NotIn as _, vec![self.value()?]),
            ">" => return Ok(Test::Above(self.number(key)?)),
            "<" => return Ok(Test::Below(self.number(key)?)),
            other => return refuse(other, OPERATORS),
        };
        complain(&misfits(key, &values))?;
        Ok(test(values))
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value()?;
        let number = value.parse();
        let mut wrong = Vec::new();
        if number.is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            wrong.push(invalid("values[0]", &value, why));
        }
        wrong.extend(misfits(key, std::slice::from_ref(&value)));
        complain(&wrong)?;
        Ok(number.unwrap_or_default())
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_word(word) => Ok(self.take().to_owned()),
            other => refuse(other, "identifier"),
        }
    }

    /// Parses the sorted values in parentheses. A text between two commas may be empty.
    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.take() {
            "(" => {}
            other => return Err(format!("found '{other}' expected: '('")),
        }
        match self.peek() {
            ")" => {
                self.at += 1;
                return Ok(vec![String::new()]);
            }
            first if first == "," || is_word(first) => {}
            other => return refuse(other, "',', ')' or identifier"),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                "," => {
                    if values.is_empty() || matches!(self.peek(), "," | ")") {
                        values.insert(String::new());
                    }
                }
                word if is_word(word) => {
                    values.insert(word.to_owned());
                    if !matches!(self.peek(), "," | ")") {
                        return refuse(self.peek(), "',' or ')'");
                    }
                }
                other => return refuse(other, "',', or identifier"),
            }
            if self.peek() == ")" {
                self.at += 1;
                return Ok(values.into_iter().collect());
            }
        }
    }
}

fn misfits(key: &str, values: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let wrong = check_label_value(value);
        if !wrong.is_empty() {
            let path = format!("values[{index}][{key}]");
            found.push(invalid(&path, value, &wrong.join("; ")));
        }
    }
    found
}

fn invalid(path: &str, value: &str, why: &str) -> String {
    let value = Value::String(value.to_owned());
    format!("{path}: Invalid value: {value}: {why}")
}

/// Fails with the messages: a single message as it is, several in brackets.
fn complain(wrong: &[String]) -> Result<(), String> {
    match wrong {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn lex(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let end = match sign {
            Some(sign) => Some(sign.len()),
            None => rest.find(|c: char| c.is_whitespace() || "!=,()<>".contains(c)),
        };
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

impl FieldSelector {
    /// Parses the text of a field selector. The valid field labels depend on the resource, so the caller checks them.
    ///
    /// # Errors
    /// Fails with 400 for a term without a comparison.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        let mut parts = split_terms(text);
        parts.sort();
        for term in parts {
            if term.is_empty() {
                continue;
            }
            let signs = ["!=", "==", "="].into_iter();
            let found = signs.filter_map(|sign| Some((term.find(sign)?, sign)));
            // Of two signs at one position, the longer one counts.
            let first = found.min_by_key(|(at, sign)| (*at, usize::MAX - sign.len()));
            let Some((at, sign)) = first else {
                return Err(Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            terms.push(FieldTerm {
                label: term[..at].to_owned(),
                value: unescape(&term[at + sign.len()..]).map_err(Status::bad_request)?,
                equal: sign != "!=",
            });
        }
        Ok(Self(terms))
    }

    /// Returns whether the selector is empty and so matches every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the terms of the selector, in the order of its text.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.0
    }

    /// Returns whether an object matches; `field` returns the value of the object's field with a label.
    pub fn matches<'a>(&self, mut field: impl FnMut(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.0
            .iter()
            .all(|term| (field(&term.label) == term.value) == term.equal)
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms
}

/// Removes the escapes from a value. Commas, equal signs and backslashes must be escaped.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
            },
            ',' | '=' => {
                // Go prints the character as its number.
                let number = u32::from(c);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {number}"
                ));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Returns a selector as text: from a LabelSelector, from a map of labels, or from text. The terms are sorted by key.
pub fn selector_text(selector: &Value) -> String {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if plain {
        selector
    } else {
        &selector["matchLabels"]
    };
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value))));
    let mut terms: Vec<(&str, String)> = labels.collect();
    let expressions = selector["matchExpressions"].as_array();
    for one in expressions.into_iter().flatten() {
        let key = text(&one["key"]);
        let values = one["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(&one["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort();
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

#[cfg(test)]
mod tests;
