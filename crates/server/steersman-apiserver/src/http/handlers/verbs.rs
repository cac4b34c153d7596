//! Machine: carries out one request on objects, from its path and method to the answer.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::selector::FieldSelector;
use steersman_apimachinery::status::{Details, Status};
use steersman_protobuf::Message;
use steersman_registry::{
    DeleteOptions, Deleted, PatchKind, Registry, Subresource, Target, WriteOptions, Written,
    check_options, is_component_status, is_review,
};
use steersman_schema::resource::Resource;
use steersman_schema::subresources::{Act, further};

use crate::faults::Verb;
use crate::http::handlers::acts::{self, Allowed};
use crate::http::requests::call::{Call, Refusal};
use crate::http::requests::decode;
use crate::http::requests::ignored_fields::IgnoredFields;
use crate::http::requests::negotiate::{self, BodyFormat, Format, Media, Reader, Shape};
use crate::http::requests::path::ObjectPath;
use crate::http::requests::query::Query;
use crate::http::responses::events::EventEncoder;
use crate::http::responses::protobuf::PROTOBUF_WATCH;
use crate::http::responses::reply::{JSON, Reply, ReplyBody, WatchBody};
use crate::http::responses::shape::ReplyMaker;

/// The body of a request, and the findings that its next run needs again.
pub(crate) struct RequestBody<'a> {
    bytes: &'a [u8],
    /// The ignored fields of an object that was sent, once they are known.
    ignored: Option<IgnoredFields<'a>>,
}

impl<'a> RequestBody<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let ignored = None;
        Self { bytes, ignored }
    }
}

/// Carries out a call. It does all of the work or none, because no code in here waits.
pub(crate) fn perform(
    registry: &mut Registry,
    call: &Call<'_>,
    body: &mut RequestBody<'_>,
    now: Timestamp,
) -> Result<Reply, Refusal> {
    let path = call.path;
    let Some(resource) = registry.resource(&path.group, &path.version, &path.resource) else {
        return Err(unknown_version(registry, &path.group));
    };
    let resource = &*resource;
    let outcome = face_of(resource, path, call.verb).and_then(|face| {
        match face {
            VerbTarget::Object(subresource) => {
                perform_on(registry, call, resource, subresource, body, now)
            }
            VerbTarget::Act(act) => acts::perform(registry, call, resource, act, body.bytes, now),
        }
        .map_err(Refusal::from)
    });
    if let Some(warning) = &resource.deprecation_warning {
        let (_, noted) = registry.take_warnings();
        registry.note_warnings(vec![warning.clone()]);
        registry.note_warnings(noted);
    }
    outcome
}

/// Returns the refusal for a version that the group does not serve, or anything below it. A
/// built-in group answers a Status; any other group exists only through CRDs.
pub(crate) fn unknown_version(registry: &Registry, group: &str) -> Refusal {
    let own = registry
        .resources()
        .iter()
        .any(|known| known.built_in && known.group == group);
    if own {
        Status::no_such_path().into()
    } else {
        Refusal::PageNotFound
    }
}

/// The target of a verb.
enum VerbTarget {
    /// An object or a subresource.
    Object(Subresource),
    /// An act, and the verbs that perform it.
    Act(Allowed),
}

fn face_of(
    resource: &Resource,
    path: &ObjectPath,
    verb: Option<Verb>,
) -> Result<VerbTarget, Refusal> {
    let in_namespace = path.namespace.is_some();
    let misplaced = if in_namespace {
        !resource.namespaced
    } else {
        resource.namespaced
    };
    // Without a namespace a collection spans all namespaces; it can be read only for custom
    // resources.
    let spans = if resource.built_in {
        path.name.is_none()
    } else {
        matches!(verb, Some(Verb::List | Verb::Watch))
    };
    if misplaced && (in_namespace || !spans) {
        return Err(if resource.built_in {
            Status::no_such_path().into()
        } else {
            Refusal::PageNotFound
        });
    }
    match path.subresource.as_deref() {
        // A POST to the collection of bindings binds the Pod that the body names; nothing is stored
        // in the collection.
        None if is_review(resource) => Ok(VerbTarget::Act((Act::Review, resource.verbs))),
        None if resource.built_in && resource.kind == "Binding" => {
            Ok(VerbTarget::Act((Act::Bind, resource.verbs)))
        }
        None => Ok(VerbTarget::Object(Subresource::Main)),
        Some("status") if resource.status => Ok(VerbTarget::Object(Subresource::Status)),
        Some("scale") if resource.scale.is_some() => Ok(VerbTarget::Object(Subresource::Scale)),
        Some("finalize") if resource.built_in && resource.kind == "Namespace" => {
            Ok(VerbTarget::Object(Subresource::Finalize))
        }
        Some("ephemeralcontainers") if is_pod(resource) => {
            Ok(VerbTarget::Object(Subresource::EphemeralContainers))
        }
        Some("resize") if is_pod(resource) => Ok(VerbTarget::Object(Subresource::Resize)),
        Some("approval") if resource.is("certificates.k8s.io", "CertificateSigningRequest") => {
            Ok(VerbTarget::Object(Subresource::Approval))
        }
        Some(_) if !resource.built_in => {
            let name = path.name.as_deref().unwrap_or_default();
            Err(Status::not_found(resource.group_resource(), name).into())
        }
        Some(name) => {
            // A proxied path continues after the subresource's name.
            let word = name.split('/').next().unwrap_or_default();
            match further(resource).find(|further| further.name == word) {
                Some(further) if word == name || further.act == Act::Connect => {
                    Ok(VerbTarget::Act((further.act, further.verbs)))
                }
                _ => Err(Status::no_such_path().into()),
            }
        }
    }
}

/// Returns whether the table of messages has the resource's kind. A Scale of a custom resource has no
/// form in protobuf either, as in a kube-apiserver.
fn has_message(resource: &Resource) -> bool {
    resource.built_in && Message::of_kind(&resource.api_version(), &resource.kind).is_some()
}

fn is_pod(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "Pod"
}

/// Gets an object or lists objects. ComponentStatuses are not stored.
fn read(
    registry: &Registry,
    target: Target<'_>,
    (verb, query): (Verb, &Query),
    maker: &ReplyMaker,
    now: Timestamp,
) -> Result<Reply, Status> {
    let (resource, derived) = (target.resource, is_component_status(target.resource));
    if verb == Verb::List {
        let options = query.list_options()?;
        let page = if derived {
            registry.component_statuses(&options, now)?
        } else {
            registry.list(resource, target.namespace, &options)?
        };
        return maker.page(resource, page);
    }
    let object = if derived {
        registry.component_status(target.name, now)?
    } else {
        registry.get(target, &query.get_options())?
    };
    maker.object(200, resource, &object)
}

fn perform_on(
    registry: &mut Registry,
    call: &Call<'_>,
    resource: &Resource,
    subresource: Subresource,
    body: &mut RequestBody<'_>,
    now: Timestamp,
) -> Result<Reply, Status> {
    let verb = allowed(call, resource, subresource)?;
    let patch = match verb {
        Verb::Patch => Some(patch_kind(call, resource)?),
        _ => None,
    };
    let reader = match verb {
        _ if !resource.built_in => Reader::Handler,
        Verb::List | Verb::Watch => Reader::Watchable,
        _ => Reader::Route,
    };
    let media = negotiate::objects(call.accept, reader, has_message(resource))?;
    let maker = ReplyMaker::new(media, call.query, call.user_agent, now);
    let namespace = call.path.namespace.as_deref();
    let name = call.path.name.as_deref().unwrap_or_default();
    let query = call.query;
    let target = Target::object(resource, namespace, name).part(subresource);
    if matches!(verb, Verb::Get | Verb::Patch | Verb::Delete) {
        check_name(name)?;
    }
    match verb {
        Verb::Get | Verb::List => read(registry, target, (verb, query), &maker, now),
        Verb::Watch => watch(registry, call, resource, &maker),
        Verb::Create => {
            let target = Target::collection(resource, namespace).part(subresource);
            let written = create(registry, call, target, body, now)?;
            let mut reply = maker.written(resource, &written)?;
            reply.created = Some(written.object.name().to_owned());
            Ok(reply)
        }
        Verb::Update => {
            let options = call.write_options();
            let asked = (subresource, "UpdateOptions", &options);
            let (object, sent) = object_body(call, resource, asked, body.bytes)?;
            let updated = registry.update(target, object, &options, now);
            let written = sent.settle(registry, updated)?;
            maker.written(resource, &written)
        }
        Verb::Patch => {
            // Every patch has a type by now.
            let kind = patch.ok_or_else(Status::method_not_allowed)?;
            let options = call.write_options();
            let written = registry.patch(target, kind, body.bytes, &options, now)?;
            maker.written(resource, &written)
        }
        Verb::Delete => {
            let options = delete_options(call, body.bytes)?;
            match registry.delete(target, &options, now)? {
                Deleted::Gone(status) => {
                    maker.include()?;
                    Ok(Reply::status(&status, maker.media.format))
                }
                Deleted::Last(object) => maker.object(200, resource, &object),
                // As upstream, 202 (the deletion continues) is only the answer to the deprecated
                // `orphanDependents: false`.
                Deleted::Held(object) => {
                    let code = match options.orphan_dependents {
                        Some(false) => 202,
                        _ => 200,
                    };
                    maker.object(code, resource, &object)
                }
            }
        }
        Verb::DeleteCollection => {
            let options = delete_options(call, body.bytes)?;
            let selection = query.list_options()?;
            let page = registry.delete_collection(target, &selection, &options, now)?;
            maker.page(resource, page)
        }
    }
}

/// Creates the object of a body, or continues a create that stopped for webhooks.
fn create(
    registry: &mut Registry,
    call: &Call<'_>,
    target: Target<'_>,
    body: &mut RequestBody<'_>,
    now: Timestamp,
) -> Result<Written, Status> {
    let options = call.write_options();
    let resumed = body.ignored.take().and_then(|sent| {
        let created = registry.resume_create(target, &options, now)?;
        Some((created, sent))
    });
    let (created, sent) = match resumed {
        Some(resumed) => resumed,
        None => {
            let asked = (target.subresource, "CreateOptions", &options);
            let (object, sent) = object_body(call, target.resource, asked, body.bytes)?;
            (registry.create(target, object, &options, now), sent)
        }
    };
    let settled = sent.settle(registry, created);
    body.ignored = Some(sent);
    settled
}

/// Refuses names that are invalid as path segments: see `path.IsValidPathSegmentName`. Slashes
/// separated the path before.
fn check_name(name: &str) -> Result<(), Status> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        name if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!(
        "Name parameter invalid: {}: {why}",
        Value::from(name)
    )))
}

/// Returns the verb, if the resource supports it on this path.
fn allowed(call: &Call<'_>, resource: &Resource, subresource: Subresource) -> Result<Verb, Status> {
    if !resource.built_in {
        return allowed_on_custom(call, resource, subresource);
    }
    let verb = call.verb.ok_or_else(Status::method_not_allowed)?;
    let named = call.path.name.is_some();
    let here = match (subresource, verb) {
        (Subresource::Main, Verb::Create) => !named,
        (Subresource::Main, Verb::Update | Verb::Patch) => named,
        (Subresource::Finalize, verb) => verb == Verb::Update,
        (Subresource::Main, _) | (_, Verb::Get | Verb::Update | Verb::Patch) => true,
        (_, _) => false,
    };
    let writes_all = matches!(verb, Verb::Create | Verb::DeleteCollection);
    let across = resource.namespaced && call.path.namespace.is_none() && writes_all;
    let known = subresource != Subresource::Main || resource.verbs.contains(&verb.as_str());
    if here && known && !across {
        Ok(verb)
    } else if verb == Verb::Watch && resource.verbs.contains(&"list") {
        // A watch has the route of a list, so the message names the plural instead of the kind.
        let name = &resource.plural;
        let message = format!("watch is not supported on resources of kind \"{name}\"");
        let details = Details {
            kind: name.clone(),
            group: resource.group.clone(),
            ..Details::default()
        };
        Err(Status::failure(405, "MethodNotAllowed", message).with_details(details))
    } else {
        Err(Status::method_not_allowed())
    }
}

/// Checks a verb as `crdHandler` of apiextensions-apiserver does, which has no routes: a create is
/// accepted on any path, and a write without a name fails only in its handler.
fn allowed_on_custom(
    call: &Call<'_>,
    resource: &Resource,
    subresource: Subresource,
) -> Result<Verb, Status> {
    let main = subresource == Subresource::Main;
    let verb = call
        .verb
        .filter(|verb| main || matches!(verb, Verb::Get | Verb::Update | Verb::Patch));
    let Some(verb) = verb else {
        let verb = call.verb.map_or("", |verb| verb.as_str());
        let group_resource = resource.group_resource();
        return Err(Status::method_not_supported(group_resource, verb));
    };
    if matches!(verb, Verb::Update | Verb::Patch) && call.path.name.is_none() {
        if verb == Verb::Patch {
            patch_kind(call, resource)?;
        }
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(verb)
}

/// Parses the object of the body and finds its ignored fields. The query is checked first.
fn object_body<'a>(
    call: &Call<'_>,
    resource: &Resource,
    (subresource, kind, options): (Subresource, &str, &WriteOptions),
    body: &'a [u8],
) -> Result<(Value, IgnoredFields<'a>), Status> {
    let format = negotiate::body(Some(call.content_type))?;
    check_options(kind, options)?;
    let kind = if subresource == Subresource::Scale {
        "Scale"
    } else {
        &resource.kind
    };
    let custom = !resource.built_in && subresource != Subresource::Scale;
    if custom && format == BodyFormat::Protobuf {
        return Err(decode::no_message(body, kind));
    }
    let object = decode::object(body, format, kind)?;
    // Objects of built-in kinds may leave out their kind, because the path determines it.
    if custom && object.get("kind").is_none() {
        return Err(decode::kind_is_missing(body, kind));
    }
    let mode = call.query.get("fieldValidation").unwrap_or_default();
    let sent = IgnoredFields::new(body, format, mode, (resource, kind), &object)?;
    Ok((object, sent))
}

/// Returns the patch type of the content type. Other content types are refused with messages of
/// their own.
fn patch_kind(call: &Call<'_>, resource: &Resource) -> Result<PatchKind, Status> {
    match negotiate::media_type(call.content_type).as_str() {
        "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/apply-patch+yaml" => {
            PatchKind::from_content_type(call.content_type, resource)
        }
        // For custom resources the verb decides which patch types it accepts.
        _ if !resource.built_in => PatchKind::from_content_type(call.content_type, resource),
        _ => {
            let message = "415: Unsupported Media Type";
            let refusal = Status::failure(415, "UnsupportedMediaType", message);
            Err(refusal.with_details(Details::default()))
        }
    }
}

fn delete_options(call: &Call<'_>, body: &[u8]) -> Result<DeleteOptions, Status> {
    let format = if body.is_empty() {
        BodyFormat::Json
    } else {
        negotiate::body(Some(call.content_type))?
    };
    let mut options = match decode::delete_options(body, format)? {
        // As in a kube-apiserver, a body replaces all options of the query, even a dry run.
        Some(options) => options,
        None => call.query.delete_options()?,
    };
    options.user = Arc::clone(call.user);
    Ok(options)
}

fn watch(
    registry: &Registry,
    call: &Call<'_>,
    resource: &Resource,
    maker: &ReplyMaker,
) -> Result<Reply, Status> {
    let mut options = call.query.watch_options()?;
    let timeout_seconds = call.query.timeout_seconds()?;
    if !call.watch_list && options.send_initial_events.is_some() {
        return Err(watch_list_is_off());
    }
    if let Some(name) = call.path.name.as_deref() {
        let one = format!("metadata.name={name}");
        let more = options.field_selector.as_deref().unwrap_or_default();
        let more = FieldSelector::parse(more)?;
        let mut terms = more.terms().iter();
        if terms.len() == 0 {
            options.field_selector = Some(one);
        } else if !terms
            .any(|term| term.equal && term.label == "metadata.name" && term.value == name)
        {
            let why = "fieldSelector metadata.name doesn't match requested name";
            return Err(Status::bad_request(why));
        }
    }
    let cursor = registry.watch(resource, call.path.namespace.as_deref(), &options)?;
    let Media { format, shape } = negotiate::streamed(maker.media)?;
    let shape = match shape {
        Shape::PartialList(version) => Shape::Partial(version),
        shape => shape,
    };
    let encoder = EventEncoder::new(resource, Media { format, shape }, maker.include()?);
    let body = WatchBody {
        cursor,
        encoder,
        timeout_seconds,
        bookmarks: options.allow_bookmarks,
    };
    let content_type = match format {
        Format::Protobuf => PROTOBUF_WATCH,
        Format::Json | Format::Yaml => JSON,
    };
    Ok(Reply::of(
        200,
        content_type,
        ReplyBody::Watch(Box::new(body)),
    ))
}

/// Builds the refusal of a server without the WatchList feature.
fn watch_list_is_off() -> Status {
    use steersman_apimachinery::status::FieldError;
    let why =
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    Status::invalid_options(
        "ListOptions",
        &[FieldError::forbidden("sendInitialEvents", why)],
    )
}
