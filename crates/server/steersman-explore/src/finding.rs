//! Words: what an exploration finds wrong.

use serde_json::Value;

use crate::object_id::ObjectId;
use crate::perturbation::{Perturbation, join};
use crate::scenario::Step;
use crate::world_event::WorldEvent;

/// A violated expectation, with the world that shows it.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The perturbations of the world; empty for the undisturbed run.
    pub perturbations: Vec<Perturbation>,
    /// What is wrong.
    pub problem: Problem,
    /// The change that shows the problem, if a desired state does.
    pub change: Option<FieldChange>,
    /// The steps of the shrunk scenario, which still show the problem.
    pub steps: Vec<Step>,
    /// The number of worlds that tried the finding again.
    pub tries: usize,
    /// The number of those worlds that showed the problem again.
    pub repeated: usize,
    /// What happened in the world.
    pub events: Vec<WorldEvent>,
    /// Other perturbations that show the same problem.
    pub also: Vec<String>,
}

/// The change of a desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The kind and the path of the field, such as `Site spec.replicas`.
    pub field: String,
    /// What changes, such as `spec.replicas: 3 instead of 2`.
    pub text: String,
}

/// A violated expectation.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// The objects differ from those of the reference although the operator is quiet.
    WrongState {
        /// The number of the quiet step, from 0; `None` at the end.
        quiet_step: Option<usize>,
        /// What the state was compared with.
        than: ComparedState,
        /// The objects that differ.
        differences: Vec<StateDifference>,
    },
    /// The operator did not become quiet within the patience of the scenario.
    NotQuiet {
        /// The last write requests, oldest first, with their codes.
        last_writes: Vec<String>,
    },
    /// A restarted operator wrote although all was settled.
    SettledWrites(Vec<String>),
    /// A rule of the scenario does not hold.
    BrokenRule {
        /// The name of the rule.
        name: String,
        /// Why it does not hold.
        why: String,
        /// The number of the write after which the rule did not hold; `None` for a state in which the operator was
        /// quiet.
        after_write: Option<usize>,
    },
    /// A field that must not change once it is set has changed.
    ChangedConstant {
        /// The object.
        object: ObjectId,
        /// The field.
        field: String,
        /// The value before.
        before: Value,
        /// The value after.
        after: Value,
    },
    /// A process of the operator ended by itself.
    Exit {
        /// How it ended.
        how: String,
        /// The last lines that the process printed.
        output: Vec<String>,
    },
    /// Requests fail although the operator is quiet in the right state, and none fails in the undisturbed run; each with its
    /// error.
    Failing(Vec<String>),
    /// A reconcile panicked, with this text.
    Panic(String),
    /// A write of the operator was answered 403: the operator lacks a permission, or admission refused the write.
    Forbidden(String),
    /// Objects remain of a namespace that was deleted: the namespace itself, objects in it, or objects elsewhere that the
    /// operator made for it.
    Leftovers(Vec<ObjectId>),
}

/// What a state is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedState {
    /// The same state of an undisturbed world.
    Undisturbed,
    /// The state of a world in which the object was created with the changed field.
    CreatedChanged,
    /// The state before the object was changed, and changed back.
    BeforeChange,
}

/// How an object of a final state differs from the reference. Both values are normalized: values that differ from run to
/// run are replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct StateDifference {
    /// The object.
    pub object: ObjectId,
    /// The object in the reference; `None` if the reference does not have it.
    pub expected: Option<Value>,
    /// The object in this world; `None` if it is missing.
    pub found: Option<Value>,
}

impl Problem {
    /// Returns the kind of the problem, such as `wrong-state`; reports group by it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::WrongState { than, .. } => match than {
                ComparedState::Undisturbed => "wrong-state",
                ComparedState::CreatedChanged => "not-as-created",
                ComparedState::BeforeChange => "not-undone",
            },
            Self::NotQuiet { .. } => "not-quiet",
            Self::SettledWrites(_) => "settled-writes",
            Self::BrokenRule { .. } => "broken-rule",
            Self::ChangedConstant { .. } => "changed-constant",
            Self::Exit { .. } => "exit",
            Self::Failing(_) => "failing",
            Self::Panic(_) => "panic",
            Self::Forbidden(_) => "forbidden",
            Self::Leftovers(_) => "leftovers",
        }
    }

    /// Returns whether both are one problem, perhaps in worlds of different steps: the same rule or field, or a state with an
    /// object that is wrong in the same way in both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::WrongState { differences, .. },
                Self::WrongState {
                    differences: others,
                    ..
                },
            ) => {
                let is_shared = |one: &StateDifference| {
                    let signature = one.signature();
                    others.iter().any(|other| other.signature() == signature)
                };
                self.kind() == other.kind() && differences.iter().any(is_shared)
            }
            (Self::BrokenRule { name, .. }, Self::BrokenRule { name: other, .. }) => name == other,
            (Self::ChangedConstant { .. }, Self::ChangedConstant { .. }) => {
                self.signature() == other.signature()
            }
            _ => self.kind() == other.kind(),
        }
    }

    /// Returns the kind of the problem and its objects, without values that differ from world to world: two worlds with
    /// the same text show the same problem.
    pub(crate) fn signature(&self) -> String {
        let about = match self {
            Self::WrongState { differences, .. } => {
                let objects: Vec<String> =
                    differences.iter().map(StateDifference::signature).collect();
                objects.join("; ")
            }
            Self::NotQuiet { .. } => String::new(),
            Self::SettledWrites(writes) => writes.first().cloned().unwrap_or_default(),
            Self::BrokenRule { name, .. } => name.clone(),
            Self::ChangedConstant { object, field, .. } => format!("{object} {field}"),
            Self::Exit { how, .. } => how.clone(),
            // The error may have values that differ from world to world.
            Self::Failing(_) => String::new(),
            Self::Panic(text) => text.clone(),
            Self::Forbidden(request) => request.clone(),
            Self::Leftovers(objects) => {
                let objects: Vec<String> = objects.iter().map(ObjectId::to_string).collect();
                objects.join(", ")
            }
        };
        format!("{}: {about}", self.kind())
    }
}

impl std::fmt::Display for Problem {
    /// Prints one sentence without a full stop.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WrongState {
                quiet_step,
                than,
                differences,
            } => {
                let objects: Vec<String> =
                    differences.iter().map(StateDifference::signature).collect();
                match (than, quiet_step) {
                    (ComparedState::BeforeChange, _) => {
                        f.write_str("the state after the way back")?
                    }
                    (_, None) => f.write_str("the final state")?,
                    (_, Some(step)) => write!(f, "the state at quiet step {}", step + 1)?,
                }
                write!(f, " differs from {}: {}", than.name(), objects.join("; "))
            }
            Self::NotQuiet { last_writes } => {
                let last = last_writes.last().map_or("nothing", String::as_str);
                write!(
                    f,
                    "the operator does not become quiet; its last write is {last}"
                )
            }
            Self::SettledWrites(writes) => {
                write!(
                    f,
                    "a restart writes although all is settled: {}",
                    writes.join(", ")
                )
            }
            Self::BrokenRule {
                name,
                why,
                after_write,
            } => match after_write {
                Some(number) => write!(
                    f,
                    "the rule {name:?} does not hold after write {number}: {why}"
                ),
                None => write!(f, "the rule {name:?} does not hold at the end: {why}"),
            },
            Self::ChangedConstant { object, field, .. } => {
                write!(
                    f,
                    "{field} of {object} has changed, and must stay as it was first set"
                )
            }
            Self::Exit { how, .. } => write!(f, "the operator ended by itself: {how}"),
            Self::Failing(requests) => {
                write!(f, "the operator keeps failing: {}", requests.join("; "))
            }
            Self::Panic(text) => write!(f, "a reconcile panicked: {text}"),
            Self::Forbidden(request) => {
                write!(f, "the operator lacks the permission for {request}")
            }
            Self::Leftovers(objects) => {
                let objects: Vec<String> = objects.iter().map(ObjectId::to_string).collect();
                write!(
                    f,
                    "a deleted namespace leaves objects behind: {}",
                    objects.join(", ")
                )
            }
        }
    }
}

impl ComparedState {
    /// Returns the state that a problem is about; `None` for a problem that is not about states.
    pub(crate) fn of(problem: &Problem) -> Option<Self> {
        match problem {
            Problem::WrongState { than, .. } => Some(*than),
            _ => None,
        }
    }

    /// Returns the name of the state in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Undisturbed => "the undisturbed run",
            Self::CreatedChanged => "a run that creates the object with the changed field",
            Self::BeforeChange => "the state before the change",
        }
    }
}

impl StateDifference {
    fn signature(&self) -> String {
        let object = &self.object;
        match (&self.expected, &self.found) {
            (Some(_), None) => format!("{object} is missing"),
            (None, Some(_)) => format!("{object} should not exist"),
            _ => format!("{object} differs"),
        }
    }
}

impl Finding {
    /// Returns the perturbations as `--only` takes them; `reference` for the undisturbed run.
    #[must_use]
    pub fn name(&self) -> String {
        join(&self.perturbations)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(objects: &[(&str, bool)]) -> Problem {
        let differences = objects.iter().map(|(name, is_found)| StateDifference {
            object: ObjectId::of(&json!({"kind": "Pod", "metadata": {"name": name}})),
            expected: (!is_found).then(|| json!({})),
            found: is_found.then(|| json!({})),
        });
        Problem::WrongState {
            quiet_step: None,
            than: ComparedState::Undisturbed,
            differences: differences.collect(),
        }
    }

    /// Shrinking would otherwise replace a finding by another one, which shorter steps cause.
    #[test]
    fn wrong_states_are_one_problem_if_an_object_is_wrong_in_the_same_way() {
        let left = wrong(&[("a", true)]);
        assert!(left.is_like(&wrong(&[("b", false), ("a", true)])));
        assert!(!left.is_like(&wrong(&[("b", true)])));
        assert!(!left.is_like(&wrong(&[("a", false)])));
        assert!(!left.is_like(&Problem::NotQuiet {
            last_writes: Vec::new()
        }));
    }
}
