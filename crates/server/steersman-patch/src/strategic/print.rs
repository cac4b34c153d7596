//! Words: values as Go's `%v` prints them, the form in which messages quote patches.

use serde_json::Value;

/// Prints a value, for instance `map[a:1 b:[x y]]`.
pub fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => go_list(items),
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            let printed: Vec<String> = sorted
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go(value)))
                .collect();
            format!("map[{}]", printed.join(" "))
        }
    }
}

/// Prints a list, for instance `[x y]`.
pub(super) fn go_list(items: &[Value]) -> String {
    let printed: Vec<String> = items.iter().map(go).collect();
    format!("[{}]", printed.join(" "))
}
