//! Machine: the operators of expressions, such as `+`, `==`, `<` and `!`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::equality::{among_them, equality, identity, same};
use super::{Cost, Row};
use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, EvalOutcome, Run, select};
use crate::value::printing;
use crate::value::{MapKey, Text, Value};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("_?_:_", "conditional (bAA)A", Cost::PerCall, special),
    ("_&&_", "logical_and (bb)b", Cost::PerCall, special),
    ("_||_", "logical_or (bb)b", Cost::PerCall, special),
    ("@not_strictly_false", "not_strictly_false (b)b", Cost::PerCall, special),
    ("_[_]", "index_list (lAi)A index_map (mABA)B optional_list_index_int (olAi)oA optional_map_index_value (omABA)oB",
        Cost::PerCall, special),
    ("_[?_]", "list_optindex_optional_int (lAi)oA optional_list_optindex_optional_int (olAi)oA map_optindex_optional_value (mABA)oB optional_map_optindex_optional_value (omABA)oB",
        Cost::PerCall, special),
    ("_?._", "", Cost::PerCall, special),
    ("or", "optional_or_optional (oA.oA)oA", Cost::PerCall, special),
    ("orValue", "optional_orValue_value (oA.A)A", Cost::PerCall, special),
    ("@in", "in_list (AlA)b in_map (AmAB)b", Cost::PerCall, special),
    ("!_", "logical_not (b)b", Cost::PerCall, not),
    ("-_", "negate_double (d)d negate_int64 (i)i", Cost::PerCall, negate),
    ("_==_", "equals (AA)b", Cost::Own, accepts!(|run, [a, b]| equals(run, a, b))),
    ("_!=_", "not_equals (AA)b", Cost::Own, accepts!(|run, [a, b]| differs(run, a, b))),
    ("_<_", "less_bool (bb)b less_int64 (ii)b less_int64_double (id)b less_int64_uint64 (iu)b less_uint64 (uu)b less_uint64_double (ud)b less_uint64_int64 (ui)b less_double (dd)b less_double_int64 (di)b less_double_uint64 (du)b less_string (ss)b less_bytes (yy)b less_timestamp (TT)b less_duration (DD)b",
        Cost::Own, accepts!(|run, [a, b]| compare(run, a, b, Ordering::is_lt))),
    ("_<=_", "less_equals_bool (bb)b less_equals_int64 (ii)b less_equals_int64_double (id)b less_equals_int64_uint64 (iu)b less_equals_uint64 (uu)b less_equals_uint64_double (ud)b less_equals_uint64_int64 (ui)b less_equals_double (dd)b less_equals_double_int64 (di)b less_equals_double_uint64 (du)b less_equals_string (ss)b less_equals_bytes (yy)b less_equals_timestamp (TT)b less_equals_duration (DD)b",
        Cost::Own, accepts!(|run, [a, b]| compare(run, a, b, Ordering::is_le))),
    ("_>_", "greater_bool (bb)b greater_int64 (ii)b greater_int64_double (id)b greater_int64_uint64 (iu)b greater_uint64 (uu)b greater_uint64_double (ud)b greater_uint64_int64 (ui)b greater_double (dd)b greater_double_int64 (di)b greater_double_uint64 (du)b greater_string (ss)b greater_bytes (yy)b greater_timestamp (TT)b greater_duration (DD)b",
        Cost::Own, accepts!(|run, [a, b]| compare(run, a, b, Ordering::is_gt))),
    ("_>=_", "greater_equals_bool (bb)b greater_equals_int64 (ii)b greater_equals_int64_double (id)b greater_equals_int64_uint64 (iu)b greater_equals_uint64 (uu)b greater_equals_uint64_double (ud)b greater_equals_uint64_int64 (ui)b greater_equals_double (dd)b greater_equals_double_int64 (di)b greater_equals_double_uint64 (du)b greater_equals_string (ss)b greater_equals_bytes (yy)b greater_equals_timestamp (TT)b greater_equals_duration (DD)b",
        Cost::Own, accepts!(|run, [a, b]| compare(run, a, b, Ordering::is_ge))),
    ("_+_", "add_bytes (yy)y add_double (dd)d add_duration_duration (DD)D add_duration_timestamp (DT)T add_timestamp_duration (TD)T add_int64 (ii)i add_list (lAlA)lA add_string (ss)s add_uint64 (uu)u",
        Cost::Own, accepts!(|run, [a, b]| add(run, a.clone(), b))),
    ("_-_", "subtract_double (dd)d subtract_duration_duration (DD)D subtract_int64 (ii)i subtract_timestamp_duration (TD)T subtract_timestamp_timestamp (TT)D subtract_uint64 (uu)u",
        Cost::PerCall, accepts!(|[a, b]| subtract(a, b))),
    ("_*_", "multiply_double (dd)d multiply_int64 (ii)i multiply_uint64 (uu)u",
        Cost::PerCall, accepts!(|[a, b]| multiply(a, b))),
    ("_/_", "divide_double (dd)d divide_int64 (ii)i divide_uint64 (uu)u",
        Cost::PerCall, accepts!(|[a, b]| divide(a, b))),
    ("_%_", "modulo_int64 (ii)i modulo_uint64 (uu)u",
        Cost::PerCall, accepts!(|[a, b]| modulo(a, b))),
    ("cel.@mapInsert", "@mapInsert_map_key_value (mABAB)mAB @mapInsert_map_map (mABmAB)mAB",
        Cost::PerCall, |run, values| Some(grown(run, values.to_vec()))),
];

/// The implementation in the rows of operators such as `&&`, which `eval` evaluates itself: it accepts no values.
fn special<'a>(_: &mut Run<'_>, _: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    None
}

fn not<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    Some(match values {
        [Value::Bool(flag)] => Ok(Value::Bool(!flag)),
        _ => Err(EvalFailure::overload()),
    })
}

fn negate<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    Some(match values {
        [Value::Int(number)] => int(number.checked_neg()),
        [Value::Double(number)] => Ok(Value::Double(-number)),
        _ => Err(EvalFailure::overload()),
    })
}

fn equals<'a>(run: &mut Run<'_>, a: &Value<'_>, b: &Value<'_>) -> EvalOutcome<'a> {
    let size = if matches!(a, Value::Ip(_) | Value::Cidr(_)) {
        1
    } else {
        a.size().min(b.size())
    };
    equality(run, a, b, size).map(Value::Bool)
}

fn differs<'a>(run: &mut Run<'_>, a: &Value<'_>, b: &Value<'_>) -> EvalOutcome<'a> {
    let size = a.size().min(b.size());
    equality(run, a, b, size).map(|equal| Value::Bool(!equal))
}

/// Adds `values[1]` to `values[0]` as `+` does. If `values[0]` is a map, inserts a key and its value, or all entries of
/// another map. A list or map to which nothing else refers grows in place, and is not copied.
pub(crate) fn grown<'a>(run: &mut Run<'_>, mut values: Vec<Value<'a>>) -> EvalOutcome<'a> {
    let rest = values.split_off(1);
    let of = values.pop().unwrap_or(Value::Null);
    match (of, rest.as_slice()) {
        (Value::Map(mut entries), [key, value]) => {
            let key = key.key().ok_or_else(EvalFailure::overload)?;
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
        _ => Err(EvalFailure::overload()),
    }
}

fn existing(key: &MapKey) -> EvalFailure {
    EvalFailure::of(format!("insert failed: key {key} already exists"))
}

pub(super) fn add<'a>(run: &mut Run<'_>, a: Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
    let cost = match (&a, b) {
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) => {
            scaled(a.size().saturating_add(b.size()), PER_CHARACTER)
        }
        _ => 1,
    };
    run.charge(cost)?;
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b))?,
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b))?,
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::Text(a), Value::Text(b)) => {
            run.work((a.len() + b.len()) / 64)?;
            Value::Text(Text::Made(format!("{}{}", &*a, &**b).into()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&*a, &**b].concat().into()),
        (Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b))?,
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
        _ => return Err(EvalFailure::overload()),
    })
}

/// Adds the list `b` to `a`, a list in an object. If the `x-kubernetes-list-type` of `a` is `set` or `map`, an item of
/// `b` replaces the item of `a` with the same value (`set`) or the same keys (`map`).
fn merged<'a>(run: &mut Run<'_>, a: &Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
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

fn moved<'a>(time: jiff::Timestamp, by: i64) -> EvalOutcome<'a> {
    let moved = time.checked_add(jiff::SignedDuration::from_nanos(by));
    let moved = moved.map_err(|_| EvalFailure::of("timestamp overflow"))?;
    Ok(Value::Timestamp(moved))
}

/// Returns the integer result of a computation. Fails for `None`, a result that is out of the range of `int`.
pub(super) fn int<'a>(number: Option<i64>) -> EvalOutcome<'a> {
    let number = number.map(Value::Int);
    number.ok_or_else(|| EvalFailure::of("integer overflow"))
}

pub(super) fn uint<'a>(number: Option<u64>) -> EvalOutcome<'a> {
    let number = number.map(Value::Uint);
    number.ok_or_else(|| EvalFailure::of("unsigned integer overflow"))
}

fn duration<'a>(nanos: Option<i64>) -> EvalOutcome<'a> {
    let duration = nanos.map(Value::Duration);
    duration.ok_or_else(|| EvalFailure::of("duration overflow"))
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => duration(a.checked_sub(*b)),
        (Value::Timestamp(a), Value::Duration(b)) => match b.checked_neg() {
            Some(back) => moved(*a, back),
            None => duration(None),
        },
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            duration(i64::try_from(a.duration_since(*b).as_nanos()).ok())
        }
        _ => Err(EvalFailure::overload()),
    }
}

fn multiply<'a>(a: &Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(EvalFailure::overload()),
    }
}

fn divide<'a>(a: &Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalFailure::of("division by zero"))
        }
        (Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a / b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(EvalFailure::overload()),
    }
}

fn modulo<'a>(a: &Value<'a>, b: &Value<'a>) -> EvalOutcome<'a> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalFailure::of("modulus by zero"))
        }
        (Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a % b)),
        _ => Err(EvalFailure::overload()),
    }
}

fn compare<'a>(
    run: &mut Run<'_>,
    a: &Value<'_>,
    b: &Value<'_>,
    holds: fn(Ordering) -> bool,
) -> EvalOutcome<'a> {
    let cost = match (a, b) {
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) => {
            scaled(a.size().min(b.size()), PER_CHARACTER)
        }
        _ => 1,
    };
    run.charge(cost)?;
    match a.compare(b) {
        Some(order) => Ok(Value::Bool(holds(order))),
        // Every comparison with NaN is false.
        None if matches!((a, b), (Value::Double(_), _) | (_, Value::Double(_))) => {
            Ok(Value::Bool(false))
        }
        None => Err(EvalFailure::overload()),
    }
}

pub(crate) fn contained<'a>(run: &mut Run<'_>, one: &Value<'a>, of: &Value<'a>) -> EvalOutcome<'a> {
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
    Err(EvalFailure::overload())
}

pub(crate) fn index<'a>(of: &Value<'a>, index: &Value<'a>) -> EvalOutcome<'a> {
    let Some(key) = index.key() else {
        let index = printing::print(index).unwrap_or_default();
        return Err(EvalFailure::Error(if of.is_list() {
            format!("unsupported index value {index} in list")
        } else {
            format!("no such key: {index}")
        }));
    };
    select(of, &key)
}
