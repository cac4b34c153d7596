//! Machine: where each verb lets policies and webhooks change and judge what it is about to do.
//!
//! ADM-2: all of this comes before the first change that the verb makes.

use serde_json::Value;
use steersman_kinds as kinds;
use steersman_schema::resource::Generation;
use steersman_schema::subresources::Act;
use steersman_text::status::Status;

use super::acts::Deed;
use super::admission::Admission;
use super::create::check_name;
use super::create::place;
use super::faces;
use super::managed;
use super::metadata;
use super::options::{DeleteOptions, Object, Page, Subresource, Target, WriteOptions};
use super::scale;
use super::state::Registry;
use super::update::Write;

impl Registry {
    /// Lets policies and webhooks change a new object. What the server itself fills in they do not see yet.
    pub(super) fn admit_new(
        &self,
        admission: &Admission<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        if !self.is_changed() {
            return Ok(());
        }
        let resource = admission.target.resource;
        let mut own = vec!["uid", "creationTimestamp"];
        if resource.generation != Generation::Unmanaged {
            own.push("generation");
        }
        if admission.name.is_empty() {
            own.push("name");
        }
        let fields = metadata::of(object);
        let taken = |field: &str| fields.remove(field);
        let kept: Vec<Option<Value>> = own.iter().copied().map(taken).collect();
        self.admit_mutating(admission, object, None)?;
        place(admission.target, object)?;
        let fields = metadata::of(object);
        for (field, value) in own.into_iter().zip(kept) {
            let named = field == "name" && fields.get(field).is_some_and(|name| name != "");
            if let Some(value) = value.filter(|_| !named) {
                fields.insert(field.to_owned(), value);
            }
        }
        Ok(())
    }

    /// Lets policies and webhooks change the object that is to be written; what a subresource does not write
    /// they cannot change through it.
    pub(super) fn admit_change(
        &self,
        write: &Write<'_>,
        merged: Value,
        shown: &Object,
    ) -> Result<Value, Status> {
        let (resource, admission) = (write.resource, &write.admission);
        if !self.is_changed() {
            return Ok(merged);
        }
        let old = shown.value();
        let mut new = merged;
        if write.subresource == Subresource::Scale {
            let mut scale = scale::scale_of(resource, &new)?;
            let before = scale::scale_of(resource, old)?;
            if self.admit_mutating(admission, &mut scale, Some(&before))? {
                new = scale::rescale(resource, &new, &scale)?;
            }
            return Ok(new);
        }
        if self.admit_mutating(admission, &mut new, Some(old))? {
            check_name(&new, admission.target.name)?;
            place(admission.target, &mut new)?;
            metadata::keep(&mut new, write.stored.lean());
            let managed = managed::sent(&new).cloned();
            new = faces::merge(resource, write.subresource, new, old);
            if write.subresource == Subresource::Main
                && let Some(kind) = kinds::of(resource)
            {
                (kind.prepare)(&mut new, Some(old));
            }
            managed::put(&mut new, managed);
        }
        Ok(new)
    }

    /// Asks the policies, and the webhooks that only judge.
    pub(super) fn admit_changed(
        &self,
        write: &Write<'_>,
        new: &Value,
        shown: &Object,
    ) -> Result<(), Status> {
        if !self.is_judged() {
            return Ok(());
        }
        let old = shown.value();
        let admission = &write.admission;
        if write.subresource == Subresource::Scale {
            let new = scale::scale_of(write.resource, new)?;
            let old = scale::scale_of(write.resource, old)?;
            self.admit_policies(admission, (Some(&new), Some(&old)))?;
            return self.admit_validating(admission, Some(&new), Some(&old));
        }
        self.admit_policies(admission, (Some(new), Some(old)))?;
        self.admit_validating(admission, Some(new), Some(old))
    }

    /// Whether anybody may change what is written.
    pub(super) fn is_changed(&self) -> bool {
        self.is_attended() || self.standing.changers
    }

    /// Whether anybody is asked whether a write may happen.
    pub(super) fn is_judged(&self) -> bool {
        self.is_attended() || self.standing.judges
    }

    /// Asks webhooks about every object of a collection before the first one goes: one refusal
    /// keeps them all.
    pub(super) fn admit_removals(
        &self,
        target: Target<'_>,
        page: &Page,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        if !self.is_judged() {
            return Ok(());
        }
        let admission = Admission::of_delete(target, "", options);
        let mut waiting = Ok(());
        for object in &page.items {
            let admitted = self.admit_removal(&admission, object.value());
            // All that is to be asked is asked at once.
            if admitted.is_err() && !self.is_waiting() {
                return admitted;
            }
            waiting = waiting.and(admitted);
        }
        waiting
    }

    /// Asks webhooks about what is to be done. They cannot change it.
    pub(super) fn admit_act(&self, deed: &Deed<'_>, options: &WriteOptions) -> Result<(), Status> {
        let (plural, subresource, kind) = match deed.act {
            Act::Bind if deed.name.is_empty() => ("bindings", "", ("", "v1", "Binding")),
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
        let target = Target::object(&resource, Some(deed.namespace), deed.name);
        let name = match deed.name {
            "" => metadata::text(deed.body, "name"),
            name => name,
        };
        let mut admission = Admission::of_write(target, ("CREATE", name), options);
        admission.subresource = subresource;
        admission.kind = Some(kind);
        let mut body = deed.body.clone();
        self.admit_mutating(&admission, &mut body, None)?;
        self.admit_policies(&admission, (Some(&body), None))?;
        self.admit_validating(&admission, Some(&body), None)
    }
}
