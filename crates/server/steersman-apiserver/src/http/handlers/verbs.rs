//! Machine: carries out one request on objects, from its path and method to the answer.

mod read;
mod write;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::status::{Details, Status};
use steersman_protobuf::Message;
use steersman_registry::{ObjectTarget, PatchKind, Registry, Subresource, is_review};
use steersman_schema::resource::Resource;
use steersman_schema::subresources::{Act, further};

use crate::faults::Verb;
use crate::http::documents::serve::serves;
use crate::http::handlers::acts::{self, Allowed};
use crate::http::requests::call::{HttpRefusal, ResourceCall};
use crate::http::requests::ignored_fields::IgnoredFields;
use crate::http::requests::negotiate::{self, AcceptReader};
use crate::http::requests::path::ObjectPath;
use crate::http::responses::reply::{Answered, HttpOutcome};
use crate::http::responses::shape::ReplyMaker;

/// The body of a request. A create that stops for webhooks runs again with their answers, and then reuses the ignored
/// fields that its first run found in the body.
pub(crate) struct RequestBody<'a> {
    bytes: &'a [u8],
    /// The unknown and duplicate fields of the object in the body; `None` until a create has looked for them.
    ignored: Option<IgnoredFields<'a>>,
}

impl<'a> RequestBody<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let ignored = None;
        Self { bytes, ignored }
    }
}

/// Carries out a request on objects. It never awaits, so a request that is dropped has done all of its work or none.
pub(crate) fn perform(
    registry: &mut Registry,
    call: &ResourceCall<'_>,
    body: &mut RequestBody<'_>,
    now: Timestamp,
) -> HttpOutcome {
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
        .map_err(HttpRefusal::from)
    });
    if let Some(warning) = &resource.deprecation_warning {
        let (_, noted) = registry.take_warnings();
        registry.note_warnings(vec![warning.clone()]);
        registry.note_warnings(noted);
    }
    outcome
}

/// Returns the refusal of a path with a version that the group does not serve. It is a Status for a built-in group; any
/// other group exists only through CRDs, and gets the 404 page.
pub(crate) fn unknown_version(registry: &Registry, group: &str) -> HttpRefusal {
    no_path(serves(registry.resources(), group))
}

fn no_path(built_in: bool) -> HttpRefusal {
    match built_in {
        true => Status::no_such_path().into(),
        false => HttpRefusal::PageNotFound,
    }
}

enum VerbTarget {
    Object(Subresource),
    /// A review or a subresource such as `binding`, and the verbs that it accepts.
    Act(Allowed),
}

fn face_of(
    resource: &Resource,
    path: &ObjectPath,
    verb: Option<Verb>,
) -> Result<VerbTarget, HttpRefusal> {
    let in_namespace = path.namespace.is_some();
    let misplaced = in_namespace != resource.namespaced;
    // A path of a collection without a namespace spans all namespaces; for custom resources only in a list or a watch.
    let spans = if resource.built_in {
        path.name.is_none()
    } else {
        matches!(verb, Some(Verb::List | Verb::Watch))
    };
    if misplaced && (in_namespace || !spans) {
        return Err(no_path(resource.built_in));
    }
    let is_core = |kind| resource.is("", kind);
    let subresource = match path.subresource.as_deref() {
        // Reviews and Bindings are not stored. A POST to the collection of Bindings binds the Pod that the body names.
        None if is_review(resource) => return Ok(VerbTarget::Act((Act::Review, resource.verbs))),
        None if is_core("Binding") => return Ok(VerbTarget::Act((Act::Bind, resource.verbs))),
        None => Subresource::Main,
        Some("status") if resource.status => Subresource::Status,
        Some("scale") if resource.scale.is_some() => Subresource::Scale,
        Some("finalize") if is_core("Namespace") => Subresource::Finalize,
        Some("ephemeralcontainers") if is_core("Pod") => Subresource::EphemeralContainers,
        Some("resize") if is_core("Pod") => Subresource::Resize,
        Some("approval") if resource.is("certificates.k8s.io", "CertificateSigningRequest") => {
            Subresource::Approval
        }
        Some(_) if !resource.built_in => {
            let name = path.name.as_deref().unwrap_or_default();
            return Err(Status::not_found(resource.group_resource(), name).into());
        }
        Some(name) => {
            // The path of a proxy request continues after the name of the subresource, as in `proxy/metrics`.
            let word = name.split('/').next().unwrap_or_default();
            return match further(resource).find(|further| further.name == word) {
                Some(further) if word == name || further.act == Act::Connect => {
                    Ok(VerbTarget::Act((further.act, further.verbs)))
                }
                _ => Err(Status::no_such_path().into()),
            };
        }
    };
    Ok(VerbTarget::Object(subresource))
}

/// Returns whether objects of the resource can be encoded as protobuf: not custom resources, nor their `scale`.
fn has_message(resource: &Resource) -> bool {
    resource.built_in && Message::of_kind(&resource.api_version(), &resource.kind).is_some()
}

struct ObjectCall<'a> {
    call: &'a ResourceCall<'a>,
    target: ObjectTarget<'a>,
    maker: ReplyMaker,
    now: Timestamp,
}

fn perform_on(
    registry: &mut Registry,
    call: &ResourceCall<'_>,
    resource: &Resource,
    subresource: Subresource,
    body: &mut RequestBody<'_>,
    now: Timestamp,
) -> Answered {
    let verb = allowed(call, resource, subresource)?;
    let patch = (verb == Verb::Patch).then(|| patch_kind(call, resource));
    let patch = patch.transpose()?;
    let reader = match verb {
        _ if !resource.built_in => AcceptReader::Handler,
        Verb::List | Verb::Watch => AcceptReader::Watchable,
        _ => AcceptReader::Route,
    };
    let media = negotiate::objects(call.accept, reader, has_message(resource))?;
    let namespace = call.path.namespace.as_deref();
    let name = call.path.name.as_deref().unwrap_or_default();
    if matches!(verb, Verb::Get | Verb::Patch | Verb::Delete) {
        check_name(name)?;
    }
    let on = ObjectCall {
        call,
        target: ObjectTarget::object(resource, namespace, name).part(subresource),
        maker: ReplyMaker::new(media, call.query, call.user_agent, now),
        now,
    };
    match verb {
        Verb::Get => on.get(registry),
        Verb::List => on.list(registry),
        Verb::Watch => on.watch(registry),
        Verb::Create => on.create(registry, body),
        Verb::Update => on.update(registry, body.bytes),
        Verb::Patch => {
            // `patch_kind` has returned a type for every patch that gets here, so this 405 is never returned.
            let kind = patch.ok_or_else(Status::method_not_allowed)?;
            on.patch(registry, kind, body.bytes)
        }
        Verb::Delete => on.delete(registry, body.bytes),
        Verb::DeleteCollection => on.delete_collection(registry, body.bytes),
    }
}

/// Refuses object names that are invalid as path segments, as upstream's `path.IsValidPathSegmentName` does.
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

fn allowed(
    call: &ResourceCall<'_>,
    resource: &Resource,
    subresource: Subresource,
) -> Result<Verb, Status> {
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
        // Upstream, a watch has the route of a list, so the message names the plural instead of the kind.
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

/// Checks the verb of a request on custom resources as `crdHandler` of apiextensions-apiserver does. Unlike the routes
/// of built-in kinds, it accepts a create on any path, and answers 400 to an update or a patch without a name.
fn allowed_on_custom(
    call: &ResourceCall<'_>,
    resource: &Resource,
    subresource: Subresource,
) -> Result<Verb, Status> {
    let main = subresource == Subresource::Main;
    let fits = |verb: &Verb| main || matches!(verb, Verb::Get | Verb::Update | Verb::Patch);
    let Some(verb) = call.verb.filter(fits) else {
        let verb = call.verb.map_or("", |verb| verb.as_str());
        let resource = resource.group_resource();
        return Err(Status::method_not_supported(resource, verb));
    };
    if matches!(verb, Verb::Update | Verb::Patch) && call.path.name.is_none() {
        if verb == Verb::Patch {
            patch_kind(call, resource)?;
        }
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(verb)
}

/// Returns the type of a patch by its content type. For built-in kinds, an unknown content type gets upstream's 415.
fn patch_kind(call: &ResourceCall<'_>, resource: &Resource) -> Result<PatchKind, Status> {
    let media_type = negotiate::media_type(call.content_type);
    // For custom resources, `from_content_type` refuses an unknown type with a list of the known types, as upstream.
    if !resource.built_in || PatchKind::OF_BUILT_IN.contains(&media_type.as_str()) {
        return PatchKind::from_content_type(call.content_type, resource);
    }
    let message = "415: Unsupported Media Type";
    let refusal = Status::failure(415, "UnsupportedMediaType", message);
    Err(refusal.with_details(Details::default()))
}
