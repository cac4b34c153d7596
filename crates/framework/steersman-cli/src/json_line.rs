//! Machine: merges the fields of an event and its spans into one flat JSON object with unique keys.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

use steersman_object::report;
use tracing::field::{Field, Visit};

/// The keys of every line, named as by zap's production encoder, and the key of the span names.
const FIXED: [&str; 5] = ["level", "ts", "logger", "msg", "span"];

/// The prefix for a field of the event if its key is taken.
const EVENT: &str = "event";

/// The parts of a line other than its fields.
#[derive(Debug)]
pub(crate) struct LineHead<'a> {
    pub(crate) level: &'static str,
    pub(crate) time: String,
    pub(crate) target: &'a str,
}

/// The fields of an event or a span, in the order of recording. Each value is JSON.
///
/// All values are in one text, because each reconcile has such fields, and most reconciles log nothing.
#[derive(Debug, Default)]
pub(crate) struct LineFields {
    message: Option<String>,
    /// The target of an event from the crate `log`, which tracing records as a field.
    target: Option<String>,
    values: String,
    /// The keys, each with the end of its value in `values`.
    keys: Vec<(&'static str, usize)>,
}

#[derive(Debug)]
pub(crate) struct LineSpan<'a> {
    pub(crate) name: &'static str,
    pub(crate) fields: &'a LineFields,
}

/// Unique keys with their values as JSON.
#[derive(Default)]
struct JsonEntries<'a>(Vec<(Cow<'static, str>, &'a str)>);

impl LineFields {
    pub(crate) fn of(message: &str, fields: &[(&'static str, &str)]) -> Self {
        let mut this = Self {
            message: Some(message.to_owned()),
            ..Self::default()
        };
        for (key, value) in fields {
            push_quoted(&mut this.values, value);
            this.end_value(key);
        }
        this
    }

    /// Makes room for the fields of a span.
    pub(crate) fn of_span() -> Self {
        Self {
            values: String::with_capacity(192),
            keys: Vec::with_capacity(12),
            ..Self::default()
        }
    }

    /// Merges values that a span recorded later. They replace earlier values of the same fields.
    pub(crate) fn update(&mut self, later: &Self) {
        let mut all: Vec<(&'static str, &str)> = self.pairs().collect();
        for (key, value) in later.pairs() {
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value,
                None => all.push((key, value)),
            }
        }
        let mut merged = Self::default();
        for (key, value) in all {
            merged.values.push_str(value);
            merged.end_value(key);
        }
        (self.values, self.keys) = (merged.values, merged.keys);
    }

    /// Returns the keys with their values.
    fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let mut from = 0;
        self.keys.iter().map(move |(key, end)| {
            let value = self.values.get(from..*end).unwrap_or_default();
            from = *end;
            (*key, value)
        })
    }

    /// Ends the value that was appended to `values`.
    fn end_value(&mut self, key: &'static str) {
        self.keys.push((key, self.values.len()));
    }

    fn add(&mut self, field: &Field, value: impl fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.values, "{value}");
        self.end_value(field.name());
    }

    fn add_text(&mut self, field: &Field, value: &str) {
        push_quoted(&mut self.values, value);
        self.end_value(field.name());
    }
}

impl Visit for LineFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON cannot express infinite numbers and NaN.
        match value.is_finite() {
            true => self.add(field, serde_json::json!(value)),
            false => self.add_text(field, &value.to_string()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" if self.message.is_none() => self.message = Some(value.to_owned()),
            "log.target" => self.target = Some(value.to_owned()),
            // Fields with the source position are left out, as in all other lines.
            name if name.starts_with("log.") => {}
            _ => self.add_text(field, value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_text(field, &report(value).to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Returns the line for an event, with a line feed. `spans` start with the innermost one.
///
/// A key has the value of the innermost span with that key, or else of the event: a line of a reconcile keeps the name
/// of its object, whatever the event names. A different value of an outer span or of the event becomes `SPAN.KEY` or
/// `event.KEY`.
pub(crate) fn line(head: &LineHead<'_>, spans: &[LineSpan<'_>], event: &LineFields) -> String {
    let mut entries = JsonEntries::default();
    for span in spans {
        for (key, value) in span.fields.pairs() {
            entries.add(span.name, key, value);
        }
    }
    for (key, value) in event.pairs() {
        entries.add(EVENT, key, value);
    }
    let mut line = format!(
        r#"{{"level":"{}","ts":{},"logger":{},"msg":{}"#,
        head.level,
        quoted(&head.time),
        quoted(event.target.as_deref().unwrap_or(head.target)),
        quoted(event.message.as_deref().unwrap_or_default()),
    );
    if !spans.is_empty() {
        let names: Vec<&str> = spans.iter().rev().map(|span| span.name).collect();
        push(&mut line, "span", &quoted(&names.join(":")));
    }
    for (key, value) in &entries.0 {
        push(&mut line, key, value);
    }
    line.push_str("}\n");
    line
}

impl<'a> JsonEntries<'a> {
    /// LOG-1: adds a value under a free key, unless the key already has an equal value.
    fn add(&mut self, source: &str, key: &'static str, value: &'a str) {
        let mut candidate = Cow::Borrowed(key);
        let mut copies = 1;
        while FIXED.contains(&&*candidate) || self.value(&candidate).is_some() {
            if self.value(&candidate) == Some(value) {
                return;
            }
            candidate = match copies {
                1 => Cow::Owned(format!("{source}.{key}")),
                copies => Cow::Owned(format!("{source}.{key}.{copies}")),
            };
            copies += 1;
        }
        self.0.push((candidate, value));
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let entry = self.0.iter().find(|(known, _)| known == key)?;
        Some(entry.1)
    }
}

fn push(line: &mut String, key: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = write!(line, ",{}:{value}", quoted(key));
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    push_quoted(&mut quoted, text);
    quoted
}

/// Appends a text as JSON.
fn push_quoted(line: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        line.push('"');
        line.push_str(text);
        line.push('"');
    } else {
        line.push_str(&serde_json::Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &str)]) -> LineFields {
        LineFields::of("said", pairs)
    }

    fn of(spans: &[(&'static str, LineFields)], event: &LineFields) -> String {
        let head = LineHead {
            level: "info",
            time: "2026-01-02T03:04:05Z".to_owned(),
            target: "crate::module",
        };
        let spans: Vec<LineSpan<'_>> = spans
            .iter()
            .map(|(name, fields)| LineSpan { name, fields })
            .collect();
        line(&head, &spans, event)
    }

    const HEAD: &str =
        r#"{"level":"info","ts":"2026-01-02T03:04:05Z","logger":"crate::module","msg":"said""#;

    /// LOG-1: a value with a taken key is kept under the name of its source.
    #[test]
    fn a_value_with_a_key_that_is_taken_is_kept_under_the_name_of_its_source() {
        for (spans, event, rest) in [
            (vec![], vec![("a", "1")], r#","a":"1"}"#),
            (
                vec![("reconcile", vec![("name", "hello")])],
                vec![("name", "child"), ("b", "2")],
                r#","span":"reconcile","name":"hello","event.name":"child","b":"2"}"#,
            ),
            // The innermost span comes first.
            (
                vec![
                    ("child", vec![("name", "pages")]),
                    ("reconcile", vec![("name", "hello"), ("namespace", "web")]),
                ],
                vec![("namespace", "web")],
                r#","span":"reconcile:child","name":"pages","reconcile.name":"hello","namespace":"web"}"#,
            ),
            (
                vec![],
                vec![
                    ("level", "7"),
                    ("msg", "own"),
                    ("a", "1"),
                    ("a", "2"),
                    ("a", "3"),
                    ("a", "2"),
                ],
                r#","event.level":"7","event.msg":"own","a":"1","event.a":"2","event.a.2":"3"}"#,
            ),
            (
                vec![
                    ("same", vec![("x", "1")]),
                    ("same", vec![("x", "2")]),
                    ("same", vec![("x", "3")]),
                ],
                vec![("same.x", "4")],
                r#","span":"same:same:same","x":"1","same.x":"2","same.x.2":"3","event.same.x":"4"}"#,
            ),
        ] {
            let spans: Vec<_> = spans
                .iter()
                .map(|(name, pairs)| (*name, fields(pairs)))
                .collect();
            let found = of(&spans, &fields(&event));
            assert_eq!(found, format!("{HEAD}{rest}\n"));
        }
    }

    #[test]
    fn a_value_that_a_span_records_later_replaces_the_earlier_one() {
        let mut span = fields(&[("a", "1"), ("b", "2")]);
        span.update(&fields(&[("b", "3"), ("c", "4")]));
        assert_eq!(
            of(&[("s", span)], &fields(&[])),
            format!("{HEAD},\"span\":\"s\",\"a\":\"1\",\"b\":\"3\",\"c\":\"4\"}}\n")
        );
    }
}
