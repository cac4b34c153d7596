//! Words: prints values as Go's `%v` does, which is the form of patches in messages.

use serde_json::Value;

/// Prints a value, for instance `map[a:1 b:[x y]]`.
pub fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => go_list(items),
        Value::Object(members) => {
            let print = |(name, value): (&String, &Value)| format!("{name}:{}", go(value));
            let printed: Vec<String> = members.iter().map(print).collect();
            format!("map[{}]", printed.join(" "))
        }
    }
}

pub(super) fn go_list(items: &[Value]) -> String {
    let printed: Vec<String> = items.iter().map(go).collect();
    format!("[{}]", printed.join(" "))
}
