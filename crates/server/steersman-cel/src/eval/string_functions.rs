//! Machine: the functions of strings. Indexes count characters.

use std::sync::Arc;

use regex::Regex;

use super::run::{Failure, Outcome, Run};
use crate::value::Value;
use crate::value::printing;

/// Applies a function of strings. Returns `None` if `name` is not a function of strings.
pub(super) fn apply<'a>(
    run: &mut Run<'a, '_>,
    name: &str,
    values: &[Value<'a>],
) -> Option<Outcome<'a>> {
    let Some((Value::Text(text), rest)) = values.split_first() else {
        return None;
    };
    let made = match (name, rest) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [Value::Text(pattern)]) => run
            .pattern(pattern)
            .map(|pattern| Value::Bool(pattern.is_match(text))),
        ("find", [Value::Text(pattern)]) => search_pattern(run, pattern).map(|pattern| {
            let found = pattern.find(text).map_or("", |found| found.as_str());
            Value::text(found)
        }),
        ("findAll", [Value::Text(pattern), most @ ..]) => find_all(run, text, pattern, most),
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf" | "lastIndexOf", [Value::Text(part), from @ ..]) => {
            index_of(name, text, part, from)
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("replace", [Value::Text(from), Value::Text(to), most @ ..]) => {
            replace(run, text, from, to, most)
        }
        ("split", [Value::Text(by), most @ ..]) => split(text, by, most),
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        ("strings.quote", []) => Ok(Value::text(quoted(text))),
        ("format", [arguments]) if arguments.is_list() => formatted(text, arguments),
        _ => return None,
    };
    Some(made)
}

fn formatted<'a>(pattern: &str, arguments: &Value<'a>) -> Outcome<'a> {
    let arguments = arguments.items()?;
    Ok(Value::text(printing::format(pattern, &arguments)?))
}

fn out_of_range<'a>(at: i64) -> Outcome<'a> {
    Err(Failure::of(format!("index out of range: {at}")))
}

fn char_at<'a>(text: &str, at: i64) -> Outcome<'a> {
    let count = text.chars().count();
    match usize::try_from(at) {
        Ok(at) if at <= count => {
            let found: String = text.chars().nth(at).into_iter().collect();
            Ok(Value::text(found))
        }
        _ => out_of_range(at),
    }
}

fn index_of<'a>(name: &str, text: &str, part: &str, from: &[Value<'a>]) -> Outcome<'a> {
    let count = text.chars().count();
    let first = name == "indexOf";
    let from = match from {
        [] if first => 0,
        // The search for the last occurrence starts at the last character.
        [] if part.is_empty() || text.len() < part.len() => {
            let end = i64::try_from(count).unwrap_or(i64::MAX);
            return Ok(Value::Int(if part.is_empty() { end } else { -1 }));
        }
        [] => i64::try_from(count).unwrap_or(i64::MAX) - 1,
        [Value::Int(from)] => *from,
        _ => return Err(Failure::missing(name)),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(from_character) = usize::try_from(from) else {
        return out_of_range(from);
    };
    if from_character >= count {
        return Ok(Value::Int(-1));
    }
    // Converts a number of characters to a number of bytes.
    let offset = |count: usize| {
        text.char_indices()
            .nth(count)
            .map_or(text.len(), |(at, _)| at)
    };
    let start = offset(from_character);
    let found = if first {
        text[start..].find(part).map(|at| start + at)
    } else {
        let end = start.saturating_add(part.len()).min(text.len());
        let end = (end..=text.len()).find(|at| text.is_char_boundary(*at));
        let end = end.unwrap_or(text.len());
        text[..end].rfind(part).filter(|at| *at <= start)
    };
    let found = found.map(|at| text[..at].chars().count());
    let found = found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX));
    Ok(Value::Int(found))
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Outcome<'a> {
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let end = to.unwrap_or(count);
    if from > end && to.is_some() {
        let why = format!("invalid substring range. start: {from}, end: {end}");
        return Err(Failure::Error(why));
    }
    if from < 0 || from > count {
        return out_of_range(from);
    }
    if end < 0 || end > count {
        return out_of_range(end);
    }
    let (skipped, kept) = (usize::try_from(from), usize::try_from(end - from));
    let (skipped, kept) = (skipped.unwrap_or_default(), kept.unwrap_or_default());
    let part: String = text.chars().skip(skipped).take(kept).collect();
    Ok(Value::text(part))
}

/// Returns the maximum number of repetitions, or `None` if the argument is absent or negative.
fn limit(most: &[Value<'_>]) -> Option<usize> {
    match most {
        [Value::Int(most)] => usize::try_from(*most).ok(),
        _ => None,
    }
}

fn replace<'a>(
    run: &mut Run<'a, '_>,
    text: &str,
    from: &str,
    to: &str,
    most: &[Value<'a>],
) -> Outcome<'a> {
    let places = if from.is_empty() {
        text.len() + 1
    } else {
        text.len() / from.len()
    };
    let places = limit(most).map_or(places, |most| most.min(places));
    // The result may be much longer than the inputs.
    run.work(places.saturating_mul(to.len()) / 8)?;
    Ok(Value::text(match limit(most) {
        Some(most) => text.replacen(from, to, most),
        None => text.replace(from, to),
    }))
}

fn split<'a>(text: &str, by: &str, most: &[Value<'a>]) -> Outcome<'a> {
    let part = |part: &str| Value::text(part);
    let parts: Vec<Value<'a>> = if by.is_empty() {
        let most = limit(most).unwrap_or(usize::MAX);
        let mut rest = text;
        let mut parts = Vec::new();
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 >= most {
                break;
            }
            parts.push(part(&rest[..c.len_utf8()]));
            rest = &rest[c.len_utf8()..];
        }
        if !rest.is_empty() && most > 0 {
            parts.push(part(rest));
        }
        parts
    } else {
        match limit(most) {
            Some(0) => Vec::new(),
            Some(most) => text.splitn(most, by).map(part).collect(),
            None => text.split(by).map(part).collect(),
        }
    };
    Ok(Value::List(Arc::new(parts)))
}

/// Returns the compiled pattern of a search.
fn search_pattern(run: &mut Run<'_, '_>, pattern: &str) -> Result<Regex, Failure> {
    run.pattern(pattern).map_err(|failure| match failure {
        Failure::Error(why) => Failure::Error(format!("Illegal regex: {why}")),
        limit @ Failure::Limit => limit,
    })
}

fn find_all<'a>(
    run: &mut Run<'a, '_>,
    text: &str,
    pattern: &str,
    most: &[Value<'a>],
) -> Outcome<'a> {
    let pattern = search_pattern(run, pattern)?;
    let most = limit(most).unwrap_or(usize::MAX);
    let found = pattern.find_iter(text).take(most);
    let found: Vec<Value<'a>> = found.map(|found| Value::text(found.as_str())).collect();
    Ok(Value::List(found.into()))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
