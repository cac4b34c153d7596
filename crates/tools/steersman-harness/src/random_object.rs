//! Machine: makes random objects that the schema of a definition accepts.

use serde_json::{Map, Number, Value, json};
use steersman_object::{json_items, json_text};
use steersman_testenv::seeds::SeededRng;

use crate::random_text;

/// Fields of an object that its schema does not describe.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The depth from which optional fields are left out.
const DEPTH: usize = 10;

/// The maximal number of elements above the minimum.
const ELEMENTS: u64 = 2;

/// Returns a random object of a version of a definition.
///
/// The object has the types, bounds, formats, patterns and defaults of the schema, but may violate its CEL rules.
pub(crate) fn object(definition: &Value, version: &Value, rng: &mut SeededRng) -> Value {
    let spec = &definition["spec"];
    let mut metadata = json!({"name": random_text::name(rng)});
    if spec["scope"] == "Namespaced" {
        metadata["namespace"] = json!("default");
    }
    for field in ["labels", "annotations"] {
        if rng.chance(30) {
            metadata[field] = json!({(random_text::name(rng)): random_text::name(rng)});
        }
    }
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut made = Map::new();
    let (group, name) = (json_text(&spec["group"]), json_text(&version["name"]));
    let api_version = format!("{group}/{name}");
    made.insert("apiVersion".to_owned(), Value::from(api_version));
    made.insert("kind".to_owned(), spec["names"]["kind"].clone());
    made.insert("metadata".to_owned(), metadata);
    if let Value::Object(members) = members(schema, rng, 0) {
        let members = members.into_iter();
        made.extend(members.filter(|(name, _)| !HEAD.contains(&name.as_str())));
    }
    Value::Object(made)
}

fn value(schema: &Value, rng: &mut SeededRng, depth: usize) -> Value {
    let is_set = |name: &str| schema[name] == true;
    let is_mixed = is_set("x-kubernetes-int-or-string");
    // kube-core marks each optional number or text as nullable, even if its Rust type has no null: it is skipped.
    if is_set("nullable") && !is_mixed && rng.chance(10) {
        return Value::Null;
    }
    if !schema["default"].is_null() && rng.chance(10) {
        return schema["default"].clone();
    }
    let listed = json_items(&schema["enum"]).as_slice();
    if !listed.is_empty() {
        return rng.pick(listed);
    }
    if is_mixed {
        return if rng.chance(40) {
            integer(schema, rng)
        } else {
            text(schema, rng).unwrap_or_else(|| Value::from(random_text::quantity(rng)))
        };
    }
    if is_set("x-kubernetes-embedded-resource") {
        let name = random_text::name(rng);
        return json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    }
    match schema["type"].as_str() {
        Some("boolean") => Value::Bool(rng.chance(50)),
        Some("integer") => integer(schema, rng),
        Some("number") => number(schema, rng),
        Some("string") => text(schema, rng).unwrap_or_else(|| {
            let bound = |name: &str, default| schema[name].as_u64().unwrap_or(default);
            let (least, most) = (bound("minLength", 0), bound("maxLength", u64::MAX));
            Value::from(random_text::plain(least, most, rng))
        }),
        Some("array") => array(schema, rng, depth),
        Some("object") => members(schema, rng, depth),
        _ if schema["properties"].is_object() => members(schema, rng, depth),
        _ => match schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            Some(branches) if !branches.is_empty() => {
                value(&branches[rng.index(branches.len())], rng, depth + 1)
            }
            _ => anything(rng, depth),
        },
    }
}

fn members(schema: &Value, rng: &mut SeededRng, depth: usize) -> Value {
    let names = |value: &Value| -> Vec<String> {
        let listed = json_items(&value["required"]).filter_map(Value::as_str);
        listed.map(str::to_owned).collect()
    };
    let mut required = names(schema);
    let mut excluded = Vec::new();
    for (key, is_exclusive) in [("oneOf", true), ("anyOf", false)] {
        let branches = json_items(&schema[key]).as_slice();
        if branches.is_empty() {
            continue;
        }
        let chosen = names(&branches[rng.index(branches.len())]);
        if is_exclusive {
            let others = branches.iter().flat_map(names);
            excluded.extend(others.filter(|name| !chosen.contains(name)));
        }
        required.extend(chosen);
    }
    let mut made = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if excluded.contains(name) {
            continue;
        }
        if required.contains(name) || depth < DEPTH && rng.chance(65) {
            made.insert(name.clone(), value(property, rng, depth + 1));
        } else if let Some(default) = property.get("default") {
            // The default is set, because the API server also sets it before it stores or converts an object.
            made.insert(name.clone(), default.clone());
        }
    }
    let additional = &schema["additionalProperties"];
    if additional.is_object() || *additional == true {
        let count = count(schema, "minProperties", "maxProperties", rng);
        for _ in 0..count {
            let member = match additional {
                Value::Object(_) => value(additional, rng, depth + 1),
                _ => anything(rng, depth + 1),
            };
            made.insert(random_text::name(rng), member);
        }
    } else if schema["x-kubernetes-preserve-unknown-fields"] == true && rng.chance(50) {
        let name = format!("unknown{}", random_text::name(rng));
        made.insert(name, anything(rng, depth + 1));
    }
    Value::Object(made)
}

fn array(schema: &Value, rng: &mut SeededRng, depth: usize) -> Value {
    let count = if depth < DEPTH {
        count(schema, "minItems", "maxItems", rng)
    } else {
        schema["minItems"].as_u64().unwrap_or_default()
    };
    let mut made: Vec<Value> = Vec::new();
    let is_of_type = |list_type: &str| schema["x-kubernetes-list-type"] == list_type;
    let keys = json_items(&schema["x-kubernetes-list-map-keys"]).filter_map(Value::as_str);
    let keys: Vec<&str> = keys.filter(|_| is_of_type("map")).collect();
    let is_set = is_of_type("set");
    for _ in 0..count {
        let element = value(&schema["items"], rng, depth + 1);
        let is_same = |known: &Value| {
            is_set && *known == element
                || !keys.is_empty() && keys.iter().all(|key| known[*key] == element[*key])
        };
        if !made.iter().any(is_same) {
            made.push(element);
        }
    }
    Value::Array(made)
}

/// Returns a number of elements within the two bounds in a schema.
fn count(schema: &Value, least: &str, most: &str, rng: &mut SeededRng) -> u64 {
    let least = schema[least].as_u64().unwrap_or_default();
    let most = schema[most].as_u64().unwrap_or(u64::MAX);
    let most = most.min(least.saturating_add(ELEMENTS)).max(least);
    least + rng.below(most - least + 1)
}

fn integer(schema: &Value, rng: &mut SeededRng) -> Value {
    let (low, high) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("int8") => (i64::from(i8::MIN), i64::from(i8::MAX)),
        Some("int16") => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Some("uint8") => (0, i64::from(u8::MAX)),
        Some("uint16") => (0, i64::from(u16::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        Some("uint64" | "uint") => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    };
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let exclusive = |name: &str| i64::from(schema[name] == true);
    let low = bound("minimum").map_or(low, |least| {
        low.max(least.saturating_add(exclusive("exclusiveMinimum")))
    });
    let high = bound("maximum").map_or(high, |most| {
        high.min(most.saturating_sub(exclusive("exclusiveMaximum")))
    });
    let drawn = if rng.chance(20) {
        rng.pick(&[low, high])
    } else {
        // The range is around the allowed number that is closest to zero.
        let middle = 0_i64.clamp(low, high.max(low));
        let least = middle.saturating_sub(1000).max(low);
        let most = middle.saturating_add(1000).min(high.max(low));
        let near = rng.below(most.abs_diff(least) + 1);
        least.saturating_add_unsigned(near)
    };
    let step = bound("multipleOf").filter(|step| *step > 0).unwrap_or(1);
    let multiple = drawn - drawn.rem_euclid(step);
    Value::from(match multiple < low {
        true => multiple.saturating_add(step),
        false => multiple,
    })
}

fn number(schema: &Value, rng: &mut SeededRng) -> Value {
    let bound = |name: &str| schema[name].as_f64();
    let low = bound("minimum").unwrap_or(-1000.0);
    let high = bound("maximum").unwrap_or(low + 2000.0).max(low);
    // Multiples of 1/64 have the same value in every notation of floating-point numbers.
    let steps = ((high - low) * 64.0).clamp(0.0, 1_000_000.0) as u64;
    let drawn = low + rng.below(steps + 1) as f64 / 64.0;
    Number::from_f64(drawn).map_or(Value::from(0), Value::Number)
}

/// Returns a text with the pattern or format of a schema.
fn text(schema: &Value, rng: &mut SeededRng) -> Option<Value> {
    if let Some(pattern) = schema["pattern"].as_str() {
        let bound = |name: &str, default| schema[name].as_u64().unwrap_or(default);
        let (least, most) = (bound("minLength", 0), bound("maxLength", u64::MAX));
        let mut made = None;
        for _ in 0..100 {
            let text = random_text::matching(pattern, rng)?;
            let length = text.chars().count() as u64;
            made = Some(Value::from(text));
            if (least..=most).contains(&length) {
                break;
            }
        }
        return made;
    }
    let format = schema["format"].as_str()?;
    random_text::of_format(format, rng).map(Value::from)
}

fn anything(rng: &mut SeededRng, depth: usize) -> Value {
    match rng.below(if depth < DEPTH { 5 } else { 3 }) {
        0 => Value::Bool(rng.chance(50)),
        1 => Value::from(rng.below(1000)),
        2 => Value::from(random_text::name(rng)),
        3 => json!([rng.below(10), random_text::name(rng)]),
        _ => json!({(random_text::name(rng)): anything(rng, depth + 1)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_arrays_keep_their_bounds() {
        let schema = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {
            "type": "integer", "format": "int32", "minimum": 3, "maximum": 12, "multipleOf": 3,
        }});
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let made = value(&schema, &mut SeededRng::new(seed), 0);
            let made = made.as_array().unwrap();
            assert!((1..=2).contains(&made.len()), "{made:?}");
            seen.extend(made.iter().map(|number| number.as_i64().unwrap()));
        }
        assert_eq!(seen, [3, 6, 9, 12].into());
    }

    #[test]
    fn an_object_has_one_of_exclusive_members_and_its_defaults() {
        let schema = json!({
            "type": "object", "required": ["always"],
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {
                "always": {"type": "boolean"}, "a": {"type": "string"}, "b": {"type": "number"},
                "filled": {"type": "string", "default": "x", "enum": ["x"]},
            },
        });
        for seed in 0..300 {
            let made = value(&schema, &mut SeededRng::new(seed), 0);
            assert!(made["always"].is_boolean(), "{made}");
            assert_ne!(made.get("a").is_some(), made.get("b").is_some(), "{made}");
            assert_eq!(made["filled"], "x");
        }
    }

    #[test]
    fn keys_of_a_list_are_unique_and_maps_have_members() {
        let schema = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["on"],
            "items": {"type": "object", "required": ["on", "map"], "properties": {
                "on": {"type": "boolean"},
                "map": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
            }},
        });
        for seed in 0..300 {
            let made = value(&schema, &mut SeededRng::new(seed), 0);
            let made = made.as_array().unwrap();
            assert!(made.len() < 3, "{made:?}");
            assert!(
                made.iter()
                    .all(|one| !one["map"].as_object().unwrap().is_empty())
            );
        }
    }
}
