//! Machine: evaluates the operators of expressions.

use std::sync::Arc;

use super::equality::{among_them, equality, identity, same};
use super::run::{Failure, Outcome, Run, key_text, maybe, select};
use crate::cost::cost_range::{PER_CHARACTER, scaled};
use crate::value::printing;
use crate::value::{Key, Text, Value};

/// Applies an operator. Returns `None` if `name` is not an operator.
pub(super) fn apply<'a>(
    run: &mut Run<'a, '_>,
    name: &str,
    values: &[Value<'a>],
) -> Option<Outcome<'a>> {
    Some(match (name, values) {
        ("_==_", [a, b]) => {
            let size = if matches!(a, Value::Ip(_) | Value::Cidr(_)) {
                1
            } else {
                a.size().min(b.size())
            };
            equality(run, a, b, size).map(Value::Bool)
        }
        ("_!=_", [a, b]) => {
            let size = a.size().min(b.size());
            equality(run, a, b, size).map(|equal| Value::Bool(!equal))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => comparison(run, name, a, b),
        ("_+_", [a, b]) => add(run, a.clone(), b),
        ("_-_" | "_*_" | "_/_" | "_%_", [a, b]) => {
            run.charge(1).and_then(|()| arithmetic(name, a, b))
        }
        ("!_", [a]) => run.charge(1).and_then(|()| match a {
            Value::Bool(flag) => Ok(Value::Bool(!flag)),
            _ => Err(Failure::overload()),
        }),
        ("-_", [a]) => run.charge(1).and_then(|()| match a {
            Value::Int(number) => number
                .checked_neg()
                .map(Value::Int)
                .ok_or_else(|| Failure::of("integer overflow")),
            Value::Double(number) => Ok(Value::Double(-number)),
            _ => Err(Failure::overload()),
        }),
        ("@in", [a, b]) => contained(run, a, b),
        ("cel.@mapInsert", [_, ..]) => run.charge(1).and_then(|()| grown(run, values.to_vec())),
        _ => return None,
    })
}

/// Appends to a list or map. The first value grows in place if it has no other reference.
pub(super) fn grown<'a>(run: &mut Run<'a, '_>, mut values: Vec<Value<'a>>) -> Outcome<'a> {
    let rest = values.split_off(1);
    let of = values.pop().unwrap_or(Value::Null);
    match (of, rest.as_slice()) {
        (Value::Map(mut entries), [key, value]) => {
            let key = key.key().ok_or_else(Failure::overload)?;
            if entries.contains_key(&key) {
                return Err(existing(&key));
            }
            if Arc::get_mut(&mut entries).is_none() {
                run.work(entries.len())?;
            }
            Arc::make_mut(&mut entries).insert(key, value.clone());
            Ok(Value::Map(entries))
        }
        (Value::Map(mut entries), [more]) if more.is_map() => {
            let keys = more.keys();
            run.work(keys.len())?;
            for key in keys {
                if entries.contains_key(&key) {
                    return Err(existing(&key));
                }
                if let Some(value) = more.member(&key) {
                    Arc::make_mut(&mut entries).insert(key, value?);
                }
            }
            Ok(Value::Map(entries))
        }
        (of, [more]) => add(run, of, more),
        _ => Err(Failure::overload()),
    }
}

fn existing(key: &Key) -> Failure {
    Failure::of(format!(
        "insert failed: key {} already exists",
        key_text(key)
    ))
}

fn add<'a>(run: &mut Run<'a, '_>, a: Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let cost = match (&a, b) {
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) => {
            scaled(a.size().saturating_add(b.size()), PER_CHARACTER)
        }
        _ => 1,
    };
    run.charge(cost)?;
    let overflow = |what: &str| Failure::of(format!("{what} overflow"));
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            Value::Int(a.checked_add(*b).ok_or_else(|| overflow("integer"))?)
        }
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(
            a.checked_add(*b)
                .ok_or_else(|| overflow("unsigned integer"))?,
        ),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::Text(a), Value::Text(b)) => {
            run.work((a.len() + b.len()) / 64)?;
            Value::Text(Text::Made(format!("{}{}", &*a, &**b).into()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&*a, &**b].concat().into()),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_add(*b).ok_or_else(|| overflow("duration"))?)
        }
        (Value::Timestamp(a), Value::Duration(b)) => moved(a, *b)?,
        (Value::Duration(a), Value::Timestamp(b)) => moved(*b, a)?,
        (Value::List(mut items), more) if more.is_list() => {
            let more = more.items()?;
            let copied = if Arc::get_mut(&mut items).is_some() {
                0
            } else {
                items.len()
            };
            run.work(more.len() + copied)?;
            Arc::make_mut(&mut items).extend(more);
            Value::List(items)
        }
        (list, more) if list.is_list() && more.is_list() => return merged(run, &list, more),
        _ => return Err(Failure::overload()),
    })
}

/// Concatenates two lists of an object. Lists of type `set` or `map` are merged.
fn merged<'a>(run: &mut Run<'a, '_>, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let mut items = a.items()?;
    let more = b.items()?;
    run.work(items.len() + more.len())?;
    let Some(keys) = identity(a) else {
        items.extend(more);
        return Ok(Value::List(items.into()));
    };
    let known = items.len();
    for one in more {
        let mut found = None;
        for (index, item) in items[..known].iter().enumerate() {
            if same(run, item, &one, &keys)? {
                found = Some(index);
                break;
            }
        }
        match found {
            Some(index) => items[index] = one,
            None => items.push(one),
        }
    }
    Ok(Value::List(items.into()))
}

fn moved<'a>(time: jiff::Timestamp, by: i64) -> Outcome<'a> {
    let moved = time.checked_add(jiff::SignedDuration::from_nanos(by));
    let moved = moved.map_err(|_| Failure::of("timestamp overflow"))?;
    Ok(Value::Timestamp(moved))
}

fn arithmetic<'a>(name: &str, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let overflow = |what: &'static str| move || Failure::of(format!("{what} overflow"));
    let (integer, unsigned) = (overflow("integer"), overflow("unsigned integer"));
    let zero = match name {
        "_/_" => "division by zero",
        _ => "modulus by zero",
    };
    Ok(match (name, a, b) {
        ("_/_" | "_%_", Value::Int(_), Value::Int(0))
        | ("_/_" | "_%_", Value::Uint(_), Value::Uint(0)) => return Err(Failure::of(zero)),
        ("_-_", Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or_else(integer)?),
        ("_*_", Value::Int(a), Value::Int(b)) => Value::Int(a.checked_mul(*b).ok_or_else(integer)?),
        ("_/_", Value::Int(a), Value::Int(b)) => Value::Int(a.checked_div(*b).ok_or_else(integer)?),
        ("_%_", Value::Int(a), Value::Int(b)) => Value::Int(a.checked_rem(*b).ok_or_else(integer)?),
        ("_-_", Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_sub(*b).ok_or_else(unsigned)?)
        }
        ("_*_", Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_mul(*b).ok_or_else(unsigned)?)
        }
        ("_/_", Value::Uint(a), Value::Uint(b)) => Value::Uint(a / b),
        ("_%_", Value::Uint(a), Value::Uint(b)) => Value::Uint(a % b),
        ("_-_", Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        ("_*_", Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        ("_/_", Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        ("_-_", Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_sub(*b).ok_or_else(overflow("duration"))?)
        }
        ("_-_", Value::Timestamp(a), Value::Duration(b)) => {
            moved(*a, b.checked_neg().ok_or_else(overflow("duration"))?)?
        }
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => {
            let nanos = i64::try_from(a.duration_since(*b).as_nanos());
            Value::Duration(nanos.map_err(|_| Failure::of("duration overflow"))?)
        }
        _ => return Err(Failure::overload()),
    })
}

fn comparison<'a>(run: &mut Run<'a, '_>, name: &str, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let cost = match (a, b) {
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) => {
            scaled(a.size().min(b.size()), PER_CHARACTER)
        }
        _ => 1,
    };
    run.charge(cost)?;
    let order = match a.compare(b) {
        Some(order) => order,
        // NaN has no order.
        None if matches!((a, b), (Value::Double(_), _) | (_, Value::Double(_))) => {
            return Ok(Value::Bool(false));
        }
        None => return Err(Failure::overload()),
    };
    Ok(Value::Bool(match name {
        "_<_" => order.is_lt(),
        "_<=_" => order.is_le(),
        "_>_" => order.is_gt(),
        _ => order.is_ge(),
    }))
}

fn contained<'a>(run: &mut Run<'a, '_>, one: &Value<'a>, of: &Value<'a>) -> Outcome<'a> {
    if of.is_list() {
        run.charge(of.size())?;
        let items = of.items()?;
        return among_them(run, one, &items).map(Value::Bool);
    }
    if of.is_map() {
        run.charge(1)?;
        let found = one.key().and_then(|key| of.member(&key));
        return Ok(Value::Bool(found.is_some()));
    }
    Err(Failure::overload())
}

/// Returns an item of a list or a value of a map, by `_[_]` or `_[?_]`.
pub(super) fn indexed<'a>(name: &str, of: &Value<'a>, index: &Value<'a>) -> Outcome<'a> {
    match index.key() {
        Some(key) if name == "_[?_]" => maybe(of, &key),
        Some(key) => select(of, &key),
        None if name == "_[?_]" => Err(Failure::overload()),
        None => {
            let index = printing::print(index).unwrap_or_default();
            Err(Failure::Error(if of.is_list() {
                format!("unsupported index value {index} in list")
            } else {
                format!("no such key: {index}")
            }))
        }
    }
}
