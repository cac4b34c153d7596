//! Machine: the desired states to try for the objects of a scenario, and the scenarios that try them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_cel::structural::Structural;

use super::schema_walk::{NOT_DESIRED, SchemaChange, changes};
use crate::field_path::FieldPath;
use crate::object_id::{ObjectId, ObjectMap};
use crate::scenario::{KindField, Scenario, Step, is_same};

/// The number of desired states that are tried for one object.
const MOST_CHANGES: usize = 200;

/// The length up to which a value is told in full, in characters.
const LONGEST_VALUE: usize = 60;

/// The time, in quiet times, to wait with a changed state that the operator cannot reach.
const QUIET_TIMES: u32 = 3;

/// An object of a scenario with other desired states, which its schema allows.
#[derive(Debug)]
pub(crate) struct Target {
    /// The object.
    pub(crate) id: ObjectId,
    /// The scenario up to the step at which the operator is quiet with the object as the user applied it.
    pub(crate) scenario: Scenario,
    /// The number of the quiet step at its end, from 0.
    pub(crate) quiet_step: usize,
    /// The changes to try.
    pub(crate) changes: Vec<Arc<DesiredChange>>,
    /// The number of changes beyond the maximum, which are not tried.
    pub(crate) left_out: usize,
    /// The changes that are not tried because they would change a skipped field, too.
    pub(crate) skipped: Vec<String>,
}

/// Another desired state of an object: one field is changed.
#[derive(Debug)]
pub(crate) struct DesiredChange {
    /// The field.
    pub(crate) path: FieldPath,
    /// What changes, such as `spec.replicas: 3 instead of 2`.
    pub(crate) text: String,
    /// The object before and after.
    objects: [Value; 2],
}

impl Target {
    /// Returns whether this is the object with a stored identity.
    pub(crate) fn is(&self, stored: &ObjectId) -> bool {
        is_same(&self.id, stored)
    }

    /// Returns how a condition in the status of the object differs from an earlier state, such as `Ready: "False" instead of
    /// "True"`; `None` if all are the same.
    pub(crate) fn other_condition(&self, before: &ObjectMap, after: &ObjectMap) -> Option<String> {
        let conditions = |state: &ObjectMap| {
            let object = state.iter().find(|(id, _)| self.is(id));
            let conditions = object.map(|(_, object)| object["status"]["conditions"].clone());
            let conditions = conditions.and_then(|all| all.as_array().cloned());
            let all = conditions.unwrap_or_default().into_iter();
            all.map(|one| {
                let name = one["type"].as_str().unwrap_or_default().to_owned();
                (name, one["status"].to_string())
            })
            .collect::<BTreeMap<String, String>>()
        };
        let (before, after) = (conditions(before), conditions(after));
        let absent = "nothing".to_owned();
        let mut names = before.keys().chain(after.keys());
        let name = names.find(|name| before.get(*name) != after.get(*name))?;
        let status = |all: &BTreeMap<String, String>| all.get(name).unwrap_or(&absent).clone();
        Some(format!(
            "the condition {name} is {} instead of {}",
            status(&after),
            status(&before)
        ))
    }

    /// Returns the scenario in which the object has the changed state from the beginning.
    pub(crate) fn alone(&self, change: &DesiredChange) -> Scenario {
        let [_, changed] = &change.objects;
        replaced(&self.scenario, &self.id, changed, &change.text)
    }

    /// Returns the scenario in which the user applies the changed object, waits, and applies the object as it was. With
    /// `is_quiet` the operator must become quiet with the changed object.
    pub(crate) fn there_and_back(&self, change: &DesiredChange, is_quiet: bool) -> Scenario {
        let [before, after] = &change.objects;
        let apply = |source: String, object: &Value| Step::Apply {
            source,
            objects: vec![object.clone()],
        };
        let wait = match is_quiet {
            true => Step::Quiet,
            false => Step::Pass(self.scenario.rules.quiet * QUIET_TIMES),
        };
        let mut steps = self.scenario.steps.to_vec();
        steps.extend([
            apply(change.text.clone(), after),
            wait,
            apply("the object as it was".to_owned(), before),
            Step::Quiet,
        ]);
        self.scenario.with_steps(steps)
    }
}

/// Sets the desired state of an object to that of an earlier state. Returns whether it was another one.
pub(crate) fn restore(object: &mut Value, earlier: &Value) -> bool {
    let (Some(members), Some(earlier)) = (object.as_object_mut(), earlier.as_object()) else {
        return false;
    };
    let is_desired = |name: &String| !NOT_DESIRED.contains(&name.as_str());
    let desired = |members: &Map<String, Value>| {
        let members = members.iter().filter(|(name, _)| is_desired(name));
        let owned = members.map(|(name, member)| (name.clone(), member.clone()));
        owned.collect::<Map<String, Value>>()
    };
    let before = desired(earlier);
    let is_other = desired(members) != before;
    members.retain(|name, _| !is_desired(name));
    members.extend(before);
    is_other
}

/// Returns the objects of a scenario that have other desired states: the first of each kind that has a definition among the
/// initial objects. Adds to `unmatched` the chosen fields that no such kind has.
pub(crate) fn targets(scenario: &Scenario, unmatched: &mut Vec<String>) -> Vec<Target> {
    let fields = &scenario.rules.desired_states;
    let mut missing: Vec<&KindField> = fields.only.iter().chain(&fields.skip).collect();
    let of_steps = scenario.steps.iter().flat_map(Step::objects);
    let applied = scenario.initial.iter().chain(of_steps);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for object in applied {
        let id = ObjectId::of(object);
        let Some(schema) = schema_of(scenario, object) else {
            continue;
        };
        missing.retain(|one| one.kind != id.kind || !one.field.is_in(&schema));
        if seen.insert((id.group.clone(), id.kind.clone())) {
            found.push(target(scenario, id, &schema));
        }
    }
    unmatched.extend(
        missing
            .iter()
            .map(|one| format!("{} {}", one.kind, one.field)),
    );
    found.retain(|target| !target.changes.is_empty() || !target.skipped.is_empty());
    found
}

/// Returns the schema of the version of a custom resource; `None` without a definition.
fn schema_of(scenario: &Scenario, object: &Value) -> Option<Structural> {
    let (group, version) = object["apiVersion"].as_str()?.split_once('/')?;
    let mut definitions = scenario
        .initial
        .iter()
        .filter(|one| one["kind"] == "CustomResourceDefinition");
    let definition = definitions.find(|one| {
        one["spec"]["group"] == group && one["spec"]["names"]["kind"] == object["kind"]
    })?;
    let versions = definition["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|one| one["name"] == version)?;
    let schema = &version["schema"]["openAPIV3Schema"];
    schema.is_object().then(|| Structural::compile(schema))
}

fn target(scenario: &Scenario, id: ObjectId, schema: &Structural) -> Target {
    let prefix = prefix(scenario, &id);
    let quiet_step = prefix
        .steps
        .iter()
        .filter(|step| **step == Step::Quiet)
        .count()
        .saturating_sub(1);
    let mut target = Target {
        id,
        scenario: prefix,
        quiet_step,
        changes: Vec::new(),
        left_out: 0,
        skipped: Vec::new(),
    };
    let Some(object) = last_applied(&target.scenario, &target.id) else {
        return target;
    };
    let mut defaulted = object.clone();
    schema.apply_defaults(&mut defaulted);
    let fields = &scenario.rules.desired_states;
    let mut found: Vec<(SchemaChange, Value)> = Vec::new();
    let mut stored = vec![defaulted.clone()];
    for change in changes(schema, &defaulted) {
        let mut changed = defaulted.clone();
        change.written.set(&mut changed, change.value.clone());
        let kind = &target.id.kind;
        if !fields.allow(kind, &change.path) {
            continue;
        }
        if fields.skip_differs(kind, &defaulted, &changed) {
            let text = text_of(&change, &defaulted);
            target.skipped.push(format!("{} {text}", target.id));
            continue;
        }
        let mut with_defaults = changed.clone();
        schema.apply_defaults(&mut with_defaults);
        // What the server stores alike is one desired state.
        if !stored.contains(&with_defaults) {
            stored.push(with_defaults);
            found.push((change, changed));
        }
    }
    target.left_out = found.len().saturating_sub(MOST_CHANGES);
    found.truncate(MOST_CHANGES);
    let described = found.into_iter().map(|(change, changed)| {
        Arc::new(DesiredChange {
            text: text_of(&change, &defaulted),
            path: change.path,
            objects: [object.clone(), changed],
        })
    });
    target.changes = described.collect();
    target
}

/// Returns the scenario up to the first quiet step after the object is applied, without what the user undoes of it: no
/// deletions, and no patches of the object.
fn prefix(scenario: &Scenario, id: &ObjectId) -> Scenario {
    let is_applied = |step: &Step| {
        step.objects()
            .iter()
            .any(|object| ObjectId::of(object) == *id)
    };
    let mut has_object = scenario
        .initial
        .iter()
        .any(|object| ObjectId::of(object) == *id);
    let mut steps = Vec::new();
    for step in scenario.steps.iter() {
        has_object |= is_applied(step);
        match step {
            Step::Quiet if has_object => break,
            Step::Delete { .. } => {}
            Step::Merge { object, .. } if is_same(object, id) => {}
            step => steps.push(step.clone()),
        }
    }
    steps.push(Step::Quiet);
    scenario.with_steps(steps)
}

fn last_applied(scenario: &Scenario, id: &ObjectId) -> Option<Value> {
    let of_steps = scenario.steps.iter().flat_map(Step::objects);
    let mut applied = scenario.initial.iter().chain(of_steps);
    applied.rfind(|object| ObjectId::of(object) == *id).cloned()
}

/// Returns the scenario in which the last apply of an object has other content, which `text` describes.
fn replaced(scenario: &Scenario, id: &ObjectId, changed: &Value, text: &str) -> Scenario {
    let path = |objects: &[Value]| {
        objects
            .iter()
            .rposition(|object| ObjectId::of(object) == *id)
    };
    let mut steps = scenario.steps.to_vec();
    for step in steps.iter_mut().rev() {
        if let Step::Apply { objects, source } = step
            && let Some(at) = path(objects)
        {
            objects[at] = changed.clone();
            *source = format!("{source} with {text}");
            return scenario.with_steps(steps);
        }
    }
    let mut initial = scenario.initial.to_vec();
    if let Some(at) = path(&initial) {
        initial[at] = changed.clone();
    }
    Scenario {
        initial: initial.into(),
        ..scenario.clone()
    }
}

/// Tells a change in a few words.
fn text_of(change: &SchemaChange, before: &Value) -> String {
    let path = &change.path;
    let found = path.find_in(before).filter(|value| !value.is_null());
    let mut changed = before.clone();
    change.written.set(&mut changed, change.value.clone());
    match (path.find_in(&changed), found) {
        (None, _) => format!(
            "{} without {path}",
            before["kind"].as_str().unwrap_or_default()
        ),
        (Some(after), Some(before)) => {
            format!("{path}: {} instead of {}", short(after), short(before))
        }
        (Some(after), None) => format!("{path}: {}", short(after)),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= LONGEST_VALUE {
        return text;
    }
    let begin: String = text.chars().take(LONGEST_VALUE).collect();
    format!("{begin}…")
}
