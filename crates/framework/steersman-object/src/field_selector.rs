//! Words: field selectors in the syntax of the API server.

use std::fmt;

/// A selector by field values. Servers support a few fields per kind; all support `metadata.name`
/// and `metadata.namespace`.
///
/// Values are escaped as in Kubernetes (apimachinery, `fields.EscapeValue`).
///
/// ```
/// use steersman_object::FieldSelector;
///
/// let selector = FieldSelector::new()
///     .equals("status.phase", "Running")
///     .not_equals("spec.nodeName", "");
/// assert_eq!(selector.to_string(), "status.phase=Running,spec.nodeName!=");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct FieldSelector {
    terms: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Creates a selector that selects every object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires that a field has this value.
    pub fn equals(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.terms.push((field.into(), true, value.into()));
        self
    }

    /// Requires that a field does not have this value.
    pub fn not_equals(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.terms.push((field.into(), false, value.into()));
        self
    }

    /// Parses comma-separated terms `field=value`, `field==value` and `field!=value` without checking the field names.
    /// Returns `None` for any other form, or for an unescaped special character in a value (apimachinery,
    /// `fields.ParseSelector`).
    pub fn parse(text: &str) -> Option<Self> {
        let terms = split(text).into_iter().filter(|term| !term.is_empty());
        let terms = terms.map(|term| {
            let at = term.find('=')?;
            let (field, value) = (&term[..at], &term[at + 1..]);
            let (field, equal, value) = match field.strip_suffix('!') {
                Some(field) => (field, false, value),
                None => (field, true, value.strip_prefix('=').unwrap_or(value)),
            };
            let value = unescape(value)?;
            (!field.is_empty()).then(|| (field.to_owned(), equal, value))
        });
        let terms = terms.collect::<Option<_>>()?;
        Some(Self { terms })
    }

    /// Returns the value that the selector requires for a field, if any.
    pub fn required(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter();
        let (_, _, value) = terms.find(|(of, equal, _)| of == field && *equal)?;
        Some(value)
    }

    /// Returns whether an object with this name is selected; `None` if other fields decide.
    pub fn matches_name(&self, name: &str) -> Option<bool> {
        let is_of_name = |field: &str| field == "metadata.name";
        let mut terms = self.terms.iter();
        if terms.any(|(field, equal, value)| is_of_name(field) && (value == name) != *equal) {
            return Some(false);
        }
        let mut terms = self.terms.iter();
        terms.all(|(field, ..)| is_of_name(field)).then_some(true)
    }

    /// Returns whether the selector selects every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the selector without its terms for one field.
    pub fn without(mut self, field: &str) -> Self {
        self.terms.retain(|(of, _, _)| of != field);
        self
    }
}

fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

/// Removes the escapes from a value; `None` if a special character lacks its escape or another character has one.
fn unescape(value: &str) -> Option<String> {
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                out.push(c);
                escaped = false;
            }
            (true, _) | (false, ',' | '=') => return None,
            (false, '\\') => escaped = true,
            (false, _) => out.push(c),
        }
    }
    (!escaped).then_some(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (field, equal, value)) in self.terms.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}")?;
            for c in value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl From<FieldSelector> for String {
    fn from(selector: FieldSelector) -> Self {
        selector.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_survives_display_and_parse() {
        for value in ["", "a", "a,b", "a=b", "a\\b", "\\,=", "ä"] {
            let selector = FieldSelector::new()
                .equals("x", value)
                .not_equals("y.z", value);
            assert_eq!(FieldSelector::parse(&selector.to_string()), Some(selector));
        }
        let parsed = FieldSelector::parse("a==b,metadata.namespace=web,c!=d").unwrap();
        assert_eq!(parsed.required("metadata.namespace"), Some("web"));
        assert_eq!(
            (parsed.required("c"), parsed.required("a")),
            (None, Some("b"))
        );
        assert_eq!(parsed.without("metadata.namespace").to_string(), "a=b,c!=d");
        assert_eq!(FieldSelector::parse(""), Some(FieldSelector::new()));
        for none in ["a", "=a", "!=a", "a=b=c", "a=b\\", "a=\\b", "a=b,c"] {
            assert_eq!(FieldSelector::parse(none), None, "{none}");
        }
    }
}
