//! Machine: which ValidatingAdmissionPolicies are about a write, and what comes of what they say.
//!
//! Policies are evaluated in place, so they judge every write: those of requests, of the player and
//! of a test's direct access.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/policy`.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::StorageKey;
use crate::selector::LabelSelector;
use crate::status::{Cause, Status};
use crate::store::Stored;

use super::admission::{Admission, GROUP};
use super::policy::{Binding, Constraints, Objection, Policy, Scene};
use super::scale::selector_text;
use super::state::Registry;

/// An object and what it was before.
type States<'a> = (Option<&'a Value>, Option<&'a Value>);

impl Registry {
    /// Asks the policies whether a write may happen.
    ///
    /// # Errors
    /// The first objection of a policy whose binding denies, with the code of its reason.
    pub(super) fn admit_policies(
        &self,
        admission: &Admission<'_>,
        states: States<'_>,
    ) -> Result<(), Status> {
        if !self.standing.policies || admission.is_exempt() {
            return Ok(());
        }
        let mut refusal = None;
        for policy in &*self.policies() {
            let mut refuse = |binding: Option<&Binding>, objection: &Objection| {
                let name = &policy.name;
                let whom = binding.map_or_else(
                    || format!("ValidatingAdmissionPolicy '{name}'"),
                    |binding| {
                        let binding = &binding.name;
                        format!("ValidatingAdmissionPolicy '{name}' with binding '{binding}'")
                    },
                );
                let message = format!("{whom} denied request: {}", objection.message);
                refusal.get_or_insert((message, objection.reason.clone()));
            };
            let broken = |what: &str, why: &str| Objection {
                message: format!("failed to configure {what}: {why}"),
                reason: String::new(),
            };
            let Some((request, namespace)) = self.scene(&policy.constraints, admission, states)?
            else {
                continue;
            };
            if let Some((version, kind)) = &policy.param
                && self.catalogue.of_kind(version, kind).is_none()
            {
                let (group, short) = version.split_once('/').unwrap_or(("", version));
                let why = format!(
                    "failed to find resource referenced by paramKind: '{group}/{short}, Kind={kind}'"
                );
                if !policy.ignores_failure {
                    refuse(None, &broken("policy", &why));
                }
                continue;
            }
            for binding in &policy.bindings {
                if !self.is_bound(binding, admission, states)? {
                    continue;
                }
                let params = match self.params(policy, binding, admission.target.scope()) {
                    Ok(params) => params,
                    Err(_) if policy.ignores_failure => continue,
                    Err(why) => {
                        refuse(Some(binding), &broken("binding", &why));
                        continue;
                    }
                };
                for params in &params {
                    let scene = Scene {
                        request: &request,
                        params,
                        namespace: &namespace,
                    };
                    for objection in policy.objections(scene) {
                        if binding.warns {
                            let (policy, binding) = (&policy.name, &binding.name);
                            self.note_warnings(vec![format!(
                                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                                objection.message
                            )]);
                        }
                        if binding.denies {
                            refuse(Some(binding), &objection);
                        }
                    }
                }
            }
        }
        let Some((message, reason)) = refusal else {
            return Ok(());
        };
        let object = states.0.or(states.1).unwrap_or(&Value::Null);
        Err(denied(
            admission.refusal(object, &message),
            message,
            &reason,
        ))
    }

    /// The policies with bindings, by their names; compiled anew after each write to one
    /// of them (ADM-4).
    fn policies(&self) -> Arc<Vec<Policy>> {
        let mut compiled = self.compiled.borrow_mut();
        if compiled.edition != self.standing.edition {
            let of = |plural: &str| -> Vec<Arc<Stored>> {
                let storage = StorageKey::new(GROUP, plural);
                self.store.list(&storage, None).cloned().collect()
            };
            let bindings = of("validatingadmissionpolicybindings");
            let policies = of("validatingadmissionpolicies").into_iter().map(|policy| {
                let bindings = bindings.iter().map(|binding| &*binding.value);
                Policy::compile(&policy.value, bindings)
            });
            let bound = policies.filter(|policy| !policy.bindings.is_empty());
            compiled.policies = Arc::new(bound.collect());
            compiled.edition = self.standing.edition;
        }
        Arc::clone(&compiled.policies)
    }

    /// What a policy sees of a write that it is about: the request and the namespace.
    fn scene(
        &self,
        constraints: &Constraints,
        admission: &Admission<'_>,
        (object, old): States<'_>,
    ) -> Result<Option<(Value, Value)>, Status> {
        if self.matched(&constraints.excluded, admission).is_some() {
            return Ok(None);
        }
        let invocation = self.invocation(&constraints.included, admission, object, old)?;
        let Some((_, resource)) = invocation else {
            return Ok(None);
        };
        let request = Value::Object(self.told(&resource, admission, (object, old))?);
        let own = admission.target.resource;
        let storage = StorageKey::new("", "namespaces");
        let namespace = Some(admission.target.scope()).filter(|_| own.namespaced);
        let namespace = namespace.and_then(|name| self.store.get(&storage, "", name));
        let namespace = namespace.map_or(Value::Null, |found| (*found.value).clone());
        Ok(Some((request, namespace)))
    }

    /// Whether a binding is about a write that its policy is about.
    fn is_bound(
        &self,
        binding: &Binding,
        admission: &Admission<'_>,
        (object, old): States<'_>,
    ) -> Result<bool, Status> {
        let Some(constraints) = &binding.constraints else {
            return Ok(true);
        };
        if self.matched(&constraints.excluded, admission).is_some() {
            return Ok(false);
        }
        let invocation = self.invocation(&constraints.included, admission, object, old)?;
        Ok(invocation.is_some())
    }

    /// The parameters with which a binding has its policy evaluated; null where there are none.
    fn params(
        &self,
        policy: &Policy,
        binding: &Binding,
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let reference = &binding.param;
        let (Some((version, kind)), true) = (&policy.param, reference.is_object()) else {
            return Ok(vec![Value::Null]);
        };
        let Some(resource) = self.catalogue.of_kind(version, kind) else {
            return Ok(Vec::new());
        };
        let named = reference["namespace"].as_str().unwrap_or_default();
        let place = match (resource.namespaced, named) {
            (false, "") => "",
            (false, _) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                );
            }
            (true, "") if namespace.is_empty() => {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
            }
            (true, "") => namespace,
            (true, named) => named,
        };
        let found: Vec<Arc<Stored>> = match reference["name"].as_str() {
            Some(name) if !name.is_empty() => {
                let one = self.store.get(&resource.storage, place, name);
                one.cloned().into_iter().collect()
            }
            _ => {
                let selector = LabelSelector::parse(&selector_text(&reference["selector"]));
                let selector = selector.map_err(|_| "invalid selector".to_owned())?;
                let all = self.store.list(&resource.storage, Some(place));
                all.filter(|one| selector.matches(&one.value))
                    .cloned()
                    .collect()
            }
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        let shown = |one: &Arc<Stored>| {
            let shown = self
                .present(resource, one)
                .map_err(|status| status.message)?;
            Ok(shown.value().clone())
        };
        found.iter().map(shown).collect()
    }
}

/// A refusal with the reason of the policy.
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
