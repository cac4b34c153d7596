//! Machine: the compiled mutations of one MutatingAdmissionPolicy, and their evaluation (upstream:
//! `apiserver/pkg/admission/plugin/policy/mutating`).

use serde_json::Value as Json;
use steersman_cel::{Environment, Expression, Type, configuration, operations};
use steersman_patch::apply::merge_configuration;
use steersman_patch::apply_operations;
use steersman_schema::types::TypeRef;

use super::policy::{BUDGET, ExpressionVariables, Policy, Rules};
use crate::values::items;

#[derive(Debug)]
pub(crate) struct Mutating {
    pub(crate) mutations: Vec<Mutation>,
    /// Whether the policy runs a second time if the object changes after its run (`reinvocationPolicy: IfNeeded`).
    pub(crate) again: bool,
}

#[derive(Debug)]
pub(crate) enum Mutation {
    Apply(Expression),
    Patch(Expression),
}

#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) object: Json,
    /// Whether unknown fields in `object` are errors, as after a JSON patch. Apply configurations were checked before.
    pub(crate) strict: bool,
}

impl Rules for Mutating {
    const PLURALS: (&'static str, &'static str) = (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    );

    fn compile(environment: Environment, spec: &Json) -> Self {
        let environment = environment.with_changes();
        let mutations = items(&spec["mutations"]);
        Self {
            mutations: mutations
                .iter()
                .filter_map(|one| Mutation::of(&environment, one))
                .collect(),
            again: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}

impl Mutation {
    /// Compiles one item of `spec.mutations`: a CEL expression that returns an `Object` (`ApplyConfiguration`) or a
    /// list of patch operations (`JSONPatch`).
    pub(crate) fn of(environment: &Environment, mutation: &Json) -> Option<Self> {
        match mutation["patchType"].as_str()? {
            "ApplyConfiguration" => {
                let text = &mutation["applyConfiguration"]["expression"];
                let results = [Type::message("Object")?];
                Some(Self::Apply(Expression::of(environment, text, &results)))
            }
            "JSONPatch" => {
                let text = &mutation["jsonPatch"]["expression"];
                let results = [Type::list(Type::message("JSONPatch")?)];
                Some(Self::Patch(Expression::of(environment, text, &results)))
            }
            _ => None,
        }
    }

    /// Returns the object after the mutation; `None` if a `test` operation of the JSON patch does not hold, so that the
    /// object stays as it is. Fails with a message if the expression or the patch fails.
    pub(crate) fn change(
        &self,
        policy: &Policy,
        scene: &ExpressionVariables<'_>,
        ty: TypeRef<'_>,
    ) -> Result<Option<Changed>, String> {
        let values = scene.values()?;
        let mut left = BUDGET;
        let made = policy.variables(&values, &mut left);
        let live = &scene.request["object"];
        let (object, strict) = match self {
            Self::Apply(expression) => {
                let value = expression.run(&values, &made, &mut left)?;
                let mut wanted = configuration(&value)?;
                for field in ["apiVersion", "kind"] {
                    wanted[field] = live[field].clone();
                }
                let object = merge_configuration(ty, live, &wanted)
                    .map_err(|why| format!("error applying patch: {why}"))?;
                (object, false)
            }
            Self::Patch(expression) => {
                let value = expression.run(&values, &made, &mut left)?;
                match apply_operations(live, &operations(&value)?) {
                    Ok(object) => (object, true),
                    Err(wrong) if wrong.is_test => return Ok(None),
                    Err(wrong) => return Err(format!("JSONPath: {}", wrong.message)),
                }
            }
        };
        Ok(Some(Changed { object, strict }))
    }
}
