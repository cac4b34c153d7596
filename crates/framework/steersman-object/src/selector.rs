//! Machine: parses label selectors in the syntax of kubectl, and matches labels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use kube_core::{Expression, Selector, SelectorExt};
use thiserror::Error;

use crate::labels::Labels;

/// A selector by labels.
///
/// Parses the syntax of `kubectl -l` (equality- and set-based, combined with commas):
/// `app=web,tier in (front,edge),!legacy`. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Expression>);

/// A requirement on one label that every selected object meets; see [`LabelSelector::required`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Required<'a> {
    /// The label has any value.
    Key(&'a str),
    /// The label has this value.
    Is(&'a str, &'a str),
    /// The label has one of these values.
    OneOf(&'a str, &'a BTreeSet<String>),
}

/// The error for a text that is not a label selector.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not a label selector: {problem}")]
pub struct ParseSelectorError {
    text: String,
    problem: String,
}

impl LabelSelector {
    /// Creates the selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Creates a selector that requires one label with this value.
    pub fn label(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self(vec![Expression::Equal(key.into(), value.into())])
    }

    /// Returns whether the selector selects every object.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of terms; a selected object meets all of them.
    pub fn terms(&self) -> usize {
        self.0.len()
    }

    /// Returns the requirements that an index lookup can use; terms that exclude a label or a value are left out.
    pub fn required(&self) -> impl Iterator<Item = Required<'_>> {
        self.0.iter().filter_map(|term| match term {
            Expression::Equal(key, value) => Some(Required::Is(key, value)),
            Expression::In(key, values) => Some(Required::OneOf(key, values)),
            Expression::Exists(key) => Some(Required::Key(key)),
            _ => None,
        })
    }

    /// Returns whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = labels.unwrap_or(&NONE);
        self.0.iter().all(|term| term.matches(labels))
    }

    /// Returns whether an object with these labels, in compact form, is selected.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|term| selects(term, labels))
    }
}

fn selects(term: &Expression, labels: &Labels) -> bool {
    match term {
        Expression::In(key, values) => labels.get(key).is_some_and(|own| values.contains(own)),
        Expression::NotIn(key, values) => labels.get(key).is_none_or(|own| !values.contains(own)),
        Expression::Equal(key, value) => labels.get(key) == Some(value),
        Expression::NotEqual(key, value) => labels.get(key) != Some(value),
        Expression::Exists(key) => labels.get(key).is_some(),
        Expression::DoesNotExist(key) => labels.get(key).is_none(),
    }
}

impl From<Selector> for LabelSelector {
    fn from(selector: Selector) -> Self {
        Self(selector.into_iter().collect())
    }
}

impl From<LabelSelector> for String {
    fn from(selector: LabelSelector) -> Self {
        selector.to_string()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, term) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{term}")?;
        }
        Ok(())
    }
}

impl FromStr for LabelSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem: String| ParseSelectorError {
            text: text.to_owned(),
            problem,
        };
        let terms = split_terms(text).into_iter();
        let terms = terms.filter(|term| !term.is_empty());
        let terms = terms.map(|term| parse_term(term).map_err(error));
        Ok(Self(terms.collect::<Result<_, _>>()?))
    }
}

/// Splits a selector at the commas outside of parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut terms = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text[start..].trim());
    terms
}

fn parse_term(term: &str) -> Result<Expression, String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(valid(key.trim(), "key")?));
    }
    if term.ends_with(')') {
        return parse_set(term);
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = term.split_once(operator) {
            let (key, value) = (valid(key.trim(), "key")?, valid(value.trim(), "value")?);
            return Ok(match operator {
                "!=" => Expression::NotEqual(key, value),
                _ => Expression::Equal(key, value),
            });
        }
    }
    Ok(Expression::Exists(valid(term, "key")?))
}

fn parse_set(term: &str) -> Result<Expression, String> {
    let shape = || format!("write {term:?} as `key in (a,b)` or `key notin (a,b)`");
    let (head, values) = term
        .trim_end_matches(')')
        .split_once('(')
        .ok_or_else(shape)?;
    let mut words = head.split_whitespace();
    let (Some(key), Some(operator), None) = (words.next(), words.next(), words.next()) else {
        return Err(shape());
    };
    let key = valid(key, "key")?;
    let values = values
        .split(',')
        .map(|value| valid(value.trim(), "value"))
        .collect::<Result<BTreeSet<_>, _>>()?;
    match operator {
        "in" => Ok(Expression::In(key, values)),
        "notin" => Ok(Expression::NotIn(key, values)),
        _ => Err(shape()),
    }
}

/// Refuses characters that no label contains. The server checks all other rules.
fn valid(text: &str, what: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty() && what == "key" {
        return Err("a label key is missing".to_owned());
    }
    match text.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(format!(
            "the label {what} {text:?} contains the invalid character {c:?}"
        )),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect()
    }

    #[test]
    fn each_operator_selects_the_same_objects_as_kubectl() {
        let web = labels(&[("app", "web"), ("tier", "front")]);
        for (selector, selected) in [
            ("", true),
            ("app=web", true),
            ("app == web", true),
            ("app!=web", false),
            ("gone!=web", true),
            ("app", true),
            ("!app", false),
            ("!gone,app", true),
            ("tier in (front, edge)", true),
            ("tier notin (front,edge)", false),
            ("gone notin (front)", true),
            ("app=web,tier=back", false),
            ("app=", false),
        ] {
            let parsed: LabelSelector = selector.parse().unwrap();
            assert_eq!(parsed.matches(Some(&web)), selected, "{selector:?}");
            assert_eq!(parsed.selects(&(&web).into()), selected, "{selector:?}");
        }
        assert!(LabelSelector::everything().matches(None));
    }

    #[test]
    fn a_displayed_selector_parses_to_the_same_selector() {
        let text = "app=web,tier in (edge,front),!legacy,x!=y,exists";
        let parsed: LabelSelector = text.parse().unwrap();
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
    }

    #[test]
    fn every_selected_object_meets_the_required_terms() {
        let parsed: LabelSelector = "app=web,tier in (edge,front),!legacy,x!=y,there"
            .parse()
            .unwrap();
        let tiers = ["edge".to_owned(), "front".to_owned()].into();
        let expected = [
            Required::Is("app", "web"),
            Required::OneOf("tier", &tiers),
            Required::Key("there"),
        ];
        assert_eq!(parsed.required().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_parse_error_names_the_invalid_part() {
        for text in [
            "=x", "a in b", "a within (b)", "a b", "a=(b", "a in (b,c", "!", "ä=b",
        ] {
            let error = text.parse::<LabelSelector>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?}")), "{error}");
        }
    }
}
