//! Machine: decides which admission policies match a write, and evaluates the validating ones (upstream:
//! `apiserver/pkg/admission/plugin/policy`).
//!
//! Policies apply to every write, also to writes of the simulator, and of tests that call a verb directly.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::selector::{LabelSelector, selector_text};
use steersman_apimachinery::status::{Cause, Status};
use steersman_schema::resource::Resource;
use steersman_store::Stored;

use super::attributes::WriteAdmission;
use super::matching::States;
use crate::policies::policy::{Binding, BoundPolicy, Constraints, Policy};
use crate::policies::validation::Objection;
use crate::state::registry::Registry;
use crate::values::text;

/// A policy that matches a write, with one of its bindings and one of the parameter objects of that binding.
#[derive(Debug)]
pub(crate) struct PolicyMatch<'p, R> {
    pub(crate) policy: &'p BoundPolicy<R>,
    pub(crate) binding: &'p Binding,
    /// The resource of the write, in the version that a rule of the policy names.
    pub(crate) resource: Arc<Resource>,
    /// The parameter object for the variable `params`; null if the policy has no parameters.
    pub(crate) params: Value,
}

/// A policy that matches a write and cannot be evaluated because of `why`; `binding` is the binding at fault, if any.
#[derive(Debug)]
pub(crate) struct BrokenPolicy<'p> {
    pub(crate) policy: &'p Policy,
    pub(crate) binding: Option<&'p Binding>,
    pub(crate) why: String,
}

pub(crate) type FoundPolicy<'p, R> = Result<PolicyMatch<'p, R>, BrokenPolicy<'p>>;

impl Registry {
    /// Evaluates the validating policies for a write. Fails with the first violation under a binding with `Deny`, or
    /// the first policy that cannot be evaluated. Violations under a binding with `Warn` become warnings.
    pub(crate) fn admit_policies(
        &self,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<(), Status> {
        if !self.presence.validating_policies || admission.is_unjudged() {
            return Ok(());
        }
        let mut compiled = self.compiled.borrow_mut();
        let policies = Arc::clone(&compiled.renewed(&self.store, &self.presence).validating);
        drop(compiled);
        let mut refusal = None;
        for found in self.cases(&policies, admission, states)? {
            let case = match found {
                Ok(case) => case,
                Err(broken) => {
                    let name = name_of(broken.policy, broken.binding);
                    let message = format!("{name} denied request: {}", broken.why);
                    refusal.get_or_insert((message, String::new()));
                    continue;
                }
            };
            let policy = &case.policy.policy;
            let variables = self.variables(&case.resource, admission, states, &case.params)?;
            for Objection { message, reason } in case.policy.rules.objections(policy, &variables) {
                let name = name_of(policy, Some(case.binding));
                if case.binding.warns {
                    self.note_warnings(vec![format!("Validation failed for {name}: {message}")]);
                }
                if case.binding.denies {
                    let message = format!("{name} denied request: {message}");
                    refusal.get_or_insert((message, reason));
                }
            }
        }
        let Some((message, reason)) = refusal else {
            return Ok(());
        };
        let object = states.0.or(states.1).unwrap_or(&Value::Null);
        let refusal = admission.refusal(object, &message);
        Err(denied(refusal, message, &reason))
    }

    /// Returns the policies that match a write, each once per binding and parameter object. For a policy that cannot be
    /// evaluated, returns a [`BrokenPolicy`], or nothing if its `failurePolicy` is `Ignore`.
    pub(crate) fn cases<'p, R>(
        &self,
        policies: &'p [BoundPolicy<R>],
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<Vec<FoundPolicy<'p, R>>, Status> {
        let mut found = Vec::new();
        for one in policies {
            let policy = &one.policy;
            let constraints = &policy.constraints;
            let Some(resource) = self.is_about(constraints, admission, states)? else {
                continue;
            };
            let broken = |binding: Option<&'p Binding>, why: &str| {
                let what = binding.map_or("policy", |_| "binding");
                let why = format!("failed to configure {what}: {why}");
                let broken = Err(BrokenPolicy {
                    policy,
                    binding,
                    why,
                });
                Some(broken).filter(|_| !policy.ignores_failure)
            };
            if let Some([version, kind]) = &policy.param
                && self.catalogue.of_kind(version, kind).is_none()
            {
                let (group, short) = version.split_once('/').unwrap_or(("", version));
                let why = format!(
                    "failed to find resource referenced by paramKind: '{group}/{short}, Kind={kind}'"
                );
                found.extend(broken(None, &why));
                continue;
            }
            for binding in &policy.bindings {
                if let Some(constraints) = &binding.constraints
                    && self.is_about(constraints, admission, states)?.is_none()
                {
                    continue;
                }
                match self.params(policy, binding, admission.target.scope()) {
                    Ok(all) => found.extend(all.into_iter().map(|params| {
                        Ok(PolicyMatch {
                            policy: one,
                            binding,
                            resource: Arc::clone(&resource),
                            params,
                        })
                    })),
                    Err(why) => found.extend(broken(Some(binding), &why)),
                }
            }
        }
        Ok(found)
    }

    fn is_about(
        &self,
        constraints: &Constraints,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        if self.matched(&constraints.excluded, admission).is_some() {
            return Ok(None);
        }
        self.selected(&constraints.included, admission, states)
    }

    /// Returns the parameter objects that a binding's `paramRef` selects. For a policy without parameters, returns one
    /// null, so that the policy is evaluated once.
    fn params(
        &self,
        policy: &Policy,
        binding: &Binding,
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let reference = &binding.param;
        let (Some([version, kind]), true) = (&policy.param, reference.is_object()) else {
            return Ok(vec![Value::Null]);
        };
        let Some(resource) = self.catalogue.of_kind(version, kind) else {
            return Ok(Vec::new());
        };
        let refuse = |why: &str| Err(why.to_owned());
        let place = match (resource.namespaced, text(&reference["namespace"])) {
            (false, "") => "",
            (false, _) => {
                return refuse(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
                );
            }
            (true, "") if namespace.is_empty() => {
                return refuse(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
                );
            }
            (true, "") => namespace,
            (true, named) => named,
        };
        let found: Vec<&Arc<Stored>> = match text(&reference["name"]) {
            "" => {
                let selector = LabelSelector::parse(&selector_text(&reference["selector"]));
                let selector = selector.map_err(|_| "invalid selector".to_owned())?;
                let all = self.store.list(&resource.storage, Some(place));
                all.filter(|one| selector.matches(&one.value)).collect()
            }
            name => Vec::from_iter(self.store.get(&resource.storage, place, name)),
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return refuse(
                "no params found for policy binding with `Deny` parameterNotFoundAction",
            );
        }
        let shown = |one: &Arc<Stored>| {
            let shown = self.present(resource, one);
            let shown = shown.map_err(|status| status.message)?;
            Ok(shown.value().clone())
        };
        found.into_iter().map(shown).collect()
    }
}

/// Returns the names of a policy and its binding as error messages print them, such as
/// `ValidatingAdmissionPolicy 'a' with binding 'b'`.
fn name_of(policy: &Policy, binding: Option<&Binding>) -> String {
    let with_binding = |binding: &Binding| format!(" with binding '{}'", binding.name);
    let binding = binding.map_or_else(String::new, with_binding);
    format!("ValidatingAdmissionPolicy '{}'{binding}", policy.name)
}

fn denied(mut refusal: Status, message: String, reason: &str) -> Status {
    let (reason, code) = match reason {
        "Unauthorized" => ("Unauthorized", 401),
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    refusal.reason = reason.to_owned();
    refusal.code = code;
    let cause = Cause {
        message,
        ..Cause::default()
    };
    refusal.details.get_or_insert_default().causes.push(cause);
    refusal
}
