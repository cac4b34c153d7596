//! Machine: admission by webhooks: which are asked about a write, in which order, and what comes
//! of their answers.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/webhook`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::patch::apply_json_patch;
use crate::schema::{Resource, StorageKey};
use crate::selector::LabelSelector;
use crate::status::{Status, Subject};
use crate::webhook::{self, About, Answer, Call, Hook, Verdict};

use super::admission::{Admission, GROUP};
use super::conditions;
use super::intake::{self, FieldValidation, Origin};
use super::managed;
use super::metadata;
use super::rng::Rng;
use super::scale::selector_text;
use super::state::Registry;

/// Which webhooks of the first round are called in the second.
#[derive(Debug, Default)]
struct Reinvocation {
    /// Those that were called, and want to be called again after a change.
    called: BTreeSet<String>,
    /// Those after which something changed.
    due: BTreeSet<String>,
}

/// A webhook that is asked, and the resource its rule named.
pub(super) type Invocation<'a> = (&'a Hook, Arc<Resource>);

impl Registry {
    /// Whether there is anything to ask webhooks about.
    pub(super) fn has_webhooks(&self) -> bool {
        self.catalogue.converts() || self.standing.webhooks
    }

    /// The webhooks of all configurations: by the names of these, then in their order.
    fn hooks(&self, plural: &str, admission: &Admission<'_>) -> Vec<Hook> {
        if !self.is_attended() || admission.is_exempt() {
            return Vec::new();
        }
        let storage = StorageKey::new(GROUP, plural);
        let all = self.store.list(&storage, None);
        all.flat_map(|one| Hook::all_of(&one.value)).collect()
    }

    /// Lets the mutating webhooks change an object that is to be written. Answers whether one did;
    /// the object is decoded and has its defaults then.
    ///
    /// # Errors
    /// The refusal of a webhook, or the failure to call it where that is not ignored.
    pub(super) fn admit_mutating(
        &self,
        admission: &Admission<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<bool, Status> {
        let hooks = self.hooks("mutatingwebhookconfigurations", admission);
        let mut rounds = Reinvocation::default();
        let mut any = false;
        for round in 0..2 {
            let mut changed = false;
            for hook in &hooks {
                let Some(invocation) = self.invocation(hook, admission, Some(object), old)? else {
                    continue;
                };
                if round == 1 && !rounds.due.contains(&hook.id) {
                    continue;
                }
                if self.mutate(&invocation, admission, (round, object), old)? {
                    changed = true;
                    rounds.due.append(&mut rounds.called);
                }
                if hook.again {
                    rounds.called.insert(hook.id.clone());
                }
            }
            any |= changed;
            if !changed || rounds.due.is_empty() {
                break;
            }
        }
        Ok(any)
    }

    /// Asks the mutating webhooks about a write that has no object to change.
    pub(super) fn admit_removal(
        &self,
        admission: &Admission<'_>,
        old: &Value,
    ) -> Result<(), Status> {
        for hook in &self.hooks("mutatingwebhookconfigurations", admission) {
            let Some(invocation) = self.invocation(hook, admission, None, Some(old))? else {
                continue;
            };
            let call = self.call(&invocation, admission, "", None, Some(old))?;
            let asked = self.answers(self.subject(admission), call.into_iter().collect())?;
            let Some(verdict) = self.verdict(hook, true, asked.first())? else {
                continue;
            };
            if !verdict.patch.is_empty() {
                let name = &hook.name;
                return Err(Status::internal(format!(
                    "admission webhook \"{name}\" attempted to modify the object, which is not supported for this operation"
                )));
            }
        }
        self.admit_policies(admission, (None, Some(old)))?;
        self.admit_validating(admission, None, Some(old))
    }

    /// Asks the validating webhooks, all at once.
    ///
    /// # Errors
    /// The first refusal, in the order of the configurations.
    pub(super) fn admit_validating(
        &self,
        admission: &Admission<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let hooks = self.hooks("validatingwebhookconfigurations", admission);
        let mut asked = Vec::new();
        let mut calls = Vec::new();
        for hook in &hooks {
            let Some(invocation) = self.invocation(hook, admission, object, old)? else {
                continue;
            };
            if let Some(call) = self.call(&invocation, admission, "", object, old)? {
                asked.push(hook);
                calls.push(call);
            }
        }
        let answers = self.answers(self.subject(admission), calls)?;
        let mut refusal = None;
        for (hook, answer) in asked.into_iter().zip(&answers) {
            if let Err(status) = self.verdict(hook, false, Some(answer)) {
                refusal.get_or_insert(status);
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    fn subject<'a>(&self, admission: &Admission<'a>) -> (&'a Resource, &'a str) {
        let _ = self;
        (admission.target.resource, admission.name)
    }

    /// Whether a webhook is asked, and as what.
    pub(super) fn invocation<'a>(
        &self,
        hook: &'a Hook,
        admission: &Admission<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Invocation<'a>>, Status> {
        let selects = |selector: &Value, object: &Value| {
            let parsed = LabelSelector::parse(&selector_text(selector));
            parsed.is_ok_and(|parsed| parsed.matches(object))
        };
        let of_objects = &hook.objects;
        let all = of_objects.as_object().is_none_or(Map::is_empty);
        let found = |one: Option<&Value>| one.is_some_and(|one| selects(of_objects, one));
        if !all && !found(object) && !found(old) {
            return Ok(None);
        }
        let Some(resource) = self.matched(hook, admission) else {
            return Ok(None);
        };
        let labels = self.namespace_of(admission, object);
        let everywhere = hook.namespaces.as_object().is_none_or(Map::is_empty);
        match labels {
            _ if everywhere => {}
            Ok(Some(namespace)) if !selects(&hook.namespaces, &namespace) => return Ok(None),
            Ok(_) => {}
            Err(status) => return Err(status),
        }
        if !hook.conditions.is_empty() {
            let request = Value::Object(self.told(&resource, admission, (object, old))?);
            match conditions::hold(hook, &request) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(why) => {
                    let subject = admission.target.resource.subject();
                    return Err(Status::forbidden(subject, admission.name, &why));
                }
            }
        }
        Ok(Some((hook, resource)))
    }

    /// The resource in the version that a rule of the webhook names: the request's own, or one
    /// that is the same in another version.
    pub(super) fn matched(&self, hook: &Hook, admission: &Admission<'_>) -> Option<Arc<Resource>> {
        let own = admission.target.resource;
        if hook.is_about(admission.occasion(own)) {
            let found = self.resource(&own.group, &own.version, &own.plural);
            return Some(found.unwrap_or_else(|| Arc::new(own.clone())));
        }
        if !hook.equivalent {
            return None;
        }
        let same = self.catalogue.all().iter().filter(|other| {
            other.storage == own.storage && other.api_version() != own.api_version()
        });
        let mut named = same.filter(|other| hook.is_about(admission.occasion(other)));
        named.next().cloned()
    }

    /// The Namespace whose labels count: none for what is in no namespace.
    fn namespace_of(
        &self,
        admission: &Admission<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Value>, Status> {
        let resource = admission.target.resource;
        let itself = resource.built_in && resource.kind == "Namespace";
        if !itself && !resource.namespaced {
            return Ok(None);
        }
        if itself
            && admission.subresource.is_empty()
            && let Some(object) = object
        {
            return Ok(Some(object.clone()));
        }
        let name = admission.namespace(object);
        match self
            .store
            .get(&StorageKey::new("", "namespaces"), "", &name)
        {
            Some(found) => Ok(Some((*found.value).clone())),
            None => Err(Status::not_found(Subject::new("", "namespaces"), &name)),
        }
    }

    /// What a webhook is told of a write, but for the uid.
    pub(super) fn told(
        &self,
        resource: &Resource,
        admission: &Admission<'_>,
        (object, old): (Option<&Value>, Option<&Value>),
    ) -> Result<Map<String, Value>, Status> {
        let own = admission.target.resource;
        let shown = |object: Option<&Value>| match object {
            Some(object) if admission.kind.is_none() => {
                self.to_version(own, resource, object).map(Some)
            }
            other => Ok(other.cloned()),
        };
        let (object, old) = (shown(object)?, shown(old)?);
        let kind_of = |resource: &'_ Resource| -> (String, String, String) {
            match admission.kind {
                Some((group, version, kind)) => (group.into(), version.into(), kind.into()),
                None => (
                    resource.group.clone(),
                    resource.version.clone(),
                    resource.kind.clone(),
                ),
            }
        };
        let (kind, request_kind) = (kind_of(resource), kind_of(own));
        let namespace = admission.namespace(object.as_ref());
        let about = About {
            kind: (&kind.0, &kind.1, &kind.2),
            resource: (&resource.group, &resource.version, &resource.plural),
            request_kind: (&request_kind.0, &request_kind.1, &request_kind.2),
            request_resource: (&own.group, &own.version, &own.plural),
            subresource: admission.subresource,
            name: admission.name,
            namespace: &namespace,
            operation: admission.operation,
            user: admission.user,
            object: object.as_ref(),
            old: old.as_ref(),
            dry: admission.dry,
            options: &admission.options,
        };
        Ok(webhook::request(&about))
    }

    /// The call of a webhook; none where a failure to make it is ignored.
    fn call(
        &self,
        (hook, resource): &Invocation<'_>,
        admission: &Admission<'_>,
        round: &str,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<(String, Call)>, Status> {
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
        let mut request = self.told(resource, admission, (object, old))?;
        let told = Value::Object(request.clone()).to_string();
        let key = format!("{} {round} {:?} {told}", hook.id, hook.endpoint);
        // The uid follows from the question: a run that asks it again must not draw another one.
        let uid = Rng::of_text(&key).uid();
        request.insert("uid".to_owned(), json!(uid));
        let body = json!({
            "kind": "AdmissionReview",
            "apiVersion": format!("admission.k8s.io/{version}"),
            "request": request,
        });
        let subject = old.map(|old| metadata::text(old, "name"));
        let place = format!("{} {round} {}", hook.id, subject.unwrap_or_default());
        let call = Call {
            key,
            uid,
            endpoint: hook.endpoint.clone(),
            ca: hook.ca.clone(),
            timeout: hook.timeout,
            body: body.to_string().into(),
        };
        Ok(Some((place, call)))
    }

    /// What a webhook decided; nothing where it could not be called and that is ignored.
    fn verdict(
        &self,
        hook: &Hook,
        mutating: bool,
        answer: Option<&Answer>,
    ) -> Result<Option<Verdict>, Status> {
        let Some(answer) = answer else {
            return Ok(None);
        };
        let version = hook.review.unwrap_or("v1");
        match webhook::read(&hook.name, version, mutating, answer) {
            Err(_) if hook.ignores_failure => Ok(None),
            Err(why) => Err(uncalled(hook, &why)),
            Ok(mut verdict) => {
                self.note_warnings(std::mem::take(&mut verdict.warnings));
                match verdict.refusal.take() {
                    Some(refusal) => Err(*refusal),
                    None => Ok(Some(verdict)),
                }
            }
        }
    }

    /// Asks one mutating webhook, and does what it says. Answers whether that changed the object.
    fn mutate(
        &self,
        invocation: &Invocation<'_>,
        admission: &Admission<'_>,
        (round, object): (usize, &mut Value),
        old: Option<&Value>,
    ) -> Result<bool, Status> {
        let (hook, resource) = invocation;
        let round = round.to_string();
        let call = self.call(invocation, admission, &round, Some(object), old)?;
        let asked = self.answers(self.subject(admission), call.into_iter().collect())?;
        let Some(verdict) = self.verdict(hook, true, asked.first())? else {
            return Ok(false);
        };
        if verdict.patch.is_empty() {
            return Ok(false);
        }
        let own = admission.target.resource;
        let whole = admission.kind.is_none();
        let before = if whole {
            self.to_version(own, resource, object)?
        } else {
            object.clone()
        };
        let mut after = before;
        for operation in verdict.patch {
            let done = apply_json_patch(&after, Ok(Value::Array(vec![operation.clone()])));
            after = done.map_err(|_| Status::internal(inapplicable(&operation)))?;
        }
        if whole {
            decode(resource, &mut after, object)?;
            after = self.to_version(resource, own, &after)?;
        }
        let changed = after != *object;
        *object = after;
        Ok(changed)
    }
}

/// Decodes what a webhook made of an object. Its managedFields stay where it broke them.
fn decode(resource: &Resource, after: &mut Value, before: &Value) -> Result<(), Status> {
    let managed = managed::sent(after).or(managed::sent(before)).cloned();
    intake::decode(resource, after, Origin::Body, FieldValidation::Ignore).map_err(|status| {
        let lead = format!("cannot be handled as a {}: ", resource.kind);
        let why = status
            .message
            .split_once(&lead)
            .map(|(_, why)| why.to_owned());
        Status::internal(why.unwrap_or(status.message))
    })?;
    managed::put(after, managed);
    intake::complete(resource, after);
    Ok(())
}

/// Why an operation of a patch does not apply, in the words of the library behind a real server.
fn inapplicable(operation: &Value) -> String {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let path = text("path");
    match text("op") {
        "add" => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        "remove" => {
            let key = path.rsplit('/').next().unwrap_or_default();
            format!(
                "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            )
        }
        "replace" => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        "test" => format!("testing value {path} failed: test failed"),
        "move" | "copy" => {
            let (op, from) = (text("op"), text("from"));
            format!(
                "{op} operation does not apply: doc is missing from path: {from}: missing value"
            )
        }
        other => format!("Unexpected kind: {other}"),
    }
}

fn uncalled(hook: &Hook, why: &str) -> Status {
    Status::internal(format!("failed calling webhook \"{}\": {why}", hook.name))
}
