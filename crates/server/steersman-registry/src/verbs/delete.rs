//! Machine: the verbs delete and deletecollection: preconditions, grace period, finalizers, and dependents.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_apimachinery::go;
use steersman_apimachinery::status::{FieldError, Status};
use steersman_schema::resource::Resource;
use steersman_store::Stored;

use super::deletion::{DeletionStart, begun, empty, has_finalizers, is_namespace, unprotect};
use crate::admission::attributes::WriteAdmission;
use crate::plugins::classes::SYSTEM;
use crate::requests::intake::{self, is_definition};
use crate::requests::options::{
    DeleteOptions, Deleted, ListQuery, ObjectTarget, StoredPage, VersionedObject,
};
use crate::state::pending_work::{FOREGROUND, ORPHAN, PropagationPolicy};
use crate::state::registry::Registry;
use crate::values::texts;

#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    /// The object is removed; this was its last state.
    Gone(Arc<Stored>),
    /// The object stays until its finalizers are removed or its grace period ends.
    Marked(Arc<Stored>),
}

impl Registry {
    /// Deletes one object, or marks it as deleted, if finalizers or a grace period keep it.
    ///
    /// # Errors
    /// 404, 409 for a failed precondition, 403 for a protected namespace, 422 for invalid options.
    pub fn delete(
        &mut self,
        target: ObjectTarget<'_>,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Deleted, Status> {
        self.now = now;
        self.delete_asked(target, options, true)
    }

    /// Deletes one object. Policies and webhooks run only if `admitted` is true: for an eviction they have already run.
    pub(crate) fn delete_asked(
        &mut self,
        target: ObjectTarget<'_>,
        options: &DeleteOptions,
        admitted: bool,
    ) -> Result<Deleted, Status> {
        let (dry, policy) = check_options(options)?;
        let ObjectTarget { resource, name, .. } = target;
        self.warn_of_orphans(resource, options);
        let forbid = |why: &str| Err(Status::forbidden(resource.group_resource(), name, why));
        if resource.is("scheduling.k8s.io", "PriorityClass")
            && SYSTEM.iter().any(|(class, _)| *class == name)
        {
            return forbid("this is a system priority class and cannot be deleted");
        }
        let stored = Arc::clone(self.target(target)?);
        check_preconditions(resource, &stored, options)?;
        if is_namespace(resource) && matches!(name, "default" | "kube-system" | "kube-public") {
            return forbid("this namespace may not be deleted");
        }
        let grace = options.grace_period_seconds;
        let policy = policy.or_else(|| default_policy(resource, &stored));
        // Converts the object for the response before it is deleted, because the conversion webhook may fail (ADM-2).
        let foreseen = match resource.conversion {
            Some(_) => self.foresee(resource, &stored.look_whole())?,
            None => None,
        };
        if admitted && self.is_judged() && !is_pending(&stored, grace) {
            let shown = self.answered(resource, &stored, foreseen.clone())?;
            let admission = WriteAdmission::of_delete(target, name, options);
            self.admit_removal(&admission, shown.value())?;
        }
        if dry {
            let shown = self.answered(resource, &stored, foreseen)?;
            return self.rehearse(resource, (&stored, &shown), (grace, policy));
        }
        let progress = self.begin_delete(resource, &stored, grace, policy);
        self.settle();
        match progress {
            DeleteOutcome::Marked(stored) => {
                Ok(Deleted::Held(self.answered(resource, &stored, foreseen)?))
            }
            DeleteOutcome::Gone(gone) => self.gone(resource, &gone),
        }
    }

    /// Deletes every object that the selectors match (deletecollection). Returns these objects as they were before.
    ///
    /// # Errors
    /// 400 for an invalid selector, 422 for invalid options. It is no error if another request deletes an object at the
    /// same time.
    pub fn delete_collection(
        &mut self,
        target: ObjectTarget<'_>,
        selection: &ListQuery,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<StoredPage, Status> {
        self.now = now;
        let (dry, policy) = check_options(options)?;
        let resource = target.resource;
        self.warn_of_orphans(resource, options);
        // Lists at the newest revision even in a run after a stop for a webhook: the delete removes the current
        // objects, and webhooks must review these.
        self.verb_state.get_mut().pinned = None;
        let page = self.list(resource, target.namespace, selection)?;
        for object in &page.items {
            check_preconditions(resource, &object.stored, options)?;
        }
        self.admit_removals(target, &page, options)?;
        if !dry {
            for object in &page.items {
                let (namespace, name) = (&object.namespace, &object.name);
                let found = self.store.get(&resource.storage, namespace, name);
                if let Some(found) = found.cloned() {
                    let grace = options.grace_period_seconds;
                    let policy = policy.or_else(|| default_policy(resource, &found));
                    self.begin_delete(resource, &found, grace, policy);
                }
            }
            self.settle();
        }
        Ok(page)
    }

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
            let status = Status::deleted(resource.group_resource(), name, gone.meta("uid"));
            return Ok(Deleted::Gone(Box::new(status)));
        }
        Ok(Deleted::Last(self.present(resource, gone)?))
    }

    fn rehearse(
        &self,
        resource: &Resource,
        (stored, shown): (&Arc<Stored>, &VersionedObject),
        (grace, policy): (Option<i64>, Option<PropagationPolicy>),
    ) -> Result<Deleted, Status> {
        let mut value = shown.value().clone();
        if self.options.collect_garbage {
            unprotect(resource, &mut value);
        }
        let beginning = begun(resource, &mut value, (grace, policy), self.now);
        let changed = |value| Self::answer(&stored.namespace, &stored.name, value, stored.revision);
        match beginning {
            // Upstream runs an update here, which ends before its result is set, so its response is an empty object.
            DeletionStart::Goes if value != *shown.value() || has_finalizers(shown.value()) => {
                Ok(Deleted::Last(Self::answer("", "", empty(resource), 0)))
            }
            DeletionStart::Goes => self.gone(resource, stored),
            DeletionStart::GoesMarked => Ok(Deleted::Last(changed(value))),
            DeletionStart::Waits => Ok(Deleted::Held(changed(value))),
        }
    }

    pub(crate) fn begin_delete(
        &mut self,
        resource: &Resource,
        stored: &Arc<Stored>,
        grace: Option<i64>,
        policy: Option<PropagationPolicy>,
    ) -> DeleteOutcome {
        if is_definition(resource) {
            return self.delete_definition(resource, stored);
        }
        if is_namespace(resource) && !stored.is_terminating() {
            self.put_removal_off(&stored.name);
        }
        let mut draft = stored.draft();
        if self.options.collect_garbage {
            unprotect(resource, &mut draft.value);
        }
        let beginning = begun(resource, &mut draft.value, (grace, policy), self.now);
        // As upstream, a grace period is stored, so that watches get it, even if the object is removed next. Finalizers
        // that the propagation policy removed are not stored, if the object is removed: `errDeleteNow` ends the update
        // in `updateForGracefulDeletionAndFinalizers`.
        let marked = if beginning == DeletionStart::Goes || stored.holds(&draft) {
            Arc::clone(stored)
        } else {
            let draft = self.in_storage_version(&resource.storage, draft);
            self.put(&resource.storage, &stored.namespace, &stored.name, draft)
        };
        if beginning == DeletionStart::Waits {
            return DeleteOutcome::Marked(marked);
        }
        match self.remove(&resource.storage, &marked) {
            Some(gone) => DeleteOutcome::Gone(gone),
            None => DeleteOutcome::Marked(marked),
        }
    }

    fn delete_definition(&mut self, resource: &Resource, stored: &Arc<Stored>) -> DeleteOutcome {
        let mut marked = Arc::clone(stored);
        if !stored.is_terminating() {
            let mut crd = stored.draft();
            Self::terminate_definition(&mut crd.value, self.now);
            marked = self.put(&resource.storage, "", &stored.name, crd);
            self.serve_again(stored.lean(), &marked);
        }
        self.pending.definitions.insert(Arc::clone(&stored.name));
        if self.options.remove_at_once {
            self.clear_definitions();
        }
        DeleteOutcome::Marked(marked)
    }
}

/// Returns the default propagation policy of a kind; `None` for most kinds, and if the object's finalizers already
/// decide about its dependents (upstream: `DefaultGarbageCollectionPolicy` of the kind's strategy).
fn default_policy(resource: &Resource, stored: &Stored) -> Option<PropagationPolicy> {
    if resource.is("", "Event") || resource.is("events.k8s.io", "Event") {
        return Some(PropagationPolicy::Background);
    }
    if !resource.is("batch", "Job") && !resource.is("", "ReplicationController") {
        return None;
    }
    let object = stored.look();
    let finalizers = &object["metadata"]["finalizers"];
    let said = texts(finalizers).any(|one| one == ORPHAN || one == FOREGROUND);
    (!said).then_some(PropagationPolicy::Orphan)
}

/// Returns whether an object waits for the end of its grace period, and a delete with the period `grace` does not
/// shorten it. As upstream, no webhook is called for such a delete.
fn is_pending(stored: &Stored, grace: Option<i64>) -> bool {
    let left = stored.lean()["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let left = left.unwrap_or_default();
    let shorter = grace.is_some_and(|grace| grace < left);
    stored.is_terminating() && left > 0 && !shorter
}

fn check_options(options: &DeleteOptions) -> Result<(bool, Option<PropagationPolicy>), Status> {
    let mut errors = Vec::new();
    let dry = intake::dry_run(&options.dry_run, &mut errors);
    let policy = match options.propagation_policy.as_deref() {
        None => None,
        Some("Background") => Some(PropagationPolicy::Background),
        Some("Foreground") => Some(PropagationPolicy::Foreground),
        Some("Orphan") => Some(PropagationPolicy::Orphan),
        Some(other) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let supported = supported.map(|s| format!("\"{s}\""));
            let (field, other) = ("propagationPolicy", go::quote(other));
            errors.push(FieldError::not_supported(field, &other, &supported));
            None
        }
    };
    if let (Some(policy), Some(_)) = (&options.propagation_policy, options.orphan_dependents) {
        let value = go::quote(policy);
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", &value, detail));
    }
    intake::refuse_options("DeleteOptions", &errors)?;
    let old_spelling = options.orphan_dependents.map(|orphan| match orphan {
        true => PropagationPolicy::Orphan,
        false => PropagationPolicy::Background,
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
    // Upstream deletes namespaces and CRDs with other code, which words failed preconditions in another way.
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
    let group_resource = if own {
        resource.group_resource()
    } else {
        resource.group_kind()
    };
    Err(Status::conflict(group_resource, &stored.name, &why))
}
