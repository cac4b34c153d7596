//! Machine: the delete verbs: preconditions, grace, finalizers, and what goes along.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::schema::Resource;
use crate::status::{FieldError, Status};
use crate::store::Stored;

use super::admission::Admission;
use super::due::{FOREGROUND, ORPHAN, Policy};
use super::intake::{self, is_definition};
use super::metadata;
use super::options::{DeleteOptions, Deleted, ListOptions, Object, Page, Target};
use super::state::Registry;

/// How far a delete came.
#[derive(Debug)]
pub(super) enum Progress {
    /// The object is gone; this was its last state.
    Gone(Arc<Stored>),
    /// The object waits for a finalizer or its grace period.
    Marked(Arc<Stored>),
}

impl Registry {
    /// Deletes one object, or marks it for deletion.
    ///
    /// # Errors
    /// 404, 409 for a precondition that does not hold, 403 for a namespace that must stay, 422
    /// for options that make no sense.
    pub fn delete(
        &mut self,
        target: Target<'_>,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Deleted, Status> {
        self.delete_asked(target, options, true, now)
    }

    /// Deletes one object; webhooks are asked where told, which is everywhere but within another
    /// request that they were asked about.
    pub(super) fn delete_asked(
        &mut self,
        target: Target<'_>,
        options: &DeleteOptions,
        admitted: bool,
        now: Timestamp,
    ) -> Result<Deleted, Status> {
        let (dry, policy) = check_options(options)?;
        let Target { resource, name, .. } = target;
        self.warn_of_orphans(resource, options);
        let found = self.store.get(&resource.storage, target.scope(), name);
        let Some(stored) = found.cloned() else {
            return Err(Status::not_found(resource.subject(), name));
        };
        check_preconditions(resource, &stored, options)?;
        if is_namespace(resource) && matches!(name, "default" | "kube-system" | "kube-public") {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(resource.subject(), name, why));
        }
        let grace = options.grace_period_seconds;
        let policy = policy.or_else(|| default_policy(resource, &stored));
        // What the answer may need is asked before anything is done.
        let foreseen = match resource.conversion {
            Some(_) => self.foresee(resource, &stored.look_whole())?,
            None => None,
        };
        if admitted && self.is_judged() && !is_pending(&stored, grace) {
            let shown = self.answered(resource, &stored, foreseen.clone())?;
            let admission = Admission::of_delete(target, name, options);
            self.admit_removal(&admission, shown.value())?;
        }
        if dry {
            let shown = self.answered(resource, &stored, foreseen)?;
            return self.rehearse(resource, (&stored, &shown), (grace, policy), now);
        }
        let progress = self.begin_delete(resource, &stored, grace, policy, now);
        self.settle(now);
        match progress {
            Progress::Marked(stored) => {
                let answer = self.answered(resource, &stored, foreseen)?;
                Ok(Deleted::Held(answer))
            }
            Progress::Gone(gone) => self.gone(resource, &gone),
        }
    }

    /// Deletes every selected object. Answers them as they were, as a list.
    ///
    /// # Errors
    /// 400 for a selector, 422 for options; objects that vanish meanwhile are no error.
    pub fn delete_collection(
        &mut self,
        target: Target<'_>,
        selection: &ListOptions,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Page, Status> {
        let (dry, policy) = check_options(options)?;
        let resource = target.resource;
        self.warn_of_orphans(resource, options);
        // Objects go as they are now, and webhooks are asked about these.
        self.unpin();
        let page = self.list(resource, target.namespace, selection)?;
        for object in &page.items {
            check_preconditions(resource, &object.stored, options)?;
        }
        self.admit_removals(target, &page, options)?;
        if !dry {
            for object in &page.items {
                let Object { stored } = object;
                let found = self
                    .store
                    .get(&resource.storage, &stored.namespace, &stored.name);
                if let Some(found) = found.cloned() {
                    let grace = options.grace_period_seconds;
                    let policy = policy.or_else(|| default_policy(resource, &found));
                    self.begin_delete(resource, &found, grace, policy, now);
                }
            }
            self.settle(now);
        }
        Ok(page)
    }

    /// A client that deletes a Job without a word about its Pods may not expect that they stay.
    fn warn_of_orphans(&self, resource: &Resource, options: &DeleteOptions) {
        let said = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
        if resource.is("batch", "Job") && !said {
            let text = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
            self.note_warnings(vec![text.to_owned()]);
        }
    }

    fn gone(&self, resource: &Resource, gone: &Arc<Stored>) -> Result<Deleted, Status> {
        if !resource.delete_returns_object {
            let name = &gone.name;
            let status = Status::deleted(resource.subject(), name, gone.meta("uid"));
            return Ok(Deleted::Gone(Box::new(status)));
        }
        Ok(Deleted::Last(self.present(resource, gone)?))
    }

    /// What a delete would answer.
    fn rehearse(
        &self,
        resource: &Resource,
        (stored, shown): (&Arc<Stored>, &Object),
        (grace, policy): (Option<i64>, Option<Policy>),
        now: Timestamp,
    ) -> Result<Deleted, Status> {
        let mut value = shown.value().clone();
        let waits = begun(resource, &mut value, (grace, policy), now);
        // What was written on the way is answered as it was written, of any kind.
        if !waits && value == *shown.value() {
            return self.gone(resource, stored);
        }
        let (namespace, name) = (&stored.namespace, &stored.name);
        let answer = Self::answer(namespace, name, value, stored.revision);
        Ok(if waits {
            Deleted::Held(answer)
        } else {
            Deleted::Last(answer)
        })
    }

    /// Deletes an object that exists, as far as its finalizers and grace let it.
    pub(super) fn begin_delete(
        &mut self,
        resource: &Resource,
        stored: &Arc<Stored>,
        grace: Option<i64>,
        policy: Option<Policy>,
        now: Timestamp,
    ) -> Progress {
        if is_definition(resource) {
            return self.delete_definition(resource, stored, now);
        }
        let mut draft = stored.draft();
        let waits = begun(resource, &mut draft.value, (grace, policy), now);
        // What the delete changes is written, and seen by watches, also where the object goes right
        // after: see `updateForGracefulDeletionAndFinalizers` of upstream's generic store.
        let marked = if stored.holds(&draft) {
            Arc::clone(stored)
        } else {
            self.put(&resource.storage, &stored.namespace, &stored.name, draft)
        };
        if waits {
            return Progress::Marked(marked);
        }
        match self.remove(&resource.storage, &marked) {
            Some(gone) => Progress::Gone(gone),
            None => Progress::Marked(marked),
        }
    }

    fn delete_definition(
        &mut self,
        resource: &Resource,
        stored: &Arc<Stored>,
        now: Timestamp,
    ) -> Progress {
        let storage = super::definitions::storage_of(stored.lean());
        let mut marked = Arc::clone(stored);
        if stored.meta("deletionTimestamp").is_empty() {
            let mut crd = stored.draft();
            Self::terminate_definition(&mut crd.value, now);
            marked = self.put(&resource.storage, "", &stored.name, crd);
            self.begin_cleanup(resource, &marked, now);
        }
        self.clear(&storage, None, None, now);
        self.finish_definition(&storage, now);
        Progress::Marked(marked)
    }
}

/// Makes of an object what its deletion begins with, and answers whether that stays: see
/// upstream's `rest.BeforeDelete`, the strategy of Pods, which alone have a grace period, and what
/// namespaces and definitions do instead.
fn begun(
    resource: &Resource,
    value: &mut Value,
    (grace, policy): (Option<i64>, Option<Policy>),
    now: Timestamp,
) -> bool {
    if is_namespace(resource) && begun_namespace(value, policy, now) {
        return true;
    }
    let fields = &value["metadata"];
    let terminating = fields["deletionTimestamp"].is_string();
    if is_definition(resource) && !terminating {
        Registry::terminate_definition(value, now);
        return true;
    }
    let left = fields["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    // A negative period is a second.
    let grace = grace.map(|asked| if asked < 0 { 1 } else { asked });
    let mut seconds = 0;
    match grace {
        Some(asked) if terminating && asked < left => {
            let due = fields["deletionTimestamp"].as_str();
            let due = due
                .and_then(|due| due.parse::<Timestamp>().ok())
                .unwrap_or(now);
            let earlier = due.saturating_sub(SignedDuration::from_secs(left - asked));
            seconds = asked;
            let fields = metadata::of(value);
            let due = metadata::time(earlier.unwrap_or(now));
            fields.insert("deletionTimestamp".to_owned(), json!(due));
            fields.insert("deletionGracePeriodSeconds".to_owned(), json!(asked));
        }
        // Nothing changes while the grace period runs, not even the finalizers.
        _ if terminating && left > 0 => return true,
        _ if !terminating && has_grace(resource) => {
            seconds = grace_of(value, grace);
            mark(value, seconds, now);
        }
        _ => {}
    }
    set_policy(value, policy);
    if !has_finalizers(value) {
        return seconds > 0;
    }
    if !terminating && !has_grace(resource) {
        mark(value, 0, now);
    }
    let fields = metadata::of(value);
    fields
        .entry("deletionGracePeriodSeconds")
        .or_insert(json!(0));
    true
}

/// Begins the deletion of a namespace, and answers whether that stays; if not, it goes as
/// anything else does.
fn begun_namespace(namespace: &mut Value, policy: Option<Policy>, now: Timestamp) -> bool {
    if namespace["metadata"]["deletionTimestamp"].is_string() {
        let held = namespace["spec"]["finalizers"].as_array();
        return held.is_some_and(|held| !held.is_empty());
    }
    let time = Value::String(metadata::time(now));
    metadata::of(namespace).insert("deletionTimestamp".to_owned(), time);
    let status = metadata::members(&mut namespace["status"]);
    status.insert("phase".to_owned(), json!("Terminating"));
    set_policy(namespace, policy);
    true
}

/// Writes the finalizers a propagation policy stands for. Those that say it already stay in their
/// order.
fn set_policy(value: &mut Value, policy: Option<Policy>) {
    let Some(policy) = policy else { return };
    let wanted = match policy {
        Policy::Orphan => Some(ORPHAN),
        Policy::Foreground => Some(FOREGROUND),
        Policy::Background => None,
    };
    let fields = metadata::of(value);
    let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
    let Some(list) = finalizers.as_array_mut() else {
        return;
    };
    let said = |one: &Value| one == ORPHAN || one == FOREGROUND;
    let differs = list
        .iter()
        .any(|one| said(one) && Some(one.as_str()) != Some(wanted));
    let missing = wanted.is_some_and(|wanted| !list.iter().any(|one| one == wanted));
    if differs || missing {
        list.retain(|one| !said(one));
        list.extend(wanted.map(Value::from));
    }
    if list.is_empty() {
        fields.remove("finalizers");
    }
}

/// What a delete that says nothing about dependents does with those of kinds that have a rule of
/// their own, unless the object's finalizers say it: see `DefaultGarbageCollectionPolicy` of the
/// kinds' strategies.
fn default_policy(resource: &Resource, stored: &Stored) -> Option<Policy> {
    if resource.is("", "Event") || resource.is("events.k8s.io", "Event") {
        return Some(Policy::Background);
    }
    if !resource.is("batch", "Job") && !resource.is("", "ReplicationController") {
        return None;
    }
    let object = stored.look();
    let finalizers = object["metadata"]["finalizers"].as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    let said = finalizers.any(|one| one == ORPHAN || one == FOREGROUND);
    (!said).then_some(Policy::Orphan)
}

/// Whether an object only waits for its grace period to end, which the delete does not shorten.
fn is_pending(stored: &Stored, grace: Option<i64>) -> bool {
    let left = stored.lean()["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let left = left.unwrap_or_default();
    let shorter = grace.is_some_and(|grace| grace < left);
    !stored.meta("deletionTimestamp").is_empty() && left > 0 && !shorter
}

fn is_namespace(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "Namespace"
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

/// Sets the deletion fields, and raises a generation that there is.
pub(super) fn mark(object: &mut Value, grace: i64, now: Timestamp) {
    let due = now
        .saturating_add(SignedDuration::from_secs(grace))
        .unwrap_or(now);
    let fields = metadata::of(object);
    fields
        .entry("deletionTimestamp")
        .or_insert_with(|| Value::String(metadata::time(due)));
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    if let Some(generation) = fields
        .get("generation")
        .and_then(Value::as_i64)
        .filter(|g| *g > 0)
    {
        fields.insert("generation".to_owned(), json!(generation.saturating_add(1)));
    }
}

/// Whether objects of a kind may be given time to end.
fn has_grace(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "Pod"
}

/// Seconds a delete of a Pod waits: only those that run somewhere have any.
fn grace_of(pod: &Value, asked: Option<i64>) -> i64 {
    let placed = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let over = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if !placed || over {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    match asked.or(own).unwrap_or(30) {
        seconds if seconds < 0 => 1,
        // A bound that keeps the date computable for any number a client sends.
        seconds => seconds.min(1_000_000_000),
    }
}

fn check_options(options: &DeleteOptions) -> Result<(bool, Option<Policy>), Status> {
    let mut errors = Vec::new();
    let dry = intake::dry_run(&options.dry_run, &mut errors);
    let policy = match options.propagation_policy.as_deref() {
        None => None,
        Some("Background") => Some(Policy::Background),
        Some("Foreground") => Some(Policy::Foreground),
        Some("Orphan") => Some(Policy::Orphan),
        Some(other) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let supported = supported.map(|s| format!("\"{s}\""));
            let other = Value::String(other.to_owned()).to_string();
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                &other,
                &supported,
            ));
            None
        }
    };
    if let (Some(policy), Some(_)) = (&options.propagation_policy, options.orphan_dependents) {
        let value = Value::String(policy.clone()).to_string();
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", &value, detail));
    }
    if !errors.is_empty() {
        return Err(Status::invalid_options("DeleteOptions", &errors));
    }
    let old_spelling = options.orphan_dependents.map(|orphan| {
        if orphan {
            Policy::Orphan
        } else {
            Policy::Background
        }
    });
    Ok((dry, policy.or(old_spelling)))
}

fn check_preconditions(
    resource: &Resource,
    stored: &Stored,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else {
        return Ok(());
    };
    let uid = stored.meta("uid");
    let version = stored.meta("resourceVersion");
    let other = |wanted: &Option<String>, found: &str| {
        let wanted = wanted.clone();
        wanted.filter(|wanted| wanted != found)
    };
    // Those that see to their own deletion look before the generic store does, and say it otherwise.
    let own = is_namespace(resource) || is_definition(resource);
    let what = |part: &str, wanted: &str, found: &str, end: &str| {
        if own {
            return format!(
                "Precondition failed: {part} in precondition: {wanted}, {part} in object meta: {found}"
            );
        }
        format!(
            "the {part} in the precondition ({wanted}) does not match the {part} in record ({found}). The object might have been {end}"
        )
    };
    let why = if let Some(wanted) = other(&wanted.uid, uid) {
        what("UID", &wanted, uid, "deleted and then recreated")
    } else if let Some(wanted) = other(&wanted.resource_version, version) {
        what("ResourceVersion", &wanted, version, "modified")
    } else {
        return Ok(());
    };
    let subject = if own {
        resource.subject()
    } else {
        resource.kind_subject()
    };
    Err(Status::conflict(subject, &stored.name, &why))
}
