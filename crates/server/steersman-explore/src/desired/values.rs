//! Machine: other values for a field that has one, and values for an absent field, as the schema allows them.

use serde_json::{Map, Value, json};
use steersman_cel::structural::{Additional, Bound, Structural};

use super::texts;

/// The farthest bound that is tried, as a multiple of the present value. A far bound of a count, such as replicas, would
/// create too many objects.
const FARTHEST: f64 = 100.0;

/// The depth to which required fields of an absent object are invented.
const DEEPEST: usize = 8;

/// Returns other values in place of a scalar: one like it first, then those at the bounds of the schema. Empty for objects
/// and lists.
pub(super) fn others(schema: &Structural, value: &Value) -> Vec<Value> {
    let allowed = &schema.rules.allowed;
    let mut all: Vec<Value> = match value {
        _ if !allowed.is_empty() => allowed.clone(),
        Value::Bool(is_set) => vec![Value::Bool(!is_set)],
        Value::Number(number) => other_numbers(schema, number.as_f64().unwrap_or_default()),
        Value::String(text) => {
            let texts = texts::other_texts(schema, text).into_iter();
            texts.map(Value::from).collect()
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    };
    if schema.nullable {
        all.push(Value::Null);
    }
    if schema.int_or_string {
        let other_form = if value.is_string() {
            json!(1)
        } else {
            json!("50%")
        };
        all.push(other_form);
    }
    all.retain(|other| other != value);
    distinct(all)
}

/// Returns values for an absent field: each value of an enumeration, and both values of a boolean. Empty if none can be
/// invented.
pub(super) fn invented(schema: &Structural) -> Vec<Value> {
    match (&schema.rules.allowed, &*schema.kind) {
        (allowed, _) if !allowed.is_empty() => allowed.clone(),
        (_, "boolean") => vec![Value::Bool(true), Value::Bool(false)],
        (_, "integer" | "number") => {
            let near = number_near(schema, 1.0).into_iter();
            let others = other_numbers(schema, 1.0);
            let bounds = others.into_iter().filter(|other| is_bound(schema, other));
            distinct(near.chain(bounds))
        }
        _ => invented_one(schema, DEEPEST).into_iter().collect(),
    }
}

/// Returns the values without repetitions, in order.
pub(super) fn distinct(values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Returns a small value that the schema allows, with what it requires; `None` if none can be invented.
fn invented_one(schema: &Structural, depth: usize) -> Option<Value> {
    let deeper = depth.checked_sub(1)?;
    if let Some(allowed) = schema.rules.allowed.first() {
        return Some(allowed.clone());
    }
    if let Some(default) = &schema.default {
        return Some(default.clone());
    }
    if schema.int_or_string {
        return Some(Value::from(1));
    }
    match &*schema.kind {
        "boolean" => Some(Value::Bool(true)),
        "integer" | "number" => number_near(schema, 1.0),
        "string" => texts::invented_texts(schema).next().map(Value::from),
        "array" => {
            let many = schema.rules.items.0.unwrap_or_default().max(1);
            let first = invented_one(schema.items.as_deref()?, deeper)?;
            let mut items = vec![first];
            while (items.len() as u64) < many {
                let next = another_item(schema, &items)?;
                items.push(next);
            }
            Some(Value::Array(items))
        }
        "object" => {
            let mut members = Map::new();
            for name in &schema.rules.required {
                let of_member = schema.properties.get(name)?;
                members.insert(name.clone(), invented_one(of_member, deeper)?);
            }
            if let Additional::Schema(of_entry) = &schema.additional {
                members.insert("example".to_owned(), invented_one(of_entry, deeper)?);
            }
            Some(Value::Object(members))
        }
        _ => None,
    }
}

/// Returns one more item for a list: like the last one, but with other keys; `None` if the schema allows no other item.
pub(super) fn another_item(schema: &Structural, items: &[Value]) -> Option<Value> {
    let of_item = schema.items.as_deref()?;
    let Some(last) = items.last() else {
        return invented_one(of_item, DEEPEST);
    };
    let Value::Object(members) = last else {
        let mut others = others(of_item, last).into_iter();
        return others.find(|other| !items.contains(other)).or_else(|| {
            invented(of_item)
                .into_iter()
                .find(|other| !items.contains(other))
        });
    };
    let keys = &schema.rules.list_map_keys;
    let is_key = |name: &str| match keys.as_slice() {
        [] => name == "name",
        keys => keys.iter().any(|key| key == name),
    };
    let mut another = members.clone();
    for (name, member) in &mut another {
        if is_key(name)
            && let Some(of_member) = of_item.properties.get(name)
        {
            let taken = |other: &Value| items.iter().any(|item| item[name] == *other);
            if let Some(other) = others(of_member, member)
                .into_iter()
                .find(|one| !taken(one))
            {
                *member = other;
            }
        }
    }
    Some(Value::Object(another))
}

/// Returns one more entry for a map: its name and its value; `None` if none can be invented.
pub(super) fn another_entry(
    of_entry: &Structural,
    entries: &Map<String, Value>,
) -> Option<(String, Value)> {
    let (name, value) = match entries.iter().next_back() {
        Some((name, value)) => (format!("{name}-2"), value.clone()),
        None => ("example".to_owned(), invented_one(of_entry, DEEPEST)?),
    };
    (!entries.contains_key(&name)).then_some((name, value))
}

fn other_numbers(schema: &Structural, number: f64) -> Vec<Value> {
    let rules = &schema.rules;
    let step = rules.multiple_of.map_or(1.0, |step| step.0);
    let (least, most) = range(schema, step);
    let is_near = |bound: &f64| bound.abs() <= FARTHEST * number.abs().max(1.0);
    let lower = number - step;
    let zero = least.is_none_or(|least| least <= 0.0).then_some(0.0);
    let candidates = [
        Some(number + step),
        Some(lower),
        zero,
        least.filter(is_near),
        most.filter(is_near),
    ];
    let candidates = candidates.into_iter().flatten();
    candidates
        .filter(|candidate| fits(schema, *candidate))
        .filter_map(|candidate| number_value(schema, candidate))
        .collect()
}

/// Returns a number that the schema allows, as near to `wanted` as its bounds allow.
fn number_near(schema: &Structural, wanted: f64) -> Option<Value> {
    let rules = &schema.rules;
    let step = rules.multiple_of.map_or(1.0, |step| step.0);
    let (least, most) = range(schema, step);
    let near = wanted
        .max(least.unwrap_or(wanted))
        .min(most.unwrap_or(f64::MAX));
    let near = if rules.multiple_of.is_some() {
        (near / step).ceil() * step
    } else {
        near
    };
    number_value(schema, near).filter(|_| fits(schema, near))
}

/// Returns the least and the largest number that the bounds of a schema allow, a step away from an excluded bound.
fn range(schema: &Structural, step: f64) -> (Option<f64>, Option<f64>) {
    let inside = |bound: Option<(Bound, bool)>, inward: f64| {
        let (bound, is_excluded) = bound?;
        Some(if is_excluded {
            bound.0 + inward
        } else {
            bound.0
        })
    };
    let rules = &schema.rules;
    (inside(rules.minimum, step), inside(rules.maximum, -step))
}

fn fits(schema: &Structural, number: f64) -> bool {
    let rules = &schema.rules;
    let is_multiple = rules
        .multiple_of
        .is_none_or(|step| step.0 == 0.0 || is_near_whole(number / step.0));
    is_multiple
        && rules.minimum.is_none_or(|(least, is_excluded)| {
            number > least.0 || (number == least.0 && !is_excluded)
        })
        && rules
            .maximum
            .is_none_or(|(most, is_excluded)| number < most.0 || (number == most.0 && !is_excluded))
}

/// Returns whether a quotient is a whole number but for the error of floating point.
fn is_near_whole(quotient: f64) -> bool {
    (quotient - quotient.round()).abs() < 1e-9 * quotient.abs().max(1.0)
}

/// Returns whether a number is a bound of its schema, or zero.
fn is_bound(schema: &Structural, value: &Value) -> bool {
    let number = value.as_f64().unwrap_or_default();
    let rules = &schema.rules;
    let bounds = [rules.minimum, rules.maximum].into_iter().flatten();
    number == 0.0
        || bounds
            .into_iter()
            .any(|(bound, _)| (number - bound.0).abs() <= 1.0)
}

fn number_value(schema: &Structural, number: f64) -> Option<Value> {
    // Numbers of a schema that are whole are far below 2^53, where they are exact.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only whole numbers are converted"
    )]
    let whole = number as i64;
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    match &*schema.kind {
        "number" if !is_whole => Some(json!(number)),
        _ if is_whole => Some(json!(whole)),
        _ => None,
    }
}
