//! Machine: the functions of strings. Indexes count characters, not bytes.

use std::sync::Arc;

use regex::Regex;

use super::{CHARACTERS, CHARACTERS_TWICE, Cost, Row};
use crate::cost_range::{PER_CHARACTER, PER_PATTERN_CHARACTER, Range};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::Value;
use crate::value::printing;

/// The cost of a call that searches a string for another string (the second value): the product of their lengths.
const PRODUCT: Cost = Cost::Sizes(|size| {
    let part = size(1).scaled(PER_CHARACTER);
    size(0).scaled(PER_CHARACTER).times(part)
});

/// The cost of a call that searches a string for a regular expression (the second value).
const SEARCH: Cost = Cost::Sizes(|size| {
    let text = size(0).plus(Range::exactly(1)).scaled(PER_CHARACTER);
    text.times(size(1).scaled(PER_PATTERN_CHARACTER))
});

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("contains", "contains_string (s.s)b",
        PRODUCT, accepts!(|[Value::Text(text), Value::Text(part)]| Ok(Value::Bool(text.contains(&**part))))),
    ("startsWith", "starts_with_string (s.s)b",
        CHARACTERS, accepts!(|[Value::Text(text), Value::Text(part)]| Ok(Value::Bool(text.starts_with(&**part))))),
    ("endsWith", "ends_with_string (s.s)b",
        CHARACTERS, accepts!(|[Value::Text(text), Value::Text(part)]| Ok(Value::Bool(text.ends_with(&**part))))),
    ("matches", "matches (ss)b", Cost::PerCall, matches_function),
    ("matches", "matches_string (s.s)b", SEARCH, matches),
    ("find", "string_find_string (s.s)s",
        SEARCH, accepts!(|run, [Value::Text(text), Value::Text(pattern)]| find(run, text, pattern))),
    ("findAll", "string_find_all_string (s.s)ls string_find_all_string_int (s.si)ls",
        SEARCH,
        accepts!(|run, [Value::Text(text), Value::Text(pattern), most @ ..]| find_all(run, text, pattern, limit(most)))),
    ("charAt", "string_char_at_int (s.i)s",
        Cost::PerCall, accepts!(|[Value::Text(text), Value::Int(at)]| char_at(text, *at))),
    ("substring", "string_substring_int (s.i)s string_substring_int_int (s.ii)s",
        CHARACTERS, substring),
    ("split", "string_split_string (s.s)ls string_split_string_int (s.si)ls",
        CHARACTERS_TWICE,
        accepts!(|[Value::Text(text), Value::Text(by), most @ ..]| Ok(split(text, by, limit(most))))),
    ("replace", "string_replace_string_string (s.ss)s string_replace_string_string_int (s.ssi)s",
        CHARACTERS_TWICE,
        accepts!(|run, [Value::Text(text), Value::Text(from), Value::Text(to), most @ ..]| replace(run, text, from, to, limit(most)))),
    ("lowerAscii", "string_lower_ascii (s.)s",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::text(text.to_ascii_lowercase())))),
    ("upperAscii", "string_upper_ascii (s.)s",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::text(text.to_ascii_uppercase())))),
    ("trim", "string_trim (s.)s",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::text(text.trim())))),
    ("strings.quote", "strings_quote (s)s",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::text(quoted(text))))),
    ("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string (s)s",
        CHARACTERS, accepts!(|[Value::Text(key)]| Ok(Value::text(key.replace('~', "~0").replace('/', "~1"))))),
    ("format", "string_format (s.l*)s",
        CHARACTERS, format),
];

fn format<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [Value::Text(pattern), arguments] = values else {
        return None;
    };
    if !arguments.is_list() {
        return None;
    }
    Some(formatted(pattern, arguments))
}

fn formatted<'a>(pattern: &str, arguments: &Value<'_>) -> EvalOutcome<'a> {
    let text = printing::format(pattern, &arguments.items()?)?;
    Ok(Value::text(text))
}

/// Evaluates `matches(text, pattern)`. As in cel-go, it costs 1, so the text's length counts as steps (CEL-1).
fn matches_function<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    if let [Value::Text(text), _] = values
        && let Err(limit) = run.work(text.len())
    {
        return Some(Err(limit));
    }
    matches(run, values)
}

fn matches<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [Value::Text(text), Value::Text(pattern)] = values else {
        return None;
    };
    let pattern = run.pattern(pattern);
    Some(pattern.map(|pattern| Value::Bool(pattern.is_match(text))))
}

fn out_of_range<'a>(at: i64) -> EvalOutcome<'a> {
    Err(EvalFailure::of(format!("index out of range: {at}")))
}

fn char_at<'a>(text: &str, at: i64) -> EvalOutcome<'a> {
    let count = text.chars().count();
    match usize::try_from(at) {
        Ok(index) if index <= count => {
            let found: String = text.chars().nth(index).into_iter().collect();
            Ok(Value::text(found))
        }
        _ => out_of_range(at),
    }
}

/// Returns the index of the first or last occurrence of a string in another string, in characters; -1 if there is none.
pub(super) fn index_of<'a>(values: &[Value<'a>], first: bool) -> Option<EvalOutcome<'a>> {
    let (text, part, from) = match values {
        [Value::Text(text), Value::Text(part)] => (text, part, None),
        [Value::Text(text), Value::Text(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return None,
    };
    Some(find_from(text, part, from, first))
}

fn find_from<'a>(text: &str, part: &str, from: Option<i64>, first: bool) -> EvalOutcome<'a> {
    let count = text.chars().count();
    let from = match from {
        Some(from) => from,
        None if first => 0,
        // `lastIndexOf` without a start index: an empty string is found at the end, and a string longer than the text
        // is not found.
        None if part.is_empty() || text.len() < part.len() => {
            let end = i64::try_from(count).unwrap_or(i64::MAX);
            return Ok(Value::Int(if part.is_empty() { end } else { -1 }));
        }
        // `lastIndexOf` without a start index: any other string is searched backwards from the last character.
        None => i64::try_from(count).unwrap_or(i64::MAX) - 1,
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
    // The position, in bytes, at which the search starts.
    let start = text
        .char_indices()
        .nth(from_character)
        .map_or(text.len(), |(at, _)| at);
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

fn substring<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    match values {
        [Value::Text(text), Value::Int(from)] => Some(part_of(text, *from, None)),
        [Value::Text(text), Value::Int(from), Value::Int(to)] => {
            Some(part_of(text, *from, Some(*to)))
        }
        _ => None,
    }
}

fn part_of<'a>(text: &str, from: i64, to: Option<i64>) -> EvalOutcome<'a> {
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let end = to.unwrap_or(count);
    if from > end && to.is_some() {
        let why = format!("invalid substring range. start: {from}, end: {end}");
        return Err(EvalFailure::Error(why));
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

/// Returns the maximum number of parts or replacements; `None`, for an absent or negative argument, means no limit.
fn limit(most: &[Value<'_>]) -> Option<usize> {
    match most {
        [Value::Int(most)] => usize::try_from(*most).ok(),
        _ => None,
    }
}

fn replace<'a>(
    run: &mut Run<'_>,
    text: &str,
    from: &str,
    to: &str,
    most: Option<usize>,
) -> EvalOutcome<'a> {
    let places = if from.is_empty() {
        text.len() + 1
    } else {
        text.len() / from.len()
    };
    let places = most.map_or(places, |most| most.min(places));
    // The result may be far longer than the arguments, so its length counts as steps of the run (CEL-1).
    run.work(places.saturating_mul(to.len()) / 8)?;
    Ok(Value::text(match most {
        Some(most) => text.replacen(from, to, most),
        None => text.replace(from, to),
    }))
}

fn split<'a>(text: &str, by: &str, most: Option<usize>) -> Value<'a> {
    let part = |part: &str| Value::text(part);
    let parts: Vec<Value<'a>> = if by.is_empty() {
        let most = most.unwrap_or(usize::MAX);
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
        match most {
            Some(0) => Vec::new(),
            Some(most) => text.splitn(most, by).map(part).collect(),
            None => text.split(by).map(part).collect(),
        }
    };
    Value::List(Arc::new(parts))
}

fn search_pattern(run: &mut Run<'_>, pattern: &str) -> Result<Regex, EvalFailure> {
    run.pattern(pattern).map_err(|failure| match failure {
        EvalFailure::Error(why) => EvalFailure::Error(format!("Illegal regex: {why}")),
        limit @ EvalFailure::Limit => limit,
    })
}

fn find<'a>(run: &mut Run<'_>, text: &str, pattern: &str) -> EvalOutcome<'a> {
    let pattern = search_pattern(run, pattern)?;
    let found = pattern.find(text).map_or("", |found| found.as_str());
    Ok(Value::text(found))
}

fn find_all<'a>(
    run: &mut Run<'_>,
    text: &str,
    pattern: &str,
    most: Option<usize>,
) -> EvalOutcome<'a> {
    let pattern = search_pattern(run, pattern)?;
    let found = pattern.find_iter(text).take(most.unwrap_or(usize::MAX));
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
