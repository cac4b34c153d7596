//! Words: the paths of fields in `fieldPath` of rules and in `selectableFields` of CRDs.

use crate::structural::{Additional, Structural};

/// Parses a path such as `.spec['a.b']`, relative to a value with the schema `schema`. Returns the path as error
/// messages print it; `None` for an invalid path and for a field that the schema does not have.
pub fn field_path(path: &str, schema: &Structural) -> Option<String> {
    let mut at = schema;
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let end = closing_quote(after)?;
            name = unescaped(&after[..end])?;
            rest = after[end + 1..].strip_prefix(']')?;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        }
        if !at.properties.is_empty() {
            at = at.properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else if let Additional::Schema(values) = &at.additional {
            at = values;
            out.push_str(&format!("[{name}]"));
        } else {
            return None;
        }
    }
    Some(out)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_read_against_the_schema() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}));
        for (path, expected) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            ("['a']['b.c']", Some("a.b.c")),
            (".m['k']", Some("m[k]")),
            (".m.k", Some("m[k]")),
            (".zz", None),
            ("a", None),
            (".", None),
            (".a.", None),
            (".a['b", None),
            (".m['a\\'b']", Some("m[a'b]")),
        ] {
            assert_eq!(field_path(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
