//! Machine: admission by webhooks: calls the webhooks that match a write, and changes or refuses it by their responses
//! (upstream: `apiserver/pkg/admission/plugin/webhook`).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_cel::all_hold;
use steersman_patch::apply_operations;
use steersman_schema::resource::Resource;

use super::attributes::WriteAdmission;
use super::matching::States;
use super::mutating_policies::decode;
use super::mutation_progress::{AskedHook, MutationProgress};
use crate::policies::policy::ExpressionVariables;
use crate::requests::intake::FieldValidation;
use crate::requests::metadata;
use crate::requests::rng::Rng;
use crate::state::registry::Registry;
use crate::webhook::{self, CallResponse, RegisteredWebhook, WebhookCall, WebhookDecision};

impl Registry {
    pub(crate) fn has_webhooks(&self) -> bool {
        self.catalogue.converts || self.presence.webhooks
    }

    /// Returns all mutating or all validating webhooks, sorted by the names of their configurations. Empty for a write
    /// that calls no webhooks, because the verb's caller cannot call them or the resource is exempt.
    fn hooks(&self, mutating: bool, admission: &WriteAdmission<'_>) -> Arc<Vec<RegisteredWebhook>> {
        if !self.is_attended() || admission.is_exempt() {
            return Arc::default();
        }
        let mut compiled = self.compiled.borrow_mut();
        let compiled = compiled.renewed(&self.store, &self.presence);
        Arc::clone(match mutating {
            true => &compiled.mutating_hooks,
            false => &compiled.validating_hooks,
        })
    }

    /// Lets the mutating policies, and then the mutating webhooks, change an object before it is stored. Returns
    /// whether the object changed; it is then decoded again and has its defaults.
    ///
    /// Policies and webhooks with `reinvocationPolicy: IfNeeded` run again if a later one changed the object.
    ///
    /// The first run passes the default of `progress`. If this fails because a webhook's response is missing, the next
    /// run passes `progress` and `object` as this run left them, provided that the registry has not changed.
    ///
    /// Fails if a webhook or policy refuses the write, or cannot be called or evaluated and its `failurePolicy` is
    /// `Fail`.
    pub(crate) fn admit_mutating(
        &self,
        admission: &WriteAdmission<'_>,
        object: &mut Value,
        old: Option<&Value>,
        progress: &mut MutationProgress,
    ) -> Result<bool, Status> {
        let hooks = self.hooks(true, admission);
        loop {
            if !progress.has_policies {
                let state = (progress.round, &mut *object);
                let changed = self.admit_changes(admission, state, old, &mut progress.policies)?;
                progress.end_policies(changed);
            }
            while let Some(hook) = hooks.get(progress.next) {
                self.mutate(hook, admission, (object, old), progress)?;
                progress.next += 1;
            }
            if !progress.begin_second_round() {
                return Ok(progress.any);
            }
        }
    }

    /// Calls the mutating webhooks for a delete, which they can refuse; there is no new object for them to change.
    pub(crate) fn admit_removal(
        &self,
        admission: &WriteAdmission<'_>,
        old: &Value,
    ) -> Result<(), Status> {
        for hook in &*self.hooks(true, admission) {
            let states = (None, Some(old));
            let Some(resource) = self.invoked(hook, admission, states)? else {
                continue;
            };
            let call = self.call((hook, &resource), admission, "", states)?;
            let subject = (admission.target.resource, admission.name);
            let asked = self.answers(subject, call.into_iter().collect())?;
            let Some(decision) = self.decision(hook, true, asked.first())? else {
                continue;
            };
            if !decision.patch.is_empty() {
                let name = &hook.name;
                return Err(Status::internal(format!(
                    "admission webhook \"{name}\" attempted to modify the object, which is not supported for this operation"
                )));
            }
        }
        self.admit_validated(admission, (None, Some(old)))
    }

    /// Runs all policies and webhooks for a body that is not stored, such as a review. They can refuse the request;
    /// changes of the body are dropped.
    pub(crate) fn admit_request(
        &self,
        admission: &WriteAdmission<'_>,
        mut body: Value,
    ) -> Result<(), Status> {
        let progress = &mut MutationProgress::default();
        self.admit_mutating(admission, &mut body, None, progress)?;
        self.admit_validated(admission, (Some(&body), None))
    }

    /// Evaluates the validating policies, and then calls the validating webhooks. Both can refuse the write, but not
    /// change its object.
    pub(crate) fn admit_validated(
        &self,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<(), Status> {
        self.admit_policies(admission, states)?;
        self.admit_validating(admission, states)
    }

    /// Calls all matching validating webhooks at the same time. Fails with the first refusal in the order of `hooks`.
    pub(crate) fn admit_validating(
        &self,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<(), Status> {
        let hooks = self.hooks(false, admission);
        let mut asked = Vec::new();
        let mut calls = Vec::new();
        for hook in &*hooks {
            let Some(resource) = self.invoked(hook, admission, states)? else {
                continue;
            };
            if let Some(call) = self.call((hook, &resource), admission, "", states)? {
                asked.push(hook);
                calls.push(call);
            }
        }
        let answers = self.answers((admission.target.resource, admission.name), calls)?;
        let mut refusal = None;
        for (hook, answer) in asked.into_iter().zip(&answers) {
            if let Err(status) = self.decision(hook, false, Some(answer)) {
                refusal.get_or_insert(status);
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Returns the resource in the version in which a webhook matches a write; `None` if it does not match.
    fn invoked(
        &self,
        hook: &RegisteredWebhook,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let Some(resource) = self.selected(hook, admission, states)? else {
            return Ok(None);
        };
        if hook.conditions.is_empty() {
            return Ok(Some(resource));
        }
        let variables = ExpressionVariables {
            request: self
                .review_request(&resource, admission, states)?
                .to_value(),
            params: &Value::Null,
            // As upstream, `namespaceObject` is null in the match conditions of webhooks.
            namespace: Value::Null,
            asker: self.asker(admission, states.0),
        };
        let values = variables.values();
        match values.and_then(|values| all_hold(&hook.conditions, &values)) {
            Ok(true) => Ok(Some(resource)),
            Ok(false) => Ok(None),
            Err(_) if hook.ignores_failure => Ok(None),
            Err(why) => {
                let group_resource = admission.target.resource.group_resource();
                Err(Status::forbidden(group_resource, admission.name, &why))
            }
        }
    }

    /// Builds the call of a webhook, with a text that identifies the webhook and the object. `None` if the webhook
    /// supports no known version of reviews and its `failurePolicy` is `Ignore`.
    fn call(
        &self,
        (hook, resource): (&RegisteredWebhook, &Resource),
        admission: &WriteAdmission<'_>,
        round: &str,
        states: States<'_>,
    ) -> Result<Option<(String, WebhookCall)>, Status> {
        if admission.dry && !hook.dry_run {
            let name = &hook.name;
            let message = format!("admission webhook \"{name}\" does not support dry run");
            return Err(Status::bad_request(message));
        }
        let Some(version) = hook.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return if hook.ignores_failure {
                Ok(None)
            } else {
                Err(uncalled(hook, why))
            };
        };
        let request = self.review_request(resource, admission, states)?.to_json();
        let key = [hook.call_prefix.as_str(), round, &request].join(" ");
        // The uid is computed from the call's key, so that the next run of the verb builds an equal call.
        let uid = Rng::of_text(&key).uid();
        let call = WebhookCall {
            body: webhook::body(version, &uid, &request),
            key,
            uid,
            endpoint: hook.endpoint.clone(),
            url: hook.url.clone(),
            ca: hook.ca.clone(),
            timeout: hook.timeout,
        };
        let subject = states.1.map(|old| metadata::text(old, "name"));
        let place = format!("{} {round} {}", hook.id, subject.unwrap_or_default());
        Ok(Some((place, call)))
    }

    /// Reads the response of a webhook, and fails with its refusal. `None` if there is no valid response and the
    /// webhook's `failurePolicy` is `Ignore`.
    fn decision(
        &self,
        hook: &RegisteredWebhook,
        mutating: bool,
        answer: Option<&CallResponse>,
    ) -> Result<Option<WebhookDecision>, Status> {
        let Some(answer) = answer else {
            return Ok(None);
        };
        let version = hook.review.unwrap_or("v1");
        match webhook::read(&hook.name, version, mutating, answer) {
            Err(_) if hook.ignores_failure => Ok(None),
            Err(why) => Err(uncalled(hook, &why)),
            Ok(mut decision) => {
                self.note_warnings(std::mem::take(&mut decision.warnings));
                match decision.refusal.take() {
                    Some(refusal) => Err(*refusal),
                    None => Ok(Some(decision)),
                }
            }
        }
    }

    fn mutate(
        &self,
        hook: &RegisteredWebhook,
        admission: &WriteAdmission<'_>,
        (object, old): (&mut Value, Option<&Value>),
        progress: &mut MutationProgress,
    ) -> Result<(), Status> {
        let states = (Some(&*object), old);
        let known = progress.asked.take();
        let known = known
            .and_then(|asked| self.known_answer(hook, asked, admission, states, progress.round));
        let (resource, answer) = match known {
            Some((resource, answer)) => (resource, Some(answer)),
            None => {
                let Some(resource) = self.invoked(hook, admission, states)? else {
                    return Ok(());
                };
                if progress.round == 1 && !progress.hooks.is_due(&hook.id) {
                    return Ok(());
                }
                let answer = self.ask(hook, &resource, admission, states, progress)?;
                (resource, answer)
            }
        };
        let decision = self.decision(hook, true, answer.as_ref())?;
        if let Some(decision) = decision.filter(|decision| !decision.patch.is_empty())
            && self.apply_patch(&resource, admission, object, &decision)?
        {
            progress.end_hook();
        }
        if hook.again {
            progress.hooks.note(hook.id.clone());
        }
        Ok(())
    }

    /// Returns the response of a mutating webhook; `None` if its call cannot be built and its `failurePolicy` is
    /// `Ignore`. If the response is missing, fails and sets `progress.asked` to the call.
    fn ask(
        &self,
        hook: &RegisteredWebhook,
        resource: &Arc<Resource>,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
        progress: &mut MutationProgress,
    ) -> Result<Option<CallResponse>, Status> {
        let round = progress.round.to_string();
        let call = self.call((hook, resource), admission, &round, states)?;
        let subject = (admission.target.resource, admission.name);
        let answers = self.answers(subject, call.into_iter().collect());
        if answers.is_err() {
            let verb_state = self.verb_state.borrow();
            progress.asked = verb_state.pending.last().map(|call| AskedHook {
                key: call.key.clone(),
                resource: Arc::clone(resource),
            });
        }
        Ok(answers?.pop())
    }

    /// Returns the response to the call for which the last run of the verb stopped, and the resource with which the
    /// webhook matched. The call is not built again, because in an unchanged registry it would be equal (ADM-1).
    fn known_answer(
        &self,
        hook: &RegisteredWebhook,
        asked: AskedHook,
        admission: &WriteAdmission<'_>,
        states: States<'_>,
        round: usize,
    ) -> Option<(Arc<Resource>, CallResponse)> {
        let answer = self.verb_state.borrow().answers.get(&asked.key).cloned()?;
        debug_assert_eq!(
            {
                let round = round.to_string();
                let call = self.call((hook, &asked.resource), admission, &round, states);
                call.ok().flatten().map(|(_, call)| call.key)
            },
            Some(asked.key),
            "ADM-1: the call of another run"
        );
        Some((asked.resource, answer))
    }

    /// Applies the JSON patch in a mutating webhook's response to the object. Returns whether the object changed.
    fn apply_patch(
        &self,
        resource: &Resource,
        admission: &WriteAdmission<'_>,
        object: &mut Value,
        decision: &WebhookDecision,
    ) -> Result<bool, Status> {
        let own = admission.target.resource;
        let whole = admission.kind.is_none();
        let before = if whole && !own.has_version_of(resource) {
            Cow::Owned(self.to_version(own, resource, object)?)
        } else {
            Cow::Borrowed(&*object)
        };
        let after = apply_operations(&before, &decision.patch);
        let mut after = after.map_err(|wrong| Status::internal(wrong.message))?;
        if whole {
            let lax = FieldValidation::Ignore;
            decode(resource, &mut after, object, lax).map_err(Status::internal)?;
            after = self.to_version(resource, own, &after)?;
        }
        let changed = after != *object;
        *object = after;
        Ok(changed)
    }
}

fn uncalled(hook: &RegisteredWebhook, why: &str) -> Status {
    Status::internal(format!("failed calling webhook \"{}\": {why}", hook.name))
}
