//! Words: the path of one field of an object.

use serde_json::{Map, Value};

/// The path of one field of an object, such as `spec.ports[0].port`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldPath(Vec<FieldStep>);

/// A step from a value to one inside of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FieldStep {
    /// The member of an object.
    Member(String),
    /// The item of a list, from 0.
    Item(usize),
}

impl FieldPath {
    pub(crate) fn member(&self, name: &str) -> Self {
        self.with(FieldStep::Member(name.to_owned()))
    }

    pub(crate) fn item(&self, at: usize) -> Self {
        self.with(FieldStep::Item(at))
    }

    /// Returns the path of a field that is below this one.
    pub(crate) fn then(&self, inner: &Self) -> Self {
        Self(self.0.iter().chain(&inner.0).cloned().collect())
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn steps(&self) -> &[FieldStep] {
        &self.0
    }

    /// Returns the value of the field; `None` if it is absent.
    pub(crate) fn find_in<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |at, step| match step {
            FieldStep::Member(name) => at.get(name),
            FieldStep::Item(number) => at.get(*number),
        })
    }

    /// Sets the field; `None` removes it. Absent objects on the way are created, and a path through another type is ignored.
    pub(crate) fn set(&self, object: &mut Value, value: Option<Value>) {
        let Some((last, before)) = self.0.split_last() else {
            if let Some(value) = value {
                *object = value;
            }
            return;
        };
        let mut at = object;
        for step in before {
            let next = match step {
                FieldStep::Member(name) => {
                    if at.is_null() {
                        *at = Value::Object(Map::new());
                    }
                    let members = at.as_object_mut();
                    members.map(|members| members.entry(name.as_str()).or_insert(Value::Null))
                }
                FieldStep::Item(number) => at.get_mut(*number),
            };
            let Some(next) = next else {
                return;
            };
            at = next;
        }
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        match (last, at, value) {
            (FieldStep::Member(name), Value::Object(members), Some(value)) => {
                members.insert(name.clone(), value);
            }
            (FieldStep::Member(name), Value::Object(members), None) => {
                members.remove(name);
            }
            (FieldStep::Item(number), Value::Array(items), Some(value)) => {
                if let Some(item) = items.get_mut(*number) {
                    *item = value;
                }
            }
            (FieldStep::Item(number), Value::Array(items), None) if *number < items.len() => {
                items.remove(*number);
            }
            _ => {}
        }
    }

    fn with(&self, step: FieldStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.0.iter().fold(String::new(), |path, step| match step {
            FieldStep::Member(name) => join_member(&path, name),
            FieldStep::Item(at) => format!("{path}[{at}]"),
        });
        f.write_str(&path)
    }
}

/// Returns the path of a member: `spec.replicas`, or `data["a.b"]` for a name with a dot or a bracket.
pub(crate) fn join_member(path: &str, name: &str) -> String {
    if name.is_empty() || name.contains(['.', '[', '"', '*']) {
        format!("{path}[{name:?}]")
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
