//! Machine: the verbs that write objects: create, update, patch, delete and deletecollection.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_registry::{
    DeleteOptions, Deleted, ObjectTarget, PatchKind, Registry, Subresource, WriteOptions,
    check_options,
};

use super::{ObjectCall, RequestBody};
use crate::http::requests::call::ResourceCall;
use crate::http::requests::decode;
use crate::http::requests::ignored_fields::IgnoredFields;
use crate::http::requests::negotiate::{self, Format};
use crate::http::responses::reply::{Answered, Reply};

impl ObjectCall<'_> {
    /// Creates the object in the body. If an earlier run of this create stopped to call webhooks, and the registry has
    /// not changed since, continues it.
    pub(super) fn create(&self, registry: &mut Registry, body: &mut RequestBody<'_>) -> Answered {
        let target = ObjectTarget {
            name: "",
            ..self.target
        };
        let options = self.call.write_options();
        let resumed = body.ignored.take().and_then(|sent| {
            let created = registry.resume_create(target, &options, self.now)?;
            Some((created, sent))
        });
        let (created, sent) = match resumed {
            Some(resumed) => resumed,
            None => {
                let (object, sent) = self.object_body("CreateOptions", &options, body.bytes)?;
                (registry.create(target, object, &options, self.now), sent)
            }
        };
        let settled = sent.settle(registry, created);
        body.ignored = Some(sent);
        let written = settled?;
        let mut reply = self.maker.written(self.target.resource, &written)?;
        reply.created = Some(written.object.name().to_owned());
        Ok(reply)
    }

    pub(super) fn update(&self, registry: &mut Registry, body: &[u8]) -> Answered {
        let options = self.call.write_options();
        let (object, sent) = self.object_body("UpdateOptions", &options, body)?;
        let updated = registry.update(self.target, object, &options, self.now);
        let updated = sent.settle(registry, updated)?;
        self.maker.written(self.target.resource, &updated)
    }

    pub(super) fn patch(&self, registry: &mut Registry, kind: PatchKind, body: &[u8]) -> Answered {
        let options = self.call.write_options();
        let patched = registry.patch(self.target, kind, body, &options, self.now)?;
        self.maker.written(self.target.resource, &patched)
    }

    pub(super) fn delete(&self, registry: &mut Registry, body: &[u8]) -> Answered {
        let options = delete_options(self.call, body)?;
        let (code, object) = match registry.delete(self.target, &options, self.now)? {
            Deleted::Gone(status) => {
                self.maker.include()?;
                return Ok(Reply::status(&status, self.maker.media.format));
            }
            Deleted::Last(object) => (200, object),
            // As upstream, an object not removed yet is answered 202 only for the deprecated `orphanDependents: false`.
            Deleted::Held(object) if options.orphan_dependents == Some(false) => (202, object),
            Deleted::Held(object) => (200, object),
        };
        self.maker.object(code, self.target.resource, &object)
    }

    pub(super) fn delete_collection(&self, registry: &mut Registry, body: &[u8]) -> Answered {
        let options = delete_options(self.call, body)?;
        let list_options = self.call.query.list_options()?;
        let page = registry.delete_collection(self.target, &list_options, &options, self.now)?;
        self.maker.page(self.target.resource, page)
    }

    /// Checks the options in the query, parses the object in the body, and finds its unknown and duplicate fields.
    fn object_body<'a>(
        &self,
        options_kind: &str,
        options: &WriteOptions,
        body: &'a [u8],
    ) -> Result<(Value, IgnoredFields<'a>), Status> {
        let format = negotiate::body(self.call.content_type)?;
        check_options(options_kind, options)?;
        let resource = self.target.resource;
        let scale = self.target.subresource == Subresource::Scale;
        let kind = if scale { "Scale" } else { &resource.kind };
        let custom = !resource.built_in && !scale;
        if custom && format == Format::Protobuf {
            return Err(decode::no_message(body, kind));
        }
        let object = decode::object(body, format, kind)?;
        // Only custom resources must have a `kind`: for built-in kinds the path determines it.
        if custom && object.get("kind").is_none() {
            return Err(decode::kind_is_missing(body, kind));
        }
        let mode = self.call.query.get("fieldValidation").unwrap_or_default();
        let sent = IgnoredFields::new(body, format, mode, (resource, kind), &object)?;
        Ok((object, sent))
    }
}

fn delete_options(call: &ResourceCall<'_>, body: &[u8]) -> Result<DeleteOptions, Status> {
    let format = if body.is_empty() {
        Format::Json
    } else {
        negotiate::body(call.content_type)?
    };
    let sent = decode::delete_options(body, format).map_err(Status::bad_request)?;
    let mut options = match sent {
        // As in a kube-apiserver, options in the body replace all options of the query, even `dryRun`.
        Some(options) => options,
        None => call.query.delete_options()?,
    };
    options.user = Arc::clone(call.user);
    Ok(options)
}
