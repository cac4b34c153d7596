//! Machine: makes an example object that has the properties a schema requires.

use serde_json::{Map, Value, json};

/// Returns an example object for this schema. It may violate patterns and CEL rules, which only an API server checks.
pub(super) fn object(api_version: &str, kind: &str, schema: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "example"},
    });
    let content = of_object(schema, true);
    for (name, value) in content.as_object().into_iter().flatten() {
        if object[name].is_null() {
            object[name] = value.clone();
        }
    }
    object
}

fn of(schema: &Value) -> Value {
    if !schema["default"].is_null() {
        return schema["default"].clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(1);
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(number(schema)),
        Some("string") => json!(text(schema)),
        Some("array") => {
            let length = schema["minItems"].as_u64().unwrap_or(0).min(MOST);
            (0..length).map(|_| of(&schema["items"])).collect()
        }
        _ => of_object(schema, false),
    }
}

/// The largest number of items in an example list, even if the schema requires more.
const MOST: u64 = 16;

/// Returns an object with the required properties of a schema; `with_spec` adds `spec` even if it is optional.
fn of_object(schema: &Value, with_spec: bool) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = required.filter_map(Value::as_str).collect();
    names.extend((with_spec && schema["properties"]["spec"].is_object()).then_some("spec"));
    let mut object = Map::new();
    for name in names {
        object.insert(name.to_owned(), of(&schema["properties"][name]));
    }
    let least = schema["minProperties"].as_u64().unwrap_or(0).min(MOST);
    let others = schema["properties"].as_object().into_iter().flatten();
    for (name, inner) in others {
        if object.len() as u64 >= least {
            break;
        }
        object.entry(name.clone()).or_insert_with(|| of(inner));
    }
    for count in object.len() as u64..least {
        let value = of(&schema["additionalProperties"]);
        object.insert(format!("key{count}"), value);
    }
    Value::Object(object)
}

fn number(schema: &Value) -> i64 {
    let least = schema["minimum"].as_f64().unwrap_or(1.0).ceil();
    let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
    let step = schema["multipleOf"].as_f64().unwrap_or(1.0).max(1.0);
    let first = least + f64::from(schema["exclusiveMinimum"] == true);
    let found = ((first / step).ceil() * step).min(most);
    // The cast saturates: a number outside the range of `i64` becomes the nearest limit.
    found as i64
}

fn text(schema: &Value) -> String {
    let text = match schema["format"].as_str() {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("date") => "2026-01-01",
        Some("duration") => "1h",
        Some("email") => "example@example.com",
        Some("uri" | "url") => "https://example.com",
        Some("ipv4" | "ip") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("cidr") => "192.0.2.0/24",
        Some("mac") => "00:00:5e:00:53:01",
        Some("byte") => "ZXhhbXBsZQ==",
        Some("uuid" | "uuid3" | "uuid4" | "uuid5") => "00000000-0000-4000-8000-000000000000",
        _ => "example",
    };
    let length = |name: &str| {
        schema[name]
            .as_u64()
            .and_then(|length| usize::try_from(length).ok())
    };
    let most = length("maxLength").unwrap_or(usize::MAX);
    let least = length("minLength").unwrap_or(0).min(LONGEST);
    let mut text: String = text.chars().take(most).collect();
    while text.len() < least {
        text.push('x');
    }
    text
}

/// The greatest length of an example text, even if the schema requires a longer one.
const LONGEST: usize = 1024;
