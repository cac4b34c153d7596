//! Machine: the create verb, also for a PUT or an apply of an object that does not exist.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::{Cause, Status};
use steersman_schema::resource::{Generation, Resource};
use steersman_store::{Draft, ManagedFields};

use super::deletion::protection;
use crate::admission::attributes::WriteAdmission;
use crate::admission::mutation_progress::MutationProgress;
use crate::objects::managed::{self, Ownership};
use crate::objects::nesting::check_nesting;
use crate::plugins::signing;
use crate::requests::intake::{self, FieldValidation, ObjectOrigin, is_definition};
use crate::requests::options::{ObjectTarget, StoredWrite, WriteOptions};
use crate::requests::{metadata, subresource_fields};
use crate::state::registry::Registry;

/// Maximum number of names that are generated from `generateName` for one object; if all are taken, the create fails
/// with 409.
const NAME_TRIES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateRequest {
    /// A POST; the permission `create` was checked.
    Post,
    /// A PUT of an object that does not exist; only the permission `update` was checked so far (AUTH-5).
    Put,
    /// An apply of an object that does not exist; only the permission `patch` was checked so far (AUTH-5).
    Apply,
}

/// A new object before it is stored, with the last step of the create verb that is done (`stage`).
#[derive(Debug)]
pub(crate) struct NewObject {
    pub(crate) object: Value,
    managed: ManagedFields,
    /// The name that the client has set in the body; empty if the server generates the name.
    asked_name: String,
    dry: bool,
    stage: CreateStage,
    pub(crate) mutation: MutationProgress,
    /// The fields that only the server sets, with their values. Mutating webhooks do not see them.
    pub(crate) hidden: Vec<(&'static str, Option<Value>)>,
}

/// The last step of a create that is done. After a stop for a webhook, the next run continues with the step after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum CreateStage {
    /// The body is decoded, and the fields that only the server sets, such as `uid`, are set.
    Decoded,
    /// The admission plugins have set their defaults, such as the ServiceAccount of a Pod.
    Defaulted,
    /// The mutating policies and webhooks have run.
    Mutated,
    /// The object is validated.
    Checked,
}

impl Registry {
    /// Creates an object. Its name is in the body, or is generated from `generateName` in the body.
    ///
    /// # Errors
    /// Returns the `Status` of the refusal; nothing has changed then.
    pub fn create(
        &mut self,
        target: ObjectTarget<'_>,
        body: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<StoredWrite, Status> {
        self.now = now;
        if target.resource.terminating {
            return Err(Status::terminating(target.resource.group_resource()));
        }
        let checked = intake::options("CreateOptions", options)?;
        let ownership = Ownership::Track(options);
        let request = CreateRequest::Post;
        self.create_owned(target, body, request, (checked, options, ownership))
    }

    /// Continues a create that has stopped for webhooks. `None` if no create has stopped, or if the registry has
    /// changed since: then call [`create`](Self::create) again (ADM-1).
    ///
    /// # Errors
    /// Returns the `Status` of the refusal; nothing has changed then.
    pub fn resume_create(
        &mut self,
        target: ObjectTarget<'_>,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Option<Result<StoredWrite, Status>> {
        self.now = now;
        let new = self.take_waiting()?;
        Some(self.create_decoded(target, new, CreateRequest::Post, options))
    }

    /// Decodes the body of a create or a review, which must have the resource's kind. Warns of unknown fields.
    pub(crate) fn decode_body(
        &self,
        resource: &Resource,
        body: &mut Value,
        (origin, validation): (ObjectOrigin, FieldValidation),
    ) -> Result<(), Status> {
        intake::check_kind(&self.catalogue, resource, body)?;
        let unknown = intake::decode(resource, body, origin, validation)?;
        self.note_unknown(unknown);
        Ok(())
    }

    pub(crate) fn create_owned(
        &mut self,
        target: ObjectTarget<'_>,
        mut object: Value,
        request: CreateRequest,
        ((dry, validation), options, ownership): (
            (bool, FieldValidation),
            &WriteOptions,
            Ownership<'_>,
        ),
    ) -> Result<StoredWrite, Status> {
        let resource = target.resource;
        let origin = match request {
            CreateRequest::Post | CreateRequest::Put => ObjectOrigin::Body,
            CreateRequest::Apply => ObjectOrigin::Apply,
        };
        self.decode_body(resource, &mut object, (origin, validation))?;
        let namespace = place(target, &mut object)?;
        let asked_name = metadata::text(&object, "name").to_owned();
        self.name(resource, namespace, &mut object);
        self.admit(resource, namespace, &object)?;
        self.stamp(resource, &mut object);
        let asked = managed::sent_fields(resource, &object);
        intake::complete(resource, &mut object);
        let mut managed = self.created_managed_fields(resource, &object, (asked, ownership));
        if self.shows_managed(resource) {
            managed::show(&mut object, &mut managed);
        }
        if signing::is_request(resource) {
            signing::sign_for(&options.user, &mut object);
        }
        let new = NewObject {
            object,
            managed,
            asked_name,
            dry,
            stage: CreateStage::Decoded,
            mutation: MutationProgress::default(),
            hidden: Vec::new(),
        };
        self.create_decoded(target, new, request, options)
    }

    fn create_decoded(
        &mut self,
        target: ObjectTarget<'_>,
        mut new: NewObject,
        request: CreateRequest,
        options: &WriteOptions,
    ) -> Result<StoredWrite, Status> {
        if let Err(status) = self.admit_created(target, &mut new, request, options) {
            // Only a POST can continue here in its next run. A PUT or apply does other steps before, and starts anew.
            if request == CreateRequest::Post {
                self.keep_waiting(new);
            }
            return Err(status);
        }
        self.store_new(target, new)
    }

    fn admit_created(
        &mut self,
        target: ObjectTarget<'_>,
        new: &mut NewObject,
        request: CreateRequest,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        if new.stage < CreateStage::Mutated {
            let asked_name = new.asked_name.clone();
            let admission = WriteAdmission::of_write(target, ("CREATE", &asked_name), options);
            if new.stage < CreateStage::Defaulted {
                self.admit_defaults(&admission, &mut new.object)?;
                new.stage = CreateStage::Defaulted;
            }
            self.admit_new(&admission, new)?;
            new.stage = CreateStage::Mutated;
        }
        if new.stage < CreateStage::Checked {
            self.check_new(target, new, request, options)?;
            new.stage = CreateStage::Checked;
        }
        let object = &new.object;
        // Unlike the mutating webhooks, validating webhooks get the generated name.
        let name = metadata::text(object, "name");
        let admission = WriteAdmission::of_write(target, ("CREATE", name), options);
        let write = (&admission, object, None);
        self.admit_limits(write)?;
        self.admit_validated(&admission, (Some(object), None))?;
        self.admit_quota(write)
    }

    fn check_new(
        &mut self,
        target: ObjectTarget<'_>,
        new: &mut NewObject,
        request: CreateRequest,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let resource = target.resource;
        self.refuse_escalation(target, &options.user, &new.object, None)?;
        self.complete_new(resource, &mut new.object)?;
        let object = &new.object;
        let mut warnings = Vec::new();
        let mut errors = Vec::from_iter(self.check_admin_access(target, object, None));
        errors.extend(intake::check(resource, object, None, &mut warnings));
        if errors.is_empty() {
            errors.extend(self.check_parameters(resource, &options.user, (object, None)));
        }
        if !errors.is_empty() {
            let name = metadata::text(object, "name");
            return Err(Status::invalid(resource.group_kind(), name, &errors));
        }
        warnings.extend(intake::warnings(resource, object, None));
        self.note_warnings(warnings);
        if request != CreateRequest::Post {
            self.authorize_creation(target, &options.user)?;
        }
        Ok(())
    }

    fn store_new(
        &mut self,
        target: ObjectTarget<'_>,
        new: NewObject,
    ) -> Result<StoredWrite, Status> {
        let resource = target.resource;
        let namespace = target.scope();
        let (object, managed, dry) = (new.object, new.managed, new.dry);
        let name = metadata::text(&object, "name").to_owned();
        // Upstream's store refuses a new object with a resource version, after all other checks and not in a dry run.
        let version = metadata::text(&object, "resourceVersion").parse();
        let version: u64 = version.unwrap_or_default();
        if version != 0 && !dry {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::internal_plain(message));
        }
        if let Some(taken) = self.store.get(&resource.storage, namespace, &name) {
            let mut refusal = Status::already_exists(resource.group_resource(), &name);
            if taken.is_terminating() {
                refusal.message = format!("object is being deleted: {}", refusal.message);
            }
            return Err(refusal);
        }
        let value = self.to_storage(resource, object)?;
        check_nesting(&value)?;
        let foreseen = self.foresee(resource, &value)?;
        let (draft, created) = (Draft::new(value, managed), true);
        if dry {
            let read = Self::answer(namespace, &name, draft, version).stored;
            let object = self.answered(resource, &read, foreseen)?;
            return Ok(StoredWrite { object, created });
        }
        let stored = self.put(&resource.storage, namespace, &name, draft);
        if is_definition(resource) {
            self.establish(resource, &stored);
        }
        self.settle();
        let object = self.answered(resource, &stored, foreseen)?;
        Ok(StoredWrite { object, created })
    }

    fn name(&mut self, resource: &Resource, namespace: &str, object: &mut Value) {
        let prefix = metadata::text(object, "generateName");
        if prefix.is_empty() || !metadata::text(object, "name").is_empty() {
            return;
        }
        let prefix: String = prefix.chars().take(58).collect();
        let mut name = String::new();
        for _ in 0..NAME_TRIES {
            name = format!("{prefix}{}", self.rng.suffix());
            let found = self.store.get(&resource.storage, namespace, &name);
            if found.is_none() {
                break;
            }
        }
        metadata::of(object).insert("name".to_owned(), Value::String(name));
    }

    fn admit(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<(), Status> {
        if !resource.namespaced {
            return Ok(());
        }
        let found = self.existing(("", "namespaces"), "", namespace)?;
        if !found.is_terminating() {
            return Ok(());
        }
        let name = metadata::text(object, "name");
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut refusal = Status::forbidden(resource.group_resource(), name, &why);
        refusal.details.get_or_insert_default().causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(refusal)
    }

    /// Sets the metadata of a new object that only the server sets, such as `uid`, and removes metadata that a client
    /// cannot set, such as `deletionTimestamp`.
    pub(crate) fn stamp(&mut self, resource: &Resource, object: &mut Value) {
        let uid = self.rng.uid();
        let fields = metadata::of(object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            fields.remove(field);
        }
        fields.insert("uid".to_owned(), uid.into());
        let time = metadata::time(self.now);
        fields.insert("creationTimestamp".to_owned(), time.into());
        if resource.generation != Generation::Unmanaged {
            fields.insert("generation".to_owned(), json!(1));
        }
        if subresource_fields::keeps_status(resource)
            && resource.kind != "Node"
            && let Some(members) = object.as_object_mut()
        {
            members.remove("status");
        }
    }

    /// Sets the fields that a kind's strategy and admission plugins add to a new object of a built-in kind, such as
    /// finalizers and Service addresses. 422 for an address that is not free.
    fn complete_new(&mut self, resource: &Resource, object: &mut Value) -> Result<(), Status> {
        if let Some(strategy) = steersman_builtins::of(resource) {
            (strategy.prepare)(object, None);
        }
        if let Some(finalizer) = protection(resource) {
            metadata::add_item(metadata::of(object), "finalizers", json!(finalizer));
        }
        match (resource.group.as_str(), resource.kind.as_str()) {
            ("", "Node") => taint(object),
            ("", "Service") => self.address_service(object, None)?,
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn check_name(body: &Value, name: &str) -> Result<(), Status> {
    let own = metadata::text(body, "name");
    if own.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if own != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Sets the namespace of an object to the namespace of the request; 400 if the object has another namespace.
pub(crate) fn place<'a>(target: ObjectTarget<'a>, object: &mut Value) -> Result<&'a str, Status> {
    let fields = metadata::of(object);
    let namespace = target.scope();
    if !target.resource.namespaced {
        fields.remove("namespace");
        return Ok(namespace);
    }
    let named = fields.get("namespace").and_then(Value::as_str);
    if named.is_some_and(|named| !named.is_empty() && named != namespace) {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    fields.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
    Ok(namespace)
}

/// Adds the taint `not-ready` to a new Node, so that no Pods are scheduled to it before its kubelet reports it ready.
fn taint(object: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    metadata::add_item(metadata::members(&mut object["spec"]), "taints", taint);
}
