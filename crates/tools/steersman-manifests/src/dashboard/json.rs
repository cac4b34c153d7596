//! Machine: writes a dashboard as JSON.

use std::fmt::Write;

use serde_json::{Map, Value};

/// The maximal length of a value on one line, unless it is deeper than the members of a panel.
const LINE: usize = 120;

/// The depth of the members of a panel, of which the list of queries has one line for each.
const QUERIES: usize = 3;

/// Writes an object with its description on the first line, where a generated file states its source.
pub(crate) fn document(description: &str, members: &Map<String, Value>) -> String {
    let mut text = format!("{{ \"description\": {},\n", Value::from(description));
    write_members(&mut text, members, 1);
    text + "}\n"
}

fn write_members(text: &mut String, members: &Map<String, Value>, depth: usize) {
    for (at, (key, value)) in members.iter().enumerate() {
        indent(text, depth);
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{}: ", Value::from(key.as_str()));
        write_value(text, value, depth);
        end_line(text, at + 1 == members.len());
    }
}

fn write_value(text: &mut String, value: &Value, depth: usize) {
    let line = value.to_string();
    let is_long = line.len() > LINE;
    match value {
        Value::Array(items) if is_long && depth <= QUERIES => {
            text.push_str("[\n");
            for (at, item) in items.iter().enumerate() {
                indent(text, depth + 1);
                write_value(text, item, depth + 1);
                end_line(text, at + 1 == items.len());
            }
            indent(text, depth);
            text.push(']');
        }
        Value::Object(members) if is_long && depth < QUERIES => {
            text.push_str("{\n");
            write_members(text, members, depth + 1);
            indent(text, depth);
            text.push('}');
        }
        _ => text.push_str(&line),
    }
}

fn indent(text: &mut String, depth: usize) {
    text.push_str(&"  ".repeat(depth));
}

fn end_line(text: &mut String, is_last: bool) {
    text.push_str(if is_last { "\n" } else { ",\n" });
}
