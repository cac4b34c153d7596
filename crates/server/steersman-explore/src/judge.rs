//! Machine: judges one world: rules after each write, constant fields, and the state whenever the operator is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::finding::{ComparedState, Problem};
use crate::object_id::{ObjectId, ObjectMap};
use crate::reference::Reference;
use crate::scenario::Scenario;
use crate::world_event::ObjectChange;

/// Judges one world against the rules of its scenario and the state of the reference.
#[derive(Debug)]
pub struct Judge {
    scenario: Scenario,
    reference: Option<Arc<Reference>>,
    /// The first value of each constant field that was set, by object and path.
    constants: BTreeMap<(ObjectId, String), ConstantField>,
    /// Whether the world tries another desired state.
    is_of_desired_state: bool,
    /// The uids of the objects that the operator itself deleted.
    deleted: BTreeSet<String>,
    /// The namespace that a perturbation deleted.
    deleted_namespace: Option<String>,
    problems: Vec<Problem>,
}

/// A constant field that was set.
#[derive(Debug)]
struct ConstantField {
    value: Value,
    /// The uid of the object.
    uid: String,
}

/// The maximum number of last writes that a problem lists.
const LAST_WRITES: usize = 12;

impl Judge {
    /// Creates a judge. Without a reference, as in undisturbed worlds, no state is compared.
    #[must_use]
    pub fn new(scenario: &Scenario, reference: Option<Arc<Reference>>) -> Self {
        Self {
            scenario: scenario.clone(),
            reference,
            constants: BTreeMap::new(),
            is_of_desired_state: false,
            deleted: BTreeSet::new(),
            deleted_namespace: None,
            problems: Vec::new(),
        }
    }

    /// Judges a world with another desired state: rules of the end do not hold there, and a new object may have other values
    /// of constant fields than the one that the operator deleted, because the change may be a reason to replace it.
    #[must_use]
    pub fn of_desired_state(mut self) -> Self {
        self.is_of_desired_state = true;
        self
    }

    /// Returns whether [`after_write`](Self::after_write) needs the list of all objects.
    #[must_use]
    pub fn needs_objects(&self) -> bool {
        !self.scenario.rules.always.is_empty()
    }

    /// Judges the state after a write. `objects` is the list of all objects, or any value if none are
    /// [needed](Self::needs_objects).
    pub fn after_write(&mut self, number: usize, change: Option<&ObjectChange>, objects: &Value) {
        for rule in &self.scenario.rules.always {
            if let Some(why) = rule.broken_by(objects) {
                let (name, why) = (rule.name().to_owned(), format!("{why}: {}", rule.text()));
                let after_write = Some(number);
                add(
                    &mut self.problems,
                    Problem::BrokenRule {
                        name,
                        why,
                        after_write,
                    },
                );
            }
        }
        if let Some(change) = change {
            if let Some(before) = &change.before {
                let is_deleted =
                    |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
                if !self.is_of_desired_state && change.after.as_ref().is_none_or(is_deleted) {
                    self.deleted.insert(uid_of(before));
                }
            }
            self.check_constants(change);
        }
    }

    /// Notes that a user changed or deleted an object, so that its constant fields may be set anew.
    pub fn after_user(&mut self, id: &ObjectId) {
        self.constants.retain(|(of, _), _| of != id);
    }

    /// Notes that a perturbation deleted a namespace, of which nothing may remain at the end.
    pub fn expect_no_namespace(&mut self, name: &str) {
        self.deleted_namespace = Some(name.to_owned());
        self.constants.retain(|(of, _), _| of.namespace != name);
    }

    /// Returns whether a perturbation deleted the namespace of the scenario, so that later steps make no sense.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deleted_namespace.is_some()
    }

    /// Notes a problem that the driver saw, such as the exit of a process.
    pub fn note(&mut self, problem: Problem) {
        add(&mut self.problems, problem);
    }

    /// Returns whether a problem is noted.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Notes that the operator did not become quiet; `writes` are its write requests so far, oldest first.
    pub fn note_not_quiet(&mut self, writes: &[String]) {
        let first = writes.len().saturating_sub(LAST_WRITES);
        let last_writes = writes.get(first..).unwrap_or_default().to_vec();
        self.note(Problem::NotQuiet { last_writes });
    }

    /// Returns what is wrong with the objects when the operator is quiet: at the quiet step with this number, from 0, or,
    /// with `None`, at the end. Those that are `compared` must be the reference's; `list`, called if there are rules, makes
    /// the list of all objects that rules see. Empty if all is as it must be. The operator may still get there, so a driver
    /// asks again each time the operator is quiet.
    #[must_use]
    pub fn wrong_when_quiet(
        &self,
        quiet_step: Option<usize>,
        objects: &ObjectMap,
        compared: &ObjectMap,
        list: impl FnOnce() -> Value,
    ) -> Vec<Problem> {
        let mut wrong = Vec::new();
        if let Some(namespace) = &self.deleted_namespace {
            let is_left = |id: &&ObjectId| {
                id.namespace == *namespace || (id.kind == "Namespace" && id.name == *namespace)
            };
            let mut left: Vec<ObjectId> = objects.keys().filter(is_left).cloned().collect();
            left.extend(self.leaked(namespace, objects));
            if !left.is_empty() {
                wrong.push(Problem::Leftovers(left));
            }
            return wrong;
        }
        let rules = &self.scenario.rules;
        let finally = if quiet_step.is_none() && !self.is_of_desired_state {
            rules.finally.as_slice()
        } else {
            &[]
        };
        let has_rules = !rules.always.is_empty() || !finally.is_empty();
        let listed = has_rules.then(list).unwrap_or_default();
        for rule in rules.always.iter().chain(finally) {
            if let Some(why) = rule.broken_by(&listed) {
                let (name, why) = (rule.name().to_owned(), format!("{why}: {}", rule.text()));
                let after_write = None;
                wrong.push(Problem::BrokenRule {
                    name,
                    why,
                    after_write,
                });
            }
        }
        let states = self
            .reference
            .as_ref()
            .map(|reference| reference.states.as_slice());
        let expected = states.and_then(|states| match quiet_step {
            Some(step) => states.get(step),
            None => states.last(),
        });
        let differences = expected
            .map(|expected| expected.differences(compared))
            .unwrap_or_default();
        if !differences.is_empty() {
            wrong.push(Problem::WrongState {
                quiet_step,
                than: ComparedState::Undisturbed,
                differences,
            });
        }
        wrong
    }

    /// Ends the world. Returns all problems, those of its end last.
    #[must_use]
    pub fn finish(mut self, at_end: Vec<Problem>) -> Vec<Problem> {
        for problem in at_end {
            add(&mut self.problems, problem);
        }
        self.problems
    }

    /// Returns the objects outside of a deleted namespace that the operator made for it: those that the reference does not
    /// end with. Empty if the user asked for more than the namespace held, because that may need them.
    fn leaked(&self, namespace: &str, objects: &ObjectMap) -> Vec<ObjectId> {
        let reference = self.reference.as_ref();
        let expected = reference.and_then(|reference| reference.states.last());
        let Some(expected) = expected.filter(|_| self.scenario.stays_in(namespace)) else {
            return Vec::new();
        };
        let differences = expected.differences(objects).into_iter();
        differences
            .filter(|difference| difference.expected.is_none())
            .map(|difference| difference.object)
            .filter(|id| id.namespace != namespace && !self.scenario.applies(id))
            .filter(|id| id.kind != "Namespace")
            .collect()
    }

    fn check_constants(&mut self, change: &ObjectChange) {
        let Some(after) = &change.after else {
            return;
        };
        let constant = &self.scenario.rules.constant;
        for one in constant.iter().filter(|one| one.kind == change.id.kind) {
            for (field, value) in one.field.find(after) {
                let key = (change.id.clone(), field);
                let uid = uid_of(after);
                // An object that another client or the garbage collector deleted takes its constants with it.
                let known = self
                    .constants
                    .get(&key)
                    .filter(|known| known.uid == uid || self.deleted.contains(&known.uid));
                match known {
                    None => {
                        let value = value.clone();
                        self.constants.insert(key, ConstantField { value, uid });
                    }
                    Some(known) if known.value != *value => {
                        let (object, field) = key;
                        let (before, after) = (known.value.clone(), value.clone());
                        let problem = Problem::ChangedConstant {
                            object,
                            field,
                            before,
                            after,
                        };
                        add(&mut self.problems, problem);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Adds a problem, unless an equal one is known.
fn add(problems: &mut Vec<Problem>, problem: Problem) {
    let signature = problem.signature();
    if problems.iter().all(|known| known.signature() != signature) {
        problems.push(problem);
    }
}

#[cfg(test)]
mod tests;
