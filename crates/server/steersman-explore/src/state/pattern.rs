//! Machine: learns from the values of several runs which parts of a value vary, and hides these parts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::field_path::join_member;
use crate::state::lists::{ListKey, content};

const VARIES: &str = "<varies>";

/// A value as the runs have it.
#[derive(Debug)]
pub(super) enum ValuePattern {
    /// The runs have the same value.
    Same(Value),
    /// The runs have different values.
    Varies,
    /// The runs have objects.
    Members(MemberPatterns),
    /// The runs have lists with a key.
    Keyed(ListKey, MemberPatterns),
    /// The runs have lists of the same length.
    Items(Vec<Self>),
    /// The runs have the same items in different orders.
    AnyOrder(Vec<Value>),
}

/// The members of an object by their names, or the items of a list by their keys.
#[derive(Debug)]
pub(super) struct MemberPatterns {
    /// `None` for a member that some of the runs do not have.
    members: BTreeMap<String, Option<ValuePattern>>,
    /// Whether each run has members that not all runs have. Their names are then probably random, and members with
    /// other names are not compared.
    has_random_names: bool,
}

impl ValuePattern {
    /// Learns from the values of the runs.
    pub(super) fn learn(runs: &[&Value]) -> Self {
        let Some((first, others)) = runs.split_first() else {
            return Self::Varies;
        };
        if others.iter().all(|other| other == first) {
            return Self::Same((*first).clone());
        }
        let objects: Option<Vec<_>> = runs.iter().map(|run| run.as_object()).collect();
        if let Some(objects) = objects {
            let maps: Vec<_> = objects.into_iter().map(named).collect();
            return Self::Members(MemberPatterns::learn(&maps));
        }
        let lists: Option<Vec<&[Value]>> = runs
            .iter()
            .map(|run| run.as_array().map(Vec::as_slice))
            .collect();
        let Some(lists) = lists else {
            return Self::Varies;
        };
        if let Some(key) = ListKey::of(&lists) {
            let maps: Vec<_> = lists.iter().map(|items| keyed(key, items)).collect();
            return Self::Keyed(key, MemberPatterns::learn(&maps));
        }
        let length = lists[0].len();
        if lists.iter().any(|items| items.len() != length) {
            return Self::Varies;
        }
        let ordered = if length > 1 {
            in_order(lists[0])
        } else {
            Vec::new()
        };
        if length > 1 && lists.iter().all(|items| in_order(items) == ordered) {
            return Self::AnyOrder(ordered);
        }
        let mut patterns = Vec::new();
        for at in 0..length {
            let items: Vec<&Value> = lists.iter().map(|items| &items[at]).collect();
            patterns.push(Self::learn(&items));
        }
        Self::Items(patterns)
    }

    /// Returns the value of the runs, with `<varies>` in place of the parts that vary.
    pub(super) fn expected(&self) -> Value {
        // Loops instead of iterators: the frames of iterators would limit the depth of objects.
        match self {
            Self::Same(value) => value.clone(),
            Self::Varies => VARIES.into(),
            Self::Members(patterns) => {
                let mut members = Map::new();
                for (name, member) in &patterns.members {
                    members.insert(name.clone(), expected_member(member.as_ref()));
                }
                members.into()
            }
            Self::Keyed(_, patterns) => {
                let mut items = Vec::new();
                for item in patterns.members.values() {
                    items.push(expected_member(item.as_ref()));
                }
                items.into()
            }
            Self::Items(patterns) => {
                let mut items = Vec::new();
                for pattern in patterns {
                    items.push(pattern.expected());
                }
                items.into()
            }
            Self::AnyOrder(items) => items.clone().into(),
        }
    }

    /// Returns a value of a world with `<varies>` in place of the parts that vary. The result equals the
    /// [expected](Self::expected) value if the other parts do.
    pub(super) fn hide(&self, found: &Value) -> Value {
        match (self, found) {
            (Self::Varies, _) => VARIES.into(),
            (Self::Members(patterns), Value::Object(members)) => {
                patterns.hide_members(members).into()
            }
            (Self::Keyed(key, patterns), Value::Array(items)) => {
                patterns.hide_items(*key, items).into()
            }
            (Self::Items(patterns), Value::Array(items)) => hide_in_order(patterns, items).into(),
            (Self::AnyOrder(_), Value::Array(items)) => in_order(items).into(),
            (_, found) => found.clone(),
        }
    }

    /// Adds the paths of the parts that vary.
    pub(super) fn describe(&self, path: &str, found: &mut Vec<String>) {
        match self {
            Self::Same(_) => {}
            Self::Varies => found.push(path.to_owned()),
            Self::Members(patterns) => {
                for (name, member) in &patterns.members {
                    describe_member(member.as_ref(), &join_member(path, name), found);
                }
                if patterns.has_random_names {
                    found.push(if path.is_empty() {
                        "*".to_owned()
                    } else {
                        format!("{path}.*")
                    });
                }
            }
            Self::Keyed(_, patterns) => {
                for (at, item) in patterns.members.values().enumerate() {
                    describe_member(item.as_ref(), &format!("{path}[{at}]"), found);
                }
                if patterns.has_random_names {
                    found.push(format!("{path}[*]"));
                }
            }
            Self::Items(items) => {
                for (at, item) in items.iter().enumerate() {
                    item.describe(&format!("{path}[{at}]"), found);
                }
            }
            Self::AnyOrder(_) => found.push(format!("order of {path}")),
        }
    }
}

impl MemberPatterns {
    fn learn(runs: &[BTreeMap<String, &Value>]) -> Self {
        let in_all = |name: &String| runs.iter().all(|run| run.contains_key(name));
        let has_random_names = runs.iter().all(|run| run.keys().any(|name| !in_all(name)));
        let mut members = BTreeMap::new();
        for name in runs.iter().flat_map(BTreeMap::keys) {
            if members.contains_key(name) {
                continue;
            }
            let values: Option<Vec<&Value>> =
                runs.iter().map(|run| run.get(name).copied()).collect();
            members.insert(
                name.clone(),
                values.map(|values| ValuePattern::learn(&values)),
            );
        }
        if has_random_names {
            members.retain(|_, member| member.is_some());
        }
        Self {
            members,
            has_random_names,
        }
    }

    fn hide_members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = Map::new();
        for (name, member) in members {
            if let Some(value) = self.hide(name, member) {
                shown.insert(name.clone(), value);
            }
        }
        for name in self.optional() {
            shown.insert(name.clone(), VARIES.into());
        }
        shown
    }

    fn hide_items(&self, key: ListKey, items: &[Value]) -> Vec<Value> {
        let mut by_key = BTreeMap::new();
        // Items without the key, and a second item with the same key: the runs have no such items.
        let mut others = Vec::new();
        for item in items {
            match key.text(item) {
                Some(text) if !by_key.contains_key(&text) => {
                    if let Some(value) = self.hide(&text, item) {
                        by_key.insert(text, value);
                    }
                }
                _ => others.push(item.clone()),
            }
        }
        for text in self.optional() {
            by_key.insert(text.clone(), VARIES.into());
        }
        by_key.into_values().chain(others).collect()
    }

    /// Returns the value to show for a member of a world; `None` if the member is not compared.
    fn hide(&self, name: &str, found: &Value) -> Option<Value> {
        match self.members.get(name) {
            Some(Some(pattern)) => Some(pattern.hide(found)),
            Some(None) => None,
            None => (!self.has_random_names).then(|| found.clone()),
        }
    }

    /// Returns the names of the members that some of the runs do not have.
    fn optional(&self) -> impl Iterator<Item = &String> {
        let members = self.members.iter().filter(|(_, member)| member.is_none());
        members.map(|(name, _)| name)
    }
}

fn hide_in_order(patterns: &[ValuePattern], items: &[Value]) -> Vec<Value> {
    let mut shown = Vec::new();
    for (at, item) in items.iter().enumerate() {
        shown.push(match patterns.get(at) {
            Some(pattern) => pattern.hide(item),
            None => item.clone(),
        });
    }
    shown
}

fn expected_member(member: Option<&ValuePattern>) -> Value {
    match member {
        Some(pattern) => pattern.expected(),
        None => VARIES.into(),
    }
}

fn describe_member(member: Option<&ValuePattern>, path: &str, found: &mut Vec<String>) {
    match member {
        Some(pattern) => pattern.describe(path, found),
        None => found.push(path.to_owned()),
    }
}

fn named(members: &Map<String, Value>) -> BTreeMap<String, &Value> {
    members
        .iter()
        .map(|(name, member)| (name.clone(), member))
        .collect()
}

fn keyed(key: ListKey, items: &[Value]) -> BTreeMap<String, &Value> {
    items
        .iter()
        .filter_map(|item| Some((key.text(item)?, item)))
        .collect()
}

/// Returns the items of a list in an order that depends on their content alone.
fn in_order(items: &[Value]) -> Vec<Value> {
    let mut ordered = items.to_vec();
    ordered.sort_by_cached_key(content);
    ordered
}
