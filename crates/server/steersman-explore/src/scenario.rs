//! Words: a scenario: the initial objects, the steps of a user, and what must hold.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::field_path::FieldPath;
use crate::field_pattern::FieldPattern;
use crate::object_id::ObjectId;
use crate::perturbation::PerturbationKind;
use crate::rule::Rule;

/// What a user does with an operator, and what must hold. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The objects that exist before the operator starts. Definitions come first.
    pub initial: Arc<[Value]>,
    /// The steps of the user, in order.
    pub steps: Arc<[Step]>,
    /// What must hold, and what is compared.
    pub rules: Arc<ScenarioRules>,
}

/// What must hold in each world of a scenario, and what is compared with the reference.
#[derive(Debug)]
pub struct ScenarioRules {
    /// How long the operator must not write to count as quiet.
    pub quiet: Duration,
    /// The time limit for the operator to become quiet in the state of the reference.
    pub patience: Duration,
    /// Rules that must hold after each write, and whenever the operator is quiet.
    pub always: Vec<Rule>,
    /// Rules that must hold at the end.
    pub finally: Vec<Rule>,
    /// Fields that must not change once the operator has set them.
    pub constant: Vec<KindField>,
    /// Kinds, and fields of kinds, that are not compared.
    pub ignore: Vec<IgnoredPart>,
    /// The number of processes of the operator.
    pub replicas: usize,
    /// The namespace and name of the ServiceAccount of the operator's Pods: the operator then has the permissions of this
    /// account alone. `None` for an operator that may do everything.
    pub service_account: Option<(String, String)>,
    /// The kinds of perturbations to try; `None` for all that fit.
    pub perturbations: Option<Vec<PerturbationKind>>,
    /// The fields that get other desired states.
    pub desired_states: DesiredFields,
}

/// The fields of custom resources that get other desired states.
#[derive(Debug, Clone, Default)]
pub struct DesiredFields {
    /// The fields that change, with all that is in them; empty for all fields.
    pub only: Vec<KindField>,
    /// Fields that do not change.
    pub skip: Vec<KindField>,
}

/// A step of the user.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Applies objects.
    Apply {
        /// The file of the objects, for messages.
        source: String,
        /// The objects.
        objects: Vec<Value>,
    },
    /// Changes an object by a JSON merge patch.
    Merge {
        /// The object's `apiVersion`, as the scenario names it.
        api_version: String,
        /// The object.
        object: ObjectId,
        /// The patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// The object's `apiVersion`, as the scenario names it.
        api_version: String,
        /// The object.
        object: ObjectId,
    },
    /// Waits until the operator is quiet.
    Quiet,
    /// Lets time pass.
    Pass(Duration),
}

/// A field of the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindField {
    /// The kind, such as `Secret`.
    pub kind: String,
    /// The field.
    pub field: FieldPattern,
}

/// A part of the state that is not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredPart {
    /// The kind.
    pub kind: String,
    /// The field; `None` for all objects of the kind.
    pub field: Option<FieldPattern>,
}

impl Default for ScenarioRules {
    /// A quiet time of 2 s, a patience of 60 s and one replica; no rules, and all perturbations that fit.
    fn default() -> Self {
        Self {
            quiet: Duration::from_secs(2),
            patience: Duration::from_secs(60),
            always: Vec::new(),
            finally: Vec::new(),
            constant: Vec::new(),
            ignore: Vec::new(),
            replicas: 1,
            service_account: None,
            perturbations: None,
            desired_states: DesiredFields::default(),
        }
    }
}

impl ScenarioRules {
    /// Returns whether perturbations of a kind are tried.
    pub(crate) fn tries(&self, kind: PerturbationKind) -> bool {
        let kinds = self.perturbations.as_ref();
        kinds.is_none_or(|kinds| kinds.contains(&kind))
    }
}

impl DesiredFields {
    /// Returns whether a change of an object changes a field that must not change, for instance because a field around it is
    /// removed.
    pub(crate) fn skip_differs(&self, kind: &str, before: &Value, after: &Value) -> bool {
        let mut of_kind = self.skip.iter().filter(|one| one.kind == kind);
        of_kind.any(|one| one.field.find(before) != one.field.find(after))
    }

    /// Returns whether a field of a kind gets other values.
    pub(crate) fn allow(&self, kind: &str, path: &FieldPath) -> bool {
        let covers = |all: &[KindField]| {
            let mut of_kind = all.iter().filter(|one| one.kind == kind);
            of_kind.any(|one| one.field.covers(path))
        };
        (self.only.is_empty() || covers(&self.only)) && !covers(&self.skip)
    }
}

impl Scenario {
    /// Returns the scenario with other steps.
    #[must_use]
    pub fn with_steps(&self, steps: impl Into<Arc<[Step]>>) -> Self {
        Self {
            steps: steps.into(),
            ..self.clone()
        }
    }

    /// Returns whether the user applies an object, initially or in a step.
    #[must_use]
    pub fn applies(&self, id: &ObjectId) -> bool {
        let of_steps = self.steps.iter().flat_map(Step::objects);
        self.initial
            .iter()
            .chain(of_steps)
            .any(|object| is_same(&ObjectId::of(object), id))
    }

    /// Returns the steps with which the user made an object what it is, of the initial objects and of the first `begun`
    /// steps; none for an object of the operator, and for an object that the user has deleted.
    #[must_use]
    pub fn steps_for(&self, id: &ObjectId, begun: usize) -> Vec<Step> {
        let apply = |object: &Value| {
            is_same(&ObjectId::of(object), id).then(|| Step::Apply {
                source: id.name.clone(),
                objects: vec![object.clone()],
            })
        };
        let mut of_object: Vec<Step> = self.initial.iter().filter_map(apply).collect();
        for step in self.steps.iter().take(begun) {
            match step {
                Step::Apply { objects, .. } => {
                    of_object.extend(objects.iter().filter_map(apply));
                }
                Step::Merge { object, .. } if is_same(object, id) => of_object.push(step.clone()),
                Step::Delete { object, .. } if is_same(object, id) => of_object.clear(),
                _ => {}
            }
        }
        of_object
    }

    /// Returns whether each step of the user concerns objects in a namespace.
    pub(crate) fn stays_in(&self, namespace: &str) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Apply { objects, .. } => objects
                .iter()
                .all(|object| ObjectId::of(object).namespace == namespace),
            Step::Merge { object, .. } | Step::Delete { object, .. } => {
                object.namespace == namespace
            }
            Step::Quiet | Step::Pass(_) => true,
        })
    }
}

impl Step {
    pub(crate) fn objects(&self) -> &[Value] {
        match self {
            Self::Apply { objects, .. } => objects,
            _ => &[],
        }
    }

    /// Returns whether the step changes an object, which the operator may react to; other steps wait.
    pub(crate) fn acts(&self) -> bool {
        matches!(
            self,
            Self::Apply { .. } | Self::Merge { .. } | Self::Delete { .. }
        )
    }
}

/// Compares identities; an applied object without a namespace is one of `default`.
pub(crate) fn is_same(applied: &ObjectId, stored: &ObjectId) -> bool {
    let namespace = |id: &ObjectId| match id.namespace.as_str() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    applied.kind == stored.kind
        && applied.group == stored.group
        && applied.name == stored.name
        && (applied.namespace == stored.namespace || namespace(applied) == namespace(stored))
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Apply { source, objects } => {
                let names: Vec<String> = objects
                    .iter()
                    .map(|one| ObjectId::of(one).to_string())
                    .collect();
                write!(f, "applies {source}: {}", names.join(", "))
            }
            // The values of a Secret belong into no story.
            Self::Merge { object, .. } if object.kind == "Secret" => write!(f, "patches {object}"),
            Self::Merge { object, patch, .. } => write!(f, "patches {object} with {patch}"),
            Self::Delete { object, .. } => write!(f, "deletes {object}"),
            Self::Quiet => f.write_str("waits until the operator is quiet"),
            Self::Pass(time) => write!(f, "lets {time:?} pass"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_steps_of_an_object_are_those_since_its_last_deletion() {
        let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let mut stored = ObjectId::of(&object("a"));
        stored.namespace = "default".to_owned();
        let apply = |name: &str| Step::Apply {
            source: name.to_owned(),
            objects: vec![object(name)],
        };
        let api_version = "v1".to_owned();
        let merge = Step::Merge {
            api_version: api_version.clone(),
            object: stored.clone(),
            patch: json!({}),
        };
        let delete = Step::Delete {
            api_version,
            object: stored.clone(),
        };
        let steps = vec![
            delete.clone(),
            apply("a"),
            apply("b"),
            merge.clone(),
            delete,
        ];
        let scenario = Scenario {
            initial: vec![object("a")].into(),
            steps: steps.into(),
            rules: Arc::default(),
        };
        assert_eq!(scenario.steps_for(&stored, 0), [apply("a")]);
        assert!(scenario.steps_for(&stored, 1).is_empty());
        assert_eq!(scenario.steps_for(&stored, 4), [apply("a"), merge]);
        assert!(scenario.steps_for(&stored, 5).is_empty());
    }
}
