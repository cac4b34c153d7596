//! Machine: the state that an undisturbed operator reaches, at a quiet step or at the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::finding::StateDifference;
use crate::object_id::{ObjectId, ObjectMap};
use crate::scenario::{IgnoredPart, ScenarioRules};
use crate::state::generated::NamePass;
use crate::state::pattern::ValuePattern;
use crate::state::plain::PlainState;
use crate::state::renaming::Renaming;

/// The state that an undisturbed operator reaches, at a quiet step or at the end, with the parts that differ from run
/// to run.
#[derive(Debug)]
pub struct Expected {
    ignore: Vec<IgnoredPart>,
    /// The members that hold versions of objects in all runs.
    version_members: BTreeSet<String>,
    /// The numbers of Namespaces, then those of all other objects.
    renamings: Vec<Renaming>,
    /// `None` for an object that some of the runs do not have.
    objects: BTreeMap<ObjectId, Option<ExpectedObject>>,
}

#[derive(Debug)]
struct ExpectedObject {
    pattern: ValuePattern,
    /// The value of the pattern.
    value: Value,
}

impl Expected {
    /// Learns from the states of several undisturbed runs (at least one).
    ///
    /// Servers with different seeds must have run them: a random value that is equal in all runs counts as a value that
    /// the operator chose.
    #[must_use]
    pub fn learn(runs: &[ObjectMap], rules: &ScenarioRules) -> Self {
        let ignore = rules.ignore.clone();
        let mut states: Vec<PlainState> = runs
            .iter()
            .map(|run| PlainState::of(run, &ignore))
            .collect();
        let members: Vec<BTreeSet<String>> =
            states.iter().map(PlainState::version_members).collect();
        let mut version_members = members.first().cloned().unwrap_or_default();
        version_members.retain(|name| members.iter().all(|members| members.contains(name)));
        for state in &mut states {
            state.holders.set_version_members(version_members.clone());
        }
        let passes = [NamePass::Namespaces, NamePass::OtherObjects];
        let renamings = passes.map(|pass| Renaming::learn(&mut states, pass)).into();
        let states: Vec<ObjectMap> = states.into_iter().map(PlainState::finish).collect();
        let mut objects = BTreeMap::new();
        for id in states.iter().flat_map(BTreeMap::keys) {
            if objects.contains_key(id) {
                continue;
            }
            let values: Option<Vec<&Value>> = states.iter().map(|state| state.get(id)).collect();
            let object = values.map(|values| {
                let pattern = ValuePattern::learn(&values);
                let value = pattern.expected();
                ExpectedObject { pattern, value }
            });
            objects.insert(id.clone(), object);
        }
        Self {
            ignore,
            version_members,
            renamings,
            objects,
        }
    }

    /// Returns how the objects of a world differ, sorted by their identities; empty if they are the same.
    #[must_use]
    pub fn differences(&self, objects: &ObjectMap) -> Vec<StateDifference> {
        let mut state = PlainState::of(objects, &self.ignore);
        let version_members = self.version_members.clone();
        state.holders.set_version_members(version_members);
        for renaming in &self.renamings {
            renaming.apply(&mut state);
        }
        let mut found = state.finish();
        let mut differences = Vec::new();
        for (id, object) in &self.objects {
            let found = found.remove(id);
            let Some(object) = object else {
                continue;
            };
            let is_same = |found: &Option<Value>| found.as_ref() == Some(&object.value);
            if is_same(&found) {
                continue;
            }
            let found = found.map(|found| object.pattern.hide(&found));
            if !is_same(&found) {
                differences.push(StateDifference {
                    object: id.clone(),
                    expected: Some(object.value.clone()),
                    found,
                });
            }
        }
        let additional = found.into_iter().map(|(object, value)| StateDifference {
            object,
            expected: None,
            found: Some(value),
        });
        differences.extend(additional);
        differences.sort_by(|one, other| one.object.cmp(&other.object));
        differences
    }

    /// Describes the parts that are not compared because they differ from run to run, such as
    /// `Secret shop/a: data.password`. A line without a path names an object that some of the runs do not have; `.*` or
    /// `[*]` stands for members or items with random names.
    #[must_use]
    pub fn varying(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (id, object) in &self.objects {
            let Some(object) = object else {
                lines.push(id.to_string());
                continue;
            };
            let mut paths = Vec::new();
            object.pattern.describe("", &mut paths);
            lines.extend(paths.into_iter().map(|path| format!("{id}: {path}")));
        }
        lines
    }
}
