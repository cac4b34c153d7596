//! Machine: requests that make the server act instead of storing an object: `binding`, `eviction`, `token` and other
//! subresources, and reviews.

use jiff::Timestamp;
use serde_json::json;
use steersman_apimachinery::status::Status;
use steersman_registry::{ActRequest, ObjectTarget, Registry, check_options};
use steersman_schema::resource::Resource;
use steersman_schema::subresources::Act;

use crate::http::requests::call::ResourceCall;
use crate::http::requests::decode;
use crate::http::requests::ignored_fields::IgnoredFields;
use crate::http::requests::negotiate::{self, AcceptReader};
use crate::http::responses::reply::{Answered, Reply, TEXT};

const LOGS: [&str; 4] = [
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// What a subresource or review does (bind a Pod, evict it, create a token), and the verbs that it accepts.
pub(crate) type Allowed = (Act, &'static [&'static str]);

/// Carries out a review or a subresource such as `binding`. The answer is the whole object, never a Table.
pub(crate) fn perform(
    registry: &mut Registry,
    call: &ResourceCall<'_>,
    resource: &Resource,
    (act, verbs): Allowed,
    body: &[u8],
    now: Timestamp,
) -> Answered {
    let verb = call.verb.ok_or_else(Status::method_not_allowed)?;
    let name = call.path.name.as_deref().unwrap_or_default();
    let by_body = act == Act::Review || (act == Act::Bind && resource.kind == "Binding");
    if !verbs.contains(&verb.as_str()) || name.is_empty() != by_body {
        return Err(Status::method_not_allowed());
    }
    let namespace = match &call.path.namespace {
        Some(namespace) => namespace.as_str(),
        None if resource.namespaced => return Err(Status::method_not_allowed()),
        None => "",
    };
    let kind = match act {
        Act::Log => {
            negotiate::routed(call.accept, &LOGS)?;
            negotiate::objects(call.accept, AcceptReader::Handler, true)?;
            call.query.check_log_options(name)?;
            let container = call.query.get("container").unwrap_or_default();
            let previous = call.query.switch("previous").unwrap_or(false);
            return Ok(
                match registry.pod_log(namespace, name, (container, previous))? {
                    Some(log) => Reply::new(200, TEXT, log),
                    None => Reply::new(204, "", ""),
                },
            );
        }
        Act::Connect => {
            let target = ObjectTarget::object(resource, call.path.namespace.as_deref(), name);
            let part = call.path.subresource.as_deref().unwrap_or_default();
            registry.admit_connection(target, part, call.query.pairs(), &call.write_options())?;
            let container = matches!(part, "exec" | "attach")
                .then(|| call.query.get("container").unwrap_or_default());
            return Err(registry.no_connection(&resource.plural, namespace, name, container));
        }
        Act::Bind => "Binding",
        Act::Evict => "Eviction",
        Act::Token => "TokenRequest",
        Act::Review => &resource.kind,
    };
    let media = negotiate::objects(call.accept, AcceptReader::Route, true)?;
    let format = negotiate::body(call.content_type)?;
    let options = call.write_options();
    check_options("CreateOptions", &options)?;
    let object = decode::object(body, format, kind)?;
    let mode = call.query.get("fieldValidation").unwrap_or_default();
    let sent = IgnoredFields::new(body, format, mode, (resource, kind), &object)?;
    if act == Act::Review {
        let target = ObjectTarget::collection(resource, call.path.namespace.as_deref());
        let answer = registry.review(target, object, &options, now);
        // A TokenReview counts as a use of its token: the token's Secret gets a label with the day of the last use.
        registry.mark_used_secrets(now);
        let answer = sent.settle(registry, answer)?;
        return Ok(Reply::document(201, &answer, media.format));
    }
    let request = ActRequest {
        act,
        namespace,
        name,
        body: &object,
    };
    let answer = registry.act(request, &options, now);
    let answer = sent.settle(registry, answer)?;
    let answer = answer.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        })
    });
    Ok(Reply::document(201, &answer, media.format))
}
