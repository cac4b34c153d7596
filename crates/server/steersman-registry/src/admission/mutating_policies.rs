//! Machine: evaluates MutatingAdmissionPolicies for an object before it is written (upstream:
//! `apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`).
//!
//! Policies are evaluated on every write, also on a write of the server itself. In managedFields, a field that a policy
//! sets has no owner, unless the client of the write sent that field.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::{Cause, Status};
use steersman_schema::resource::Resource;
use steersman_schema::types::TypeRef;

use super::attributes::WriteAdmission;
use super::validating_policies::PolicyMatch;
use crate::objects::managed;
use crate::policies::mutation::{Mutating, Mutation};
use crate::policies::policy::Binding;
use crate::requests::intake::{self, FieldValidation, ObjectOrigin};
use crate::requests::metadata;
use crate::state::registry::Registry;

/// Records which mutating policies or webhooks run again (reinvocation), because the object changed after their run.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    /// The policies or webhooks with `reinvocationPolicy: IfNeeded` that have run since the object last changed.
    asked: BTreeSet<String>,
    /// The policies or webhooks that run a second time, because the object changed after they ran.
    due: BTreeSet<String>,
}

/// The message of a policy that refuses a write, and the `reason` of the `Status`; `None` for the default reason.
type Denial = (String, Option<&'static str>);

impl Reinvocation {
    pub(crate) fn note(&mut self, one: String) {
        self.asked.insert(one);
    }

    /// Marks the policies or webhooks in `asked` to run a second time. Called after each change of the object.
    pub(crate) fn require(&mut self) {
        self.due.append(&mut self.asked);
    }

    pub(crate) fn is_due(&self, one: &str) -> bool {
        self.due.contains(one)
    }

    pub(crate) fn is_any_due(&self) -> bool {
        !self.due.is_empty()
    }
}

impl Registry {
    /// Lets the mutating policies change an object: in `round` 0 all policies, in `round` 1 those that run a second
    /// time. Returns whether the object changed; a changed object has its defaults again. If policies refuse, fails
    /// with one 403 about all of them, with the message of the first.
    pub(crate) fn admit_changes(
        &self,
        admission: &WriteAdmission<'_>,
        (round, object): (usize, &mut Value),
        old: Option<&Value>,
        again: &mut Reinvocation,
    ) -> Result<bool, Status> {
        if !self.presence.mutating_policies || admission.is_unjudged() {
            return Ok(false);
        }
        let mut compiled = self.compiled.borrow_mut();
        let policies = Arc::clone(&compiled.renewed(&self.store, &self.presence).mutating);
        drop(compiled);
        let mut denials: Vec<Denial> = Vec::new();
        let mut cases = Vec::new();
        // Matches all policies with the object before the first change; their match conditions see the earlier changes.
        for found in self.cases(&policies, admission, (Some(&*object), old))? {
            match found {
                Ok(case) => cases.push(case),
                Err(broken) => {
                    let name = &broken.policy.name;
                    denials.push((message(name, broken.binding, &broken.why), None));
                }
            }
        }
        let mut changed = false;
        let mut evaluated = false;
        for case in &cases {
            match self.is_met(case, admission, (&*object, old))? {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    denials.push(denial(case, &why));
                    continue;
                }
            }
            let key = key(case);
            if round == 1 && !again.is_due(&key) {
                continue;
            }
            let mut differs = false;
            for mutation in &case.policy.rules.mutations {
                match self.evaluate(case, mutation, admission, (object, old))? {
                    Ok(different) => {
                        differs |= different;
                        evaluated = true;
                    }
                    Err(_) if case.policy.policy.ignores_failure => {}
                    Err(why) => denials.push(denial(case, &why)),
                }
            }
            if differs {
                changed = true;
                again.require();
            }
            if case.policy.rules.again {
                again.note(key);
            }
        }
        if evaluated {
            again.require();
        }
        if denials.is_empty() {
            return Ok(changed);
        }
        Err(refusal(admission, object, denials))
    }

    fn is_met(
        &self,
        case: &PolicyMatch<'_, Mutating>,
        admission: &WriteAdmission<'_>,
        (object, old): (&Value, Option<&Value>),
    ) -> Result<Result<bool, String>, Status> {
        let states = (Some(object), old);
        let variables = self.variables(&case.resource, admission, states, &case.params)?;
        let values = variables.values();
        Ok(values.and_then(|values| case.policy.policy.is_met(&values)))
    }

    /// Evaluates one mutation of a policy, and returns whether the object changed. The policy's `failurePolicy` decides
    /// about the inner error; the outer error refuses the write in any case.
    fn evaluate(
        &self,
        case: &PolicyMatch<'_, Mutating>,
        mutation: &Mutation,
        admission: &WriteAdmission<'_>,
        (object, old): (&mut Value, Option<&Value>),
    ) -> Result<Result<bool, String>, Status> {
        let own = admission.target.resource;
        let resource = &*case.resource;
        let states = (Some(&*object), old);
        let variables = self.variables(resource, admission, states, &case.params)?;
        let (ty, whole) = match admission.kind {
            None => (Some(TypeRef::of(resource)), true),
            Some(("", version, kind)) => (TypeRef::built_in(version, kind), false),
            Some((group, version, kind)) => {
                let version = format!("{group}/{version}");
                (TypeRef::built_in(&version, kind), false)
            }
        };
        let ty = ty.unwrap_or(TypeRef::untyped());
        let made = match mutation.change(&case.policy.policy, &variables, ty) {
            Ok(Some(made)) => made,
            Ok(None) => return Ok(Ok(false)),
            Err(why) => return Ok(Err(why)),
        };
        let mut after = made.object;
        if whole {
            let validation = if made.strict && own.built_in {
                FieldValidation::Strict
            } else {
                FieldValidation::Ignore
            };
            if let Err(why) = decode(resource, &mut after, object, validation) {
                // As upstream, a result that does not decode is a 500 after a JSON patch, and after an apply
                // configuration an error of the policy, about which `failurePolicy` decides.
                return if made.strict {
                    Err(Status::internal(why))
                } else {
                    Ok(Err(why))
                };
            }
            after = self.to_version(resource, own, &after)?;
        }
        let differs = after != *object;
        *object = after;
        Ok(Ok(differs))
    }
}

fn key(case: &PolicyMatch<'_, Mutating>) -> String {
    let [namespace, name] = ["namespace", "name"].map(|field| metadata::text(&case.params, field));
    let (policy, binding) = (&case.policy.policy.name, &case.binding.name);
    format!("{policy}/{binding}/{namespace}/{name}")
}

fn denial(case: &PolicyMatch<'_, Mutating>, why: &str) -> Denial {
    let message = message(&case.policy.policy.name, Some(case.binding), why);
    (message, Some("Invalid"))
}

fn message(policy: &str, binding: Option<&Binding>, why: &str) -> String {
    let name = match binding {
        Some(binding) => format!("'{policy}' with binding '{}'", binding.name),
        None => format!("\"{policy}\""),
    };
    format!("policy {name} denied request: {why}")
}

fn refusal(admission: &WriteAdmission<'_>, object: &Value, denials: Vec<Denial>) -> Status {
    let mut refusal = admission.refusal(object, "");
    if let Some((message, reason)) = denials.first() {
        refusal.message.clone_from(message);
        if let Some(reason) = reason {
            (*reason).clone_into(&mut refusal.reason);
        }
    }
    let causes = denials.into_iter().map(|(message, _)| Cause {
        message,
        ..Cause::default()
    });
    let details = refusal.details.get_or_insert_default();
    details.causes.extend(causes);
    refusal
}

/// Decodes `after`, an object that a webhook or a policy has changed, and sets its defaults. Without managedFields,
/// `after` gets those of `before`. Fails with a message if `after` is no object of the resource.
pub(crate) fn decode(
    resource: &Resource,
    after: &mut Value,
    before: &Value,
    validation: FieldValidation,
) -> Result<(), String> {
    let managed = managed::take(after).or_else(|| managed::sent(before).cloned());
    intake::decode(resource, after, ObjectOrigin::Body, validation).map_err(|status| {
        let why = intake::undecodable_reason(&resource.kind, &status);
        why.unwrap_or(&status.message).to_owned()
    })?;
    managed::put(after, managed);
    intake::complete(resource, after);
    Ok(())
}
