//! Machine: the steps of a verb in which policies and webhooks change or refuse its object.
//!
//! All of these steps come before the verb stores anything (ADM-2).

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_schema::resource::Generation;
use steersman_schema::subresources::Act;

use super::acts::ActRequest;
use super::create::{NewObject, check_name, place};
use super::update::ObjectWrite;
use crate::admission::attributes::WriteAdmission;
use crate::admission::mutation_progress::MutationProgress;
use crate::objects::{managed, scale};
use crate::requests::options::{
    DeleteOptions, ObjectTarget, StoredPage, Subresource, VersionedObject, WriteOptions,
};
use crate::requests::{metadata, subresource_fields};
use crate::state::registry::Registry;

impl Registry {
    /// Lets the mutating policies and webhooks change a new object. As upstream, the object that they get has no fields
    /// that only the server sets, such as `uid`.
    pub(crate) fn admit_new(
        &self,
        admission: &WriteAdmission<'_>,
        new: &mut NewObject,
    ) -> Result<(), Status> {
        if !self.is_changed() {
            return Ok(());
        }
        if new.hidden.is_empty() {
            let resource = admission.target.resource;
            let mut own = vec!["uid", "creationTimestamp"];
            if resource.generation != Generation::Unmanaged {
                own.push("generation");
            }
            if admission.name.is_empty() {
                own.push("name");
            }
            let fields = metadata::of(&mut new.object);
            let taken = |field| (field, fields.remove(field));
            new.hidden = own.into_iter().map(taken).collect();
        }
        let object = &mut new.object;
        self.admit_mutating(admission, object, None, &mut new.mutation)?;
        place(admission.target, object)?;
        let fields = metadata::of(object);
        for (field, value) in std::mem::take(&mut new.hidden) {
            let named = field == "name" && fields.get(field).is_some_and(|name| name != "");
            if let Some(value) = value.filter(|_| !named) {
                fields.insert(field.to_owned(), value);
            }
        }
        Ok(())
    }

    /// Lets the mutating policies and webhooks change an object before an update. Their changes to fields that a write
    /// to the subresource cannot change are dropped.
    pub(crate) fn admit_change(
        &self,
        write: &ObjectWrite<'_>,
        mut new: Value,
        shown: &VersionedObject,
    ) -> Result<Value, Status> {
        let (resource, admission) = (write.resource, &write.admission);
        if !self.is_changed() {
            return Ok(new);
        }
        let old = shown.value();
        let progress = &mut MutationProgress::default();
        if write.subresource == Subresource::Scale {
            let mut scale = scale::scale_of(resource, &new)?;
            let before = scale::scale_of(resource, old)?;
            if self.admit_mutating(admission, &mut scale, Some(&before), progress)? {
                new = scale::rescale(resource, &new, &scale)?;
            }
            return Ok(new);
        }
        if self.admit_mutating(admission, &mut new, Some(old), progress)? {
            check_name(&new, admission.target.name)?;
            place(admission.target, &mut new)?;
            metadata::keep(&mut new, write.stored.lean());
            let managed = managed::sent(&new).cloned();
            new = subresource_fields::merge(resource, write.subresource, new, old);
            if write.subresource == Subresource::Main
                && let Some(strategy) = steersman_builtins::of(resource)
            {
                (strategy.prepare)(&mut new, Some(old));
            }
            managed::put(&mut new, managed);
        }
        Ok(new)
    }

    pub(crate) fn admit_changed(
        &self,
        write: &ObjectWrite<'_>,
        new: &Value,
        shown: &VersionedObject,
    ) -> Result<(), Status> {
        if !self.is_judged() {
            return Ok(());
        }
        let old = shown.value();
        let admission = &write.admission;
        if write.subresource == Subresource::Scale {
            let new = scale::scale_of(write.resource, new)?;
            let old = scale::scale_of(write.resource, old)?;
            return self.admit_validated(admission, (Some(&new), Some(&old)));
        }
        self.admit_validated(admission, (Some(new), Some(old)))
    }

    /// Returns whether a mutating policy or webhook may change the object of the verb. (The flag for webhooks covers
    /// mutating and validating ones.)
    pub(crate) fn is_changed(&self) -> bool {
        self.calls_webhooks() || self.presence.mutating_policies
    }

    /// Returns whether a validating policy or webhook may refuse the verb. (The flag for webhooks covers mutating and
    /// validating ones.)
    pub(crate) fn is_judged(&self) -> bool {
        self.calls_webhooks() || self.presence.validating_policies
    }

    /// Returns whether the verb calls admission webhooks: its caller can call webhooks, and the server has admission
    /// webhooks. (A verb also gets such a caller on a server with only a conversion webhook.)
    fn calls_webhooks(&self) -> bool {
        self.is_attended() && self.presence.webhooks
    }

    /// Calls the webhooks for all objects of a deletecollection before the first is deleted: if a webhook refuses one
    /// object, no object is deleted.
    pub(crate) fn admit_removals(
        &self,
        target: ObjectTarget<'_>,
        page: &StoredPage,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        if !self.is_judged() {
            return Ok(());
        }
        let admission = WriteAdmission::of_delete(target, "", options);
        let mut waiting = Ok(());
        for object in &page.items {
            let admitted = self.admit_removal(&admission, object.value());
            // Goes on if a response is missing, so that the caller sends the calls for all objects at once.
            if admitted.is_err() && !self.is_waiting() {
                return admitted;
            }
            waiting = waiting.and(admitted);
        }
        waiting
    }

    /// Runs policies and webhooks for a binding, eviction or token request, which they can refuse but not change.
    pub(crate) fn admit_act(
        &self,
        request: &ActRequest<'_>,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let (plural, subresource, kind) = match request.act {
            Act::Bind if request.name.is_empty() => ("bindings", "", ("", "v1", "Binding")),
            Act::Bind => ("pods", "binding", ("", "v1", "Binding")),
            Act::Evict => ("pods", "eviction", ("policy", "v1", "Eviction")),
            Act::Token => {
                let kind = ("authentication.k8s.io", "v1", "TokenRequest");
                ("serviceaccounts", "token", kind)
            }
            Act::Log | Act::Connect | Act::Review => return Ok(()),
        };
        if !self.is_changed() && !self.is_judged() {
            return Ok(());
        }
        let Some(resource) = self.resource("", "v1", plural) else {
            return Ok(());
        };
        let target = ObjectTarget::object(&resource, Some(request.namespace), request.name);
        let name = match request.name {
            "" => metadata::text(request.body, "name"),
            name => name,
        };
        let mut admission = WriteAdmission::of_write(target, ("CREATE", name), options);
        admission.subresource = subresource;
        admission.kind = Some(kind);
        self.admit_request(&admission, request.body.clone())
    }
}
