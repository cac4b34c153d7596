//! Machine: parses the path of a field of an object, and finds or removes the fields that the path names.

use serde_json::Value;
use steersman_cel::structural::{Additional, Structural};

use crate::field_path::{FieldPath, FieldStep, join_member};

/// The path of fields of an object, such as `data.password`, `spec.ports[*].nodePort` or `metadata.annotations["a.b/c"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPattern {
    text: String,
    steps: Vec<PatternStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternStep {
    Member(String),
    Item(usize),
    /// Each member of an object, or each item of a list.
    Every,
}

impl FieldPattern {
    /// Parses a path: members with dots between them, `[0]` for an item of a list, `["a.b"]` for a member with a dot in its
    /// name, and `[*]` or `*` for each member or item. A leading `$` or `.` is ignored.
    ///
    /// # Errors
    /// Fails with the reason, and the byte offset, if the text is no such path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let failed = |why: &str, rest: &str| {
            let offset = text.trim_end().len() - rest.len();
            Err(format!("{why} at offset {offset} of the path {text:?}"))
        };
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, after) = match inside.strip_prefix(['"', '\'']) {
                    Some(quoted) => {
                        let quote = if inside.starts_with('"') { '"' } else { '\'' };
                        let Some((name, after)) = quoted.split_once(quote) else {
                            return failed("a quote has no end", rest);
                        };
                        (PatternStep::Member(name.to_owned()), after)
                    }
                    None => {
                        let end = inside.find(']').unwrap_or(inside.len());
                        let (index, after) = inside.split_at(end);
                        let step = match index {
                            "*" => PatternStep::Every,
                            index => match index.parse() {
                                Ok(number) => PatternStep::Item(number),
                                Err(_) => {
                                    return failed(
                                        "a bracket has neither a number, nor *, nor a quoted name",
                                        rest,
                                    );
                                }
                            },
                        };
                        (step, after)
                    }
                };
                let Some(after) = after.strip_prefix(']') else {
                    return failed("a bracket has no end", rest);
                };
                steps.push(step);
                rest = after;
                continue;
            }
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            match name {
                "" => return failed("a member has no name", rest),
                "*" => steps.push(PatternStep::Every),
                name => steps.push(PatternStep::Member(name.to_owned())),
            }
            rest = after;
        }
        if steps.is_empty() {
            return Err("the path names no field".to_owned());
        }
        let text = text
            .trim()
            .trim_start_matches('$')
            .trim_start_matches('.')
            .to_owned();
        Ok(Self { text, steps })
    }

    /// Returns the values of the fields that the path names, with the path of each; absent fields are left out.
    #[must_use]
    pub fn find<'a>(&self, object: &'a Value) -> Vec<(String, &'a Value)> {
        let mut found = vec![(String::new(), object)];
        for step in &self.steps {
            found = found
                .into_iter()
                .flat_map(|(path, value)| step.below(&path, value))
                .collect();
        }
        found
    }

    /// Returns whether this names the field with a path, or one around it.
    pub(crate) fn covers(&self, path: &FieldPath) -> bool {
        let names = |(pattern, step): (&PatternStep, &FieldStep)| match (pattern, step) {
            (PatternStep::Every, _) => true,
            (PatternStep::Member(wanted), FieldStep::Member(name)) => wanted == name,
            (PatternStep::Item(wanted), FieldStep::Item(at)) => wanted == at,
            _ => false,
        };
        let steps = path.steps();
        self.steps.len() <= steps.len() && self.steps.iter().zip(steps).all(names)
    }

    /// Returns whether a schema has such a field, or allows any.
    pub(crate) fn is_in(&self, schema: &Structural) -> bool {
        is_in(&self.steps, schema)
    }

    /// Removes the fields that the path names.
    pub fn remove(&self, object: &mut Value) {
        remove(&self.steps, object);
    }
}

impl std::fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl PatternStep {
    fn below<'a>(&self, path: &str, value: &'a Value) -> Vec<(String, &'a Value)> {
        match (self, value) {
            (Self::Member(name), Value::Object(members)) => {
                let member = members.get(name);
                member
                    .map(|member| (join_member(path, name), member))
                    .into_iter()
                    .collect()
            }
            (Self::Item(at), Value::Array(items)) => {
                let item = items.get(*at);
                item.map(|item| (format!("{path}[{at}]"), item))
                    .into_iter()
                    .collect()
            }
            (Self::Every, Value::Object(members)) => {
                let all = members.iter();
                all.map(|(name, member)| (join_member(path, name), member))
                    .collect()
            }
            (Self::Every, Value::Array(items)) => {
                let all = items.iter().enumerate();
                all.map(|(at, item)| (format!("{path}[{at}]"), item))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

fn is_in(steps: &[PatternStep], schema: &Structural) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    let of_entry = schema.additional.schema();
    let below = |sub: Option<&Structural>| sub.is_some_and(|sub| is_in(rest, sub));
    let is_known = match step {
        PatternStep::Member(name) => below(schema.properties.get(name).or(of_entry)),
        PatternStep::Item(_) => below(schema.items.as_deref()),
        PatternStep::Every => {
            let mut members = schema.properties.iter().map(|(_, sub)| sub);
            below(schema.items.as_deref()) || below(of_entry) || members.any(|sub| is_in(rest, sub))
        }
    };
    is_known || schema.preserve_unknown || schema.additional == Additional::Any
}

fn remove(steps: &[PatternStep], value: &mut Value) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    match (step, value) {
        (PatternStep::Member(name), Value::Object(members)) => {
            if rest.is_empty() {
                members.remove(name);
            } else if let Some(member) = members.get_mut(name) {
                remove(rest, member);
            }
        }
        (PatternStep::Item(at), Value::Array(items)) => {
            if rest.is_empty() {
                // The item keeps its place, so that later items keep their numbers.
                if let Some(item) = items.get_mut(*at) {
                    *item = Value::Null;
                }
            } else if let Some(item) = items.get_mut(*at) {
                remove(rest, item);
            }
        }
        (PatternStep::Every, Value::Object(members)) => {
            if rest.is_empty() {
                members.clear();
            } else {
                members.values_mut().for_each(|member| remove(rest, member));
            }
        }
        (PatternStep::Every, Value::Array(items)) => {
            if rest.is_empty() {
                items.clear();
            } else {
                items.iter_mut().for_each(|item| remove(rest, item));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str, object: &Value) -> Vec<String> {
        let pattern = FieldPattern::parse(path).unwrap();
        let found = pattern.find(object).into_iter();
        found
            .map(|(path, value)| format!("{path}={value}"))
            .collect()
    }

    #[test]
    fn a_path_finds_members_items_and_all_of_them() {
        let object = json!({"spec": {"ports": [{"port": 1}, {"port": 2}, {}]}, "data": {"a.b": 3}});
        assert_eq!(
            found("spec.ports[1].port", &object),
            ["spec.ports[1].port=2"]
        );
        let all = ["spec.ports[0].port=1", "spec.ports[1].port=2"];
        assert_eq!(found(".spec.ports[*].port", &object), all);
        assert_eq!(found("$.data[\"a.b\"]", &object), ["data[\"a.b\"]=3"]);
        assert_eq!(found("data['a.b']", &object), ["data[\"a.b\"]=3"]);
        assert_eq!(found("data.*", &object), ["data[\"a.b\"]=3"]);
        assert!(found("data.c.d", &object).is_empty());
    }

    #[test]
    fn a_path_removes_what_it_names() {
        let mut object = json!({"a": {"b": 1, "c": [{"d": 1, "e": 2}]}});
        FieldPattern::parse("a.c[*].d").unwrap().remove(&mut object);
        FieldPattern::parse("a.b").unwrap().remove(&mut object);
        assert_eq!(object, json!({"a": {"c": [{"e": 2}]}}));
    }

    #[test]
    fn an_error_names_the_offset() {
        for (path, why) in [
            ("", "the path names no field"),
            (
                "a..b",
                "a member has no name at offset 1 of the path \"a..b\"",
            ),
            (
                "a[b]",
                "a bracket has neither a number, nor *, nor a quoted name at offset 1 of the path \"a[b]\"",
            ),
            (
                "a[0",
                "a bracket has no end at offset 1 of the path \"a[0\"",
            ),
            (
                "a[\"b",
                "a quote has no end at offset 1 of the path \"a[\\\"b\"",
            ),
        ] {
            assert_eq!(FieldPattern::parse(path).unwrap_err(), why);
        }
    }
}
