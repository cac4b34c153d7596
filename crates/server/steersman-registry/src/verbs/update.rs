//! Machine: the update and patch verbs, for objects and their subresources, such as status and scale.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::json::parse as parse_json;
use steersman_apimachinery::status::{FieldError, Status};
use steersman_apimachinery::{go, order};
use steersman_patch::{apply_json_patch, apply_merge_patch, apply_strategic_patch};
use steersman_schema::resource::Resource;
use steersman_store::{Draft, Stored};

use super::create::{CreateRequest, check_name, place};
use super::deletion::may_go;
use super::patch_checks;
use super::read::parse_version;
use crate::admission::attributes::WriteAdmission;
use crate::objects::field_owners::finish_status;
use crate::objects::managed::{self, Ownership};
use crate::objects::nesting::check_nesting;
use crate::objects::scale;
use crate::plugins::signing;
use crate::requests::intake::{self, FieldValidation, ObjectOrigin, is_definition};
use crate::requests::options::{ObjectTarget, PatchKind, StoredWrite, Subresource, WriteOptions};
use crate::requests::{metadata, subresource_fields};
use crate::state::registry::{MODIFIED, Registry};

/// A write of an existing object: its target, the stored object, and the options that the steps of the write read.
pub(crate) struct ObjectWrite<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) subresource: Subresource,
    pub(crate) stored: Arc<Stored>,
    pub(crate) origin: ObjectOrigin,
    pub(crate) ownership: Ownership<'a>,
    pub(crate) admission: WriteAdmission<'a>,
}

impl<'a> ObjectWrite<'a> {
    pub(crate) fn new(
        target: ObjectTarget<'a>,
        stored: Arc<Stored>,
        origin: ObjectOrigin,
        options: &'a WriteOptions,
        ownership: Ownership<'a>,
    ) -> Self {
        let admission = WriteAdmission::of_write(target, ("UPDATE", target.name), options);
        Self {
            resource: target.resource,
            subresource: target.subresource,
            stored,
            origin,
            ownership,
            admission,
        }
    }
}

impl Registry {
    /// Replaces an object, or its status, scale or another subresource.
    ///
    /// # Errors
    /// 404; 409 for another resource version or uid than the stored one; 400 and 422 for an invalid body.
    pub fn update(
        &mut self,
        target: ObjectTarget<'_>,
        mut body: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<StoredWrite, Status> {
        self.now = now;
        let checked = intake::options("UpdateOptions", options)?;
        let ObjectTarget { resource, name, .. } = target;
        let subresource = target.subresource;
        let scale = subresource == Subresource::Scale;
        let found = self.store.get(&resource.storage, target.scope(), name);
        let found = found.cloned();
        let creates = resource.create_on_update && subresource == Subresource::Main;
        let mut sent = None;
        if scale {
            let read = scale::read(&self.catalogue, resource, &mut body, checked.1);
            self.note_unknown(read?);
        } else {
            intake::check_kind(&self.catalogue, resource, &mut body)?;
            if found.is_some() || !creates {
                sent = self.read(resource, &mut body, ObjectOrigin::Body, checked.1)?;
            }
        }
        check_name(&body, name)?;
        place(target, &mut body)?;
        let Some(stored) = found else {
            if creates {
                return self.create_by_update(target, body, options);
            }
            return Err(Status::not_found(resource.group_resource(), name));
        };
        let uid = metadata::text(&body, "uid");
        let record = stored.meta("uid");
        if !uid.is_empty() && uid != record {
            return Err(precondition(resource, &stored, uid, record));
        }
        if scale {
            let shown = self.present(resource, &stored)?;
            body = scale::rescale(resource, shown.value(), &body)?;
            sent = self.read(resource, &mut body, ObjectOrigin::Body, checked.1)?;
        }
        let ownership = Ownership::Track(options);
        let write = ObjectWrite::new(target, stored, ObjectOrigin::Body, options, ownership);
        self.write(&write, (body, sent))
    }

    /// Decodes the new object of a write, and warns of unknown fields. Returns the managedFields in the request.
    pub(crate) fn read(
        &self,
        resource: &Resource,
        new: &mut Value,
        origin: ObjectOrigin,
        validation: FieldValidation,
    ) -> Result<Option<Value>, Status> {
        let sent = match origin {
            ObjectOrigin::Body => managed::take(new),
            // Does not take the managedFields out of the object, so that a patch is refused if they do not decode.
            ObjectOrigin::Patch { .. } | ObjectOrigin::Apply => managed::sent(new).cloned(),
        };
        self.note_unknown(intake::decode(resource, new, origin, validation)?);
        Ok(sent)
    }

    /// Applies a patch of any type to an object or a subresource such as status. `body` is the body of the request.
    ///
    /// # Errors
    /// The errors of [`Registry::update`], 400 for a patch that does not parse, and 422 for a patch that cannot be
    /// applied to the object.
    pub fn patch(
        &mut self,
        target: ObjectTarget<'_>,
        kind: PatchKind,
        body: &[u8],
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<StoredWrite, Status> {
        self.now = now;
        if kind == PatchKind::Apply {
            return self.apply(target, body, options);
        }
        let checked = intake::options("PatchOptions", options)?;
        let ObjectTarget { resource, name, .. } = target;
        let stored = Arc::clone(self.target(target)?);
        let shown = self.present(resource, &stored)?;
        let scale = target.subresource == Subresource::Scale;
        let base = if scale {
            scale::scale_of(resource, shown.value())?
        } else {
            shown.value().clone()
        };
        let document = parse_json(body);
        let reached_metadata = document.as_ref().is_ok_and(patch_checks::reaches_metadata);
        let mut oddities = match &document {
            Ok(document) => patch_checks::oddities(kind, body, document, checked.1),
            Err(_) => Vec::new(),
        };
        let strict = checked.1 == FieldValidation::Strict;
        let strategic = document.as_ref().ok();
        let strategic = strategic.filter(|_| strict && kind == PatchKind::Strategic);
        let strategic = strategic.map(go::print);
        let mut patched = match kind {
            PatchKind::Json => apply_json_patch(&base, document)?,
            PatchKind::Merge => apply_merge_patch(&base, document)?,
            PatchKind::Strategic => {
                let ty = scale::type_of(resource, target.subresource);
                apply_strategic_patch(&base, document, ty)?
            }
            PatchKind::Apply => {
                return Err(Status::unsupported_media_type(PatchKind::ACCEPTED));
            }
        };
        if strategic.is_some() && !scale {
            let decoded = &mut patched.clone();
            oddities.extend(intake::unknown_fields(resource, decoded)?);
        }
        patch_checks::refuse_oddities(&oddities, checked.1, || {
            strategic.unwrap_or_else(|| order::patched(&patched, reached_metadata))
        })?;
        if scale {
            let sent = order::patched(&patched, reached_metadata);
            let read = scale::read(&self.catalogue, resource, &mut patched, checked.1);
            let unknown =
                read.map_err(|status| intake::undecodable_patch("Scale", &sent, status))?;
            oddities.extend(unknown);
            check_name(&patched, name)?;
            patched = scale::rescale(resource, shown.value(), &patched)?;
        } else {
            patch_checks::check_kind(&self.catalogue, resource, &mut patched, reached_metadata)?;
        }
        check_name(&patched, name)?;
        place(target, &mut patched)?;
        let origin = ObjectOrigin::Patch { reached_metadata };
        let ownership = Ownership::Track(options);
        let write = ObjectWrite::new(target, stored, origin, options, ownership);
        self.note_warnings(oddities);
        let sent = self.read(resource, &mut patched, origin, checked.1)?;
        self.write(&write, (patched, sent))
    }

    fn create_by_update(
        &mut self,
        target: ObjectTarget<'_>,
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<StoredWrite, Status> {
        let uid = metadata::text(&body, "uid").to_owned();
        let name = metadata::text(&body, "name").to_owned();
        if !uid.is_empty() {
            let namespace = target.scope().into();
            let absent = Stored::new(namespace, name.as_str().into(), Value::Null, 0);
            return Err(precondition(target.resource, &absent, &uid, ""));
        }
        metadata::of(&mut body).remove("resourceVersion");
        let checked = intake::options("CreateOptions", options)?;
        let ownership = Ownership::Track(options);
        let request = CreateRequest::Put;
        self.create_owned(target, body, request, (checked, options, ownership))
    }

    fn prepare(
        &mut self,
        write: &ObjectWrite<'_>,
        new: &mut Value,
        old: &Value,
    ) -> Result<(), Status> {
        let strategy = steersman_builtins::of(write.resource);
        if signing::is_request(write.resource) {
            signing::time_conditions(new, old, self.now);
        }
        match (write.subresource, strategy) {
            (Subresource::Main, strategy) => {
                if write.resource.is("", "Service") {
                    self.address_service(new, Some(old))?;
                }
                if let Some(strategy) = strategy {
                    (strategy.prepare)(new, Some(old));
                }
            }
            (Subresource::Status, Some(strategy)) => (strategy.prepare_status)(new, old),
            _ => {}
        }
        Ok(())
    }

    /// Stores the decoded object `new` in place of the stored object, after all checks, policies and webhooks. `sent`
    /// are the managedFields in the request.
    pub(crate) fn write(
        &mut self,
        write: &ObjectWrite<'_>,
        (mut new, sent): (Value, Option<Value>),
    ) -> Result<StoredWrite, Status> {
        let (resource, stored) = (write.resource, &write.stored);
        check_version(write, &new)?;
        metadata::keep(&mut new, stored.lean());
        let shown = self.present(resource, stored)?;
        let old = shown.lean();
        let named = managed::named_beside(resource, write.subresource, &new);
        let sends_empty = metadata::counts_empty(resource, &new);
        let mut merged = subresource_fields::complete(resource, write.subresource, new, old);
        self.prepare(write, &mut merged, old)?;
        let face = (resource, write.subresource);
        let mut managed = self.updated_managed_fields(
            face,
            (stored, &shown.stored, &merged),
            (named, sent),
            &write.ownership,
        );
        if let Some(finish) = finish_status(face) {
            finish(&mut merged, old, &metadata::time(self.now));
        }
        if self.shows_managed(resource) {
            managed::show(&mut merged, &mut managed);
        }
        let mut merged = self.admit_change(write, merged, &shown)?;
        let mut warnings = Vec::new();
        self.check(write, &merged, old, &mut warnings)?;
        match write.subresource {
            Subresource::Main => warnings.extend(intake::warnings(resource, &merged, Some(old))),
            Subresource::Status => {
                if let Some(strategy) = steersman_builtins::of(resource) {
                    warnings.extend(steersman_builtins::status_warnings(strategy, &merged));
                }
            }
            _ => {}
        }
        self.note_warnings(warnings);
        // A status write cannot change the spec, so the generation stays.
        if write.subresource != Subresource::Status {
            metadata::raise_generation(resource, &mut merged, old, sends_empty);
        }
        let admitted = (&write.admission, &merged, Some(old));
        self.admit_limits(admitted)?;
        self.admit_changed(write, &merged, &shown)?;
        self.admit_quota(admitted)?;
        if is_definition(resource) && !write.admission.dry && write.subresource == Subresource::Main
        {
            self.judge_names(&mut merged);
        }
        let version = stored.lean()["metadata"]["resourceVersion"].clone();
        metadata::of(&mut merged).insert("resourceVersion".to_owned(), version);
        if write.subresource == Subresource::Scale {
            // If the Scale for the response cannot be built, the write must fail before anything is stored (SRV-REG-1).
            scale::scale_of(resource, &merged)?;
        }
        let value = self.to_storage(resource, merged)?;
        check_nesting(&value)?;
        let foreseen = self.foresee(resource, &value)?;
        let object = self.commit(write, Draft::new(value, managed));
        let object = match write.subresource {
            Subresource::Scale => {
                let shown = self.answered(resource, &object, foreseen)?;
                scale::scale_object(resource, &shown)?
            }
            _ => self.answered(resource, &object, foreseen)?,
        };
        let created = false;
        Ok(StoredWrite { object, created })
    }

    /// Stores the result of an update, unless it is equal to the stored object. Removes the object if the update has
    /// removed the last finalizer of a deleted object.
    fn commit(&mut self, write: &ObjectWrite<'_>, mut draft: Draft) -> Arc<Stored> {
        let (resource, stored) = (write.resource, &write.stored);
        let is_same = draft.value == *stored.lean();
        // The comparison includes `apiVersion`, which `to_storage` has set to the storage version. So an object that is
        // stored in an old storage version is written again even without a change (SRV-REG-4).
        if is_same && managed::differ_in_times(draft.managed(), stored.managed()) {
            Arc::clone(stored)
        } else if write.admission.dry || may_go(&draft.value) {
            if !write.admission.dry {
                self.remove(&resource.storage, stored);
                self.settle();
            }
            // Nothing is stored, so the response has the resource version of the stored object (SRV-REG-5).
            let (namespace, name) = (Arc::clone(&stored.namespace), Arc::clone(&stored.name));
            Arc::new(Stored::new(namespace, name, draft, stored.revision))
        } else {
            let put = self.put(&resource.storage, &stored.namespace, &stored.name, draft);
            if is_definition(resource) {
                self.serve_again(stored.lean(), &put);
                self.judge_waiting(&put.lean()["spec"]["group"]);
                let storage = crate::objects::definitions::storage_of(put.lean());
                if put.is_terminating() {
                    self.finish_definition(&storage);
                }
            }
            self.settle();
            put
        }
    }

    pub(super) fn check(
        &self,
        write: &ObjectWrite<'_>,
        new: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let WriteAdmission { target, user, .. } = write.admission;
        self.refuse_escalation(target, user, new, Some(old))?;
        let checks = &write.resource.metadata_checks;
        let checks = match write.subresource {
            Subresource::Main | Subresource::Scale | Subresource::Finalize => &checks.main,
            _ => &checks.status,
        };
        let mut errors = metadata::validate_update(write.resource, checks, (new, old));
        if write.subresource == Subresource::Status {
            let verb = match write.origin {
                ObjectOrigin::Body => "update",
                ObjectOrigin::Patch { .. } | ObjectOrigin::Apply => "patch",
            };
            errors.extend(self.check_claim_rights(target, user, verb, (new, old)));
            errors.extend(self.check_admin_access(target, new, Some(old)));
        }
        errors.extend(match write.subresource {
            Subresource::Status => intake::check_status(write.resource, new, old, warnings),
            Subresource::EphemeralContainers => steersman_builtins::validate_ephemeral(new, old),
            Subresource::Resize => steersman_builtins::validate_resize(new, old),
            Subresource::Approval => steersman_builtins::validate_approval(new, old),
            Subresource::Main | Subresource::Scale | Subresource::Finalize => {
                intake::check(write.resource, new, Some(old), warnings)
            }
        });
        if errors.is_empty() && write.subresource == Subresource::Main {
            errors.extend(self.check_parameters(write.resource, user, (new, Some(old))));
        }
        if errors.is_empty() {
            return Ok(());
        }
        let group_kind = write.resource.group_kind();
        Err(Status::invalid(group_kind, &write.stored.name, &errors))
    }
}

/// Builds the 409 for an update with another uid than the stored object, with the message of upstream's store.
fn precondition(resource: &Resource, stored: &Stored, uid: &str, record: &str) -> Status {
    let mut path = if resource.built_in {
        format!("/registry/{}", resource.plural)
    } else {
        format!("/registry/{}/{}", resource.group, resource.plural)
    };
    if resource.namespaced {
        path = format!("{path}/{}", stored.namespace);
    }
    let name = &stored.name;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {record}"
    );
    Status::conflict(resource.group_resource(), name, &why)
}

/// Fails with 409 if the request has another resource version than the stored object (SRV-REG-2). A request without a
/// resource version passes, unless its kind requires one.
fn check_version(write: &ObjectWrite<'_>, new: &Value) -> Result<(), Status> {
    let (resource, stored) = (write.resource, &write.stored);
    let text = metadata::text(new, "resourceVersion");
    let version = parse_version(text).map_err(|why| {
        let why = why
            .split_once(": strconv")
            .map_or(why.clone(), |(_, w)| format!("strconv{w}"));
        Status::internal_plain(why)
    })?;
    if version == 0 {
        if !resource.unconditional_update
            && write.origin == ObjectOrigin::Body
            && write.subresource != Subresource::Scale
        {
            let field = "metadata.resourceVersion";
            let error = FieldError::invalid(field, "0", "must be specified for an update");
            let group_resource = resource.group_resource();
            return Err(Status::invalid(group_resource, &stored.name, &[error]));
        }
        return Ok(());
    }
    if version == stored.revision {
        return Ok(());
    }
    let group_resource = resource.group_resource();
    Err(Status::conflict(group_resource, &stored.name, MODIFIED))
}
