//! Machine: converts objects between the versions of a resource.
//!
//! A webhook converts custom resources if their CRD names a conversion webhook. A write converts the object for its
//! response before it changes anything, because the webhook may fail (ADM-2).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_builtins::{autoscaling, events};
use steersman_schema::resource::{Resource, StorageKey};
use steersman_schema::stored_schemas::read_stored;
use steersman_store::{Draft, Stored};

use crate::requests::metadata;
use crate::requests::options::VersionedObject;
use crate::requests::rng::Rng;
use crate::state::registry::Registry;
use crate::values::text;
use crate::webhook::{WebhookAddress, WebhookCall, conversion, review_version};

/// The timeout of a call of a conversion webhook: 30 seconds, as upstream. A CRD cannot set the timeout.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

impl Registry {
    /// Converts a stored object to the version of `resource`. A custom resource first gets the defaults of the version
    /// in which it is stored (SRV-CRD-2). An object that does not change is shared with the store.
    pub(crate) fn present(
        &self,
        resource: &Resource,
        stored: &Arc<Stored>,
    ) -> Result<VersionedObject, Status> {
        if events::is_newer(resource) {
            return Ok(restamped(stored, events::to_newer(&stored.value)));
        }
        if autoscaling::is_older(resource) {
            return Ok(restamped(stored, autoscaling::to_v1(&stored.value)));
        }
        let stored = read_through(resource, stored);
        if is_foreign(resource, stored.api_version()) {
            let values = self.convert(resource, resource, false, &[&stored.value])?;
            let value = values.into_iter().next().unwrap_or_default();
            return Ok(shown(resource, &stored, value));
        }
        let own = if resource.built_in {
            resource.version == resource.storage_version
        } else {
            // Compares the object's own version: an object that was stored before the storage version of its CRD
            // changed is still in the old storage version.
            is_of(stored.api_version(), &resource.version)
        };
        if own {
            return Ok(VersionedObject { stored });
        }
        let mut draft = stored.draft();
        draft.value["apiVersion"] = Value::String(resource.api_version());
        if let Some(schema) = resource.structural() {
            schema.coerce(&mut draft.value);
        }
        Ok(restamped(&stored, draft))
    }

    /// Converts the stored objects of a list to the version of `resource`, with one call of the conversion webhook.
    pub(crate) fn present_all(
        &self,
        resource: &Resource,
        all: &[Arc<Stored>],
    ) -> Result<Vec<VersionedObject>, Status> {
        let foreign = |one: &&Arc<Stored>| is_foreign(resource, one.api_version());
        let sent = all.iter().filter(foreign);
        let sent: Vec<Arc<Stored>> = sent.map(|one| read_through(resource, one)).collect();
        if sent.is_empty() {
            return all.iter().map(|one| self.present(resource, one)).collect();
        }
        let values: Vec<&Value> = sent.iter().map(|one| &*one.value).collect();
        let converted = self.convert(resource, resource, true, &values)?;
        let mut converted = sent.iter().zip(converted);
        let show = |one: &Arc<Stored>| {
            let answer = foreign(&one).then(|| converted.next()).flatten();
            match answer {
                Some((read, value)) => Ok(shown(resource, read, value)),
                None => self.present(resource, one),
            }
        };
        all.iter().map(show).collect()
    }

    pub(crate) fn to_storage(
        &self,
        resource: &Resource,
        mut value: Value,
    ) -> Result<Value, Status> {
        if resource.conversion.is_some() {
            let version = resource.storage_version.clone();
            return self.to_named(resource, &version, value);
        }
        if events::is_newer(resource) {
            return Ok(events::to_core(&value));
        }
        if autoscaling::is_older(resource) {
            return Ok(autoscaling::to_v2(&value));
        }
        set_storage_version(resource, &mut value);
        Ok(value)
    }

    /// Converts a stored object to the storage version of its kind, for a write of the server itself. Such a write
    /// calls no webhook, so an object that only a webhook can convert keeps its version.
    pub(crate) fn in_storage_version(&self, storage: &StorageKey, mut draft: Draft) -> Draft {
        let Some(resource) = self.catalogue.of_storage(storage) else {
            return draft;
        };
        let is_current = is_of(version_of(&draft.value), &resource.storage_version);
        if resource.built_in || resource.conversion.is_some() || is_current {
            return draft;
        }
        set_storage_version(resource, &mut draft.value);
        draft
    }

    /// Converts the object that a write is going to store to the version of the response, by a webhook and before the
    /// write, because the webhook may fail. `None` if no webhook is needed.
    pub(crate) fn foresee(
        &self,
        resource: &Resource,
        state: &Value,
    ) -> Result<Option<Value>, Status> {
        let version = version_of(state);
        if !is_foreign(resource, version) {
            return Ok(None);
        }
        let has_status = state.get("status").is_some();
        let mut state = Cow::Borrowed(state);
        if let Some(schema) = resource.stored_schemas.for_read(version, has_status) {
            read_stored(schema, state.to_mut());
        }
        let values = self.convert(resource, resource, false, &[&*state])?;
        Ok(values.into_iter().next())
    }

    /// Returns the object in the response of a write: `foreseen`, the result of [`Self::foresee`], with the metadata
    /// that the write has stored, such as the resource version.
    pub(crate) fn answered(
        &self,
        resource: &Resource,
        written: &Arc<Stored>,
        foreseen: Option<Value>,
    ) -> Result<VersionedObject, Status> {
        let Some(mut value) = foreseen else {
            return self.present(resource, written);
        };
        let own = metadata::of(&mut value);
        let (labels, annotations) = (own.remove("labels"), own.remove("annotations"));
        value["metadata"] = written.value["metadata"].clone();
        let own = metadata::of(&mut value);
        for (field, kept) in [("labels", labels), ("annotations", annotations)] {
            metadata::assign(own, field, kept);
        }
        Ok(shown(resource, written, value))
    }

    pub(crate) fn to_version(
        &self,
        from: &Resource,
        to: &Resource,
        object: &Value,
    ) -> Result<Value, Status> {
        if from.has_version_of(to) {
            return Ok(object.clone());
        }
        let version = object["metadata"].get("resourceVersion").cloned();
        let mut value = if from.conversion.is_some() {
            self.to_named(from, &to.version, object.clone())?
        } else {
            let stored = self.to_storage(from, object.clone())?;
            let stored = Stored::new("".into(), "".into(), stored, 0);
            self.present(to, &Arc::new(stored))?.value().clone()
        };
        if let Some(version) = version {
            metadata::of(&mut value).insert("resourceVersion".to_owned(), version);
        }
        Ok(value)
    }

    fn to_named(&self, from: &Resource, version: &str, value: Value) -> Result<Value, Status> {
        let all = self.catalogue.all.iter();
        let mut same = all.filter(|other| other.storage == from.storage);
        // `None` if the CRD no longer serves the version; then the schema of the version is in `stored_schemas`.
        let named = same.find(|other| other.version == version);
        let mut to = named.map_or_else(|| from.clone(), |named| (**named).clone());
        if to.version != version {
            to.version = version.to_owned();
            to.schema = from.stored_schemas.schema_of(version).cloned();
        }
        if !is_foreign(&to, version_of(&value)) {
            return Ok(value);
        }
        let values = self.convert(from, &to, false, &[&value])?;
        let mut value = values.into_iter().next().unwrap_or_default();
        if let Some(schema) = to.structural() {
            schema.coerce(&mut value);
        }
        Ok(value)
    }

    /// Converts objects from the version of `from` to that of `to` by the conversion webhook of their CRD. `is_list`
    /// (the objects are items of a list) changes only error messages.
    fn convert(
        &self,
        from: &Resource,
        to: &Resource,
        is_list: bool,
        objects: &[&Value],
    ) -> Result<Vec<Value>, Status> {
        let version = to.api_version();
        let first = objects.first().copied().unwrap_or(&Value::Null);
        // Error messages name the requested version for a list, and the object's own version for one object.
        let (of, inner) = if is_list {
            let of = format!("{version}, Kind={}", to.list_kind);
            (of.clone(), of)
        } else {
            let own = first["apiVersion"].as_str().unwrap_or(&version);
            (format!("{own}, Kind={}", to.kind), "/, Kind=".to_owned())
        };
        let failed = |why: &str| Status::internal_plain(format!("conversion for {of} {why}"));
        let webhook = from.conversion.clone().unwrap_or_default();
        let Some(review) = review_version(&webhook["conversionReviewVersions"]) else {
            return Err(failed("failed: no supported conversion review versions"));
        };
        if !self.is_attended() {
            let why = "failed: conversion webhooks are asked about requests only";
            return Err(failed(why));
        }
        let endpoint = WebhookAddress::of(&webhook["clientConfig"]);
        let encoded = serde_json::to_string(objects).unwrap_or_default();
        let key = format!("conversion {version} {endpoint:?} {encoded}");
        let uid = Rng::of_text(&key).uid();
        let body = conversion::review(review, &uid, &version, objects);
        let call = WebhookCall {
            ca: WebhookAddress::ca(&webhook["clientConfig"]),
            timeout: TIMEOUT,
            url: endpoint.url(TIMEOUT),
            body: body.to_string().into(),
            endpoint,
            uid,
            key,
        };
        let subject = (from, metadata::text(first, "name"));
        let answers = self.answers(subject, vec![(self.next_conversion(), call)])?;
        let answer = answers.first().ok_or_else(|| failed("failed"))?;
        let values = conversion::converted(review, answer).map_err(|why| {
            let why = format!("failed: conversion webhook for {inner} failed: {why}");
            failed(&why)
        })?;
        let (found, expected) = (values.len(), objects.len());
        if found != expected {
            let why = format!("returned {found} objects, expected {expected}");
            return Err(failed(&why));
        }
        let pairs = objects.iter().zip(values).enumerate();
        let restored = pairs.map(|(at, (original, converted))| {
            // Error messages count the items of a list from 1.
            let place = if is_list { at + 1 } else { 1 };
            conversion::restored(original, converted, &version, place).map_err(|why| failed(&why))
        });
        restored.collect()
    }
}

/// Returns whether only a webhook can convert an object of this `apiVersion` to the resource's version.
fn is_foreign(resource: &Resource, version: &str) -> bool {
    resource.conversion.is_some() && version != resource.api_version()
}

fn shown(resource: &Resource, stored: &Arc<Stored>, mut value: Value) -> VersionedObject {
    if let Some(schema) = resource.structural() {
        schema.coerce(&mut value);
    }
    restamped(stored, value)
}

fn version_of(object: &Value) -> &str {
    text(&object["apiVersion"])
}

/// Converts an object to the storage version without a webhook: sets `apiVersion`, and removes fields and nulls that
/// the schema of the storage version does not allow.
fn set_storage_version(resource: &Resource, value: &mut Value) {
    let version = &resource.storage_version;
    value["apiVersion"] = Value::String(match resource.group.as_str() {
        "" => version.clone(),
        group => format!("{group}/{version}"),
    });
    if let Some(schema) = resource.stored_schemas.of_version(version) {
        schema.coerce(value);
    }
}

/// Returns whether `version`, such as `v1`, is the version in the `apiVersion` `named`, such as `group/v1`.
fn is_of(named: &str, version: &str) -> bool {
    named.rsplit_once('/').map_or(named, |(_, own)| own) == version
}

fn restamped(stored: &Arc<Stored>, object: impl Into<Draft>) -> VersionedObject {
    let (namespace, name) = (Arc::clone(&stored.namespace), Arc::clone(&stored.name));
    VersionedObject {
        stored: Arc::new(Stored::new(namespace, name, object, stored.revision)),
    }
}

/// Returns a stored object without the fields and nulls that the schema of its version does not allow, and with the
/// defaults of that schema (SRV-CRD-2). The object in the store stays as it is.
fn read_through(resource: &Resource, stored: &Arc<Stored>) -> Arc<Stored> {
    let schemas = &resource.stored_schemas;
    let Some(schema) = schemas.for_read(stored.api_version(), stored.has_status()) else {
        return Arc::clone(stored);
    };
    let mut draft = stored.draft();
    read_stored(schema, &mut draft.value);
    if stored.holds(&draft) {
        return Arc::clone(stored);
    }
    restamped(stored, draft).stored
}
