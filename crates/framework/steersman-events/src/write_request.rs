//! Words: the requests that write Events, and the meaning of their results.

use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;
use steersman_api::{Api, Error, Patch, PreparedRequest, WriteOptions};
use steersman_object::ObjectKey;

use crate::correlator::WriteAnswer;
use crate::drop_reason::DropReason;
use crate::series::{EventBody, EventWrite, WriteVerb};

/// The namespace of Events about cluster-scoped objects.
const CLUSTER_NAMESPACE: &str = "default";

pub(crate) fn request(
    api: &Api<Event>,
    write: &EventWrite,
) -> Result<PreparedRequest<Event>, Error> {
    let options = WriteOptions::new();
    match write.verb {
        WriteVerb::Create => api.create_request(&event(write), &options),
        WriteVerb::Patch => {
            let patch = Patch::Merge(json!({"series": series(write)}));
            api.patch_request(&key(&write.body), &patch, &options)
        }
    }
}

/// Returns the Event to write, in the namespace of its object.
fn event(write: &EventWrite) -> Event {
    let body: &EventBody = &write.body;
    let (subject, similarity) = (&body.subject, &body.similarity);
    let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(body.name.clone()),
            namespace: key(&write.body).namespace().map(ToOwned::to_owned),
            ..ObjectMeta::default()
        },
        type_: set(similarity.event_type.as_str()),
        reason: set(&similarity.reason),
        action: set(&similarity.action),
        note: set(&body.note),
        regarding: Some(subject.regarding.to_reference()),
        related: similarity.related.as_ref().map(|o| o.to_reference()),
        event_time: Some(MicroTime(body.time)),
        reporting_controller: set(&subject.reporter.controller),
        reporting_instance: set(&subject.reporter.instance),
        series: (write.count > 1).then(|| series(write)),
        ..Event::default()
    }
}

fn series(write: &EventWrite) -> EventSeries {
    EventSeries {
        count: i32::try_from(write.count).unwrap_or(i32::MAX),
        last_observed_time: MicroTime(write.last_time),
    }
}

fn key(body: &EventBody) -> ObjectKey {
    let namespace = body.subject.regarding.namespace();
    ObjectKey::namespaced(namespace.unwrap_or(CLUSTER_NAMESPACE), &body.name)
}

/// Returns what the error of a write means for its Event (EVENT-9).
pub(crate) fn meaning(error: &Error, verb: WriteVerb) -> WriteAnswer {
    let is_create = verb == WriteVerb::Create;
    if error.is_already_exists() && is_create {
        return WriteAnswer::Exists;
    }
    if error.is_namespace_terminating() {
        return WriteAnswer::Refused(DropReason::NamespaceTerminating);
    }
    if error.is_not_found() {
        return match is_create {
            true => WriteAnswer::Refused(DropReason::NamespaceMissing),
            false => WriteAnswer::Gone,
        };
    }
    if error.is_forbidden() && lacks_permission(error) {
        return WriteAnswer::Refused(DropReason::Forbidden);
    }
    if error.is_decode() {
        // The server has executed the write; its response is not needed.
        return WriteAnswer::Written;
    }
    let is_away = error.is_transport()
        || error.is_unauthorized()
        || error.is_config()
        || error.is_no_config()
        || error.is_throttled()
        || error.is_conflict()
        || error.is_timeout()
        || error.is_server_timeout()
        || error.is_service_unavailable()
        || matches!(error.code(), Some(502..=504));
    if is_away {
        return WriteAnswer::Later(error.retry_after());
    }
    WriteAnswer::Refused(DropReason::Refused)
}

/// Returns whether a 403 is from the authorizers, so that another RBAC rule would help: its message is "… is forbidden:
/// User "op" cannot create resource …" (apiserver, `forbiddenMessage`). Admission, such as a quota or a webhook, also
/// responds with 403.
fn lacks_permission(error: &Error) -> bool {
    let status = error.status();
    status.is_some_and(|status| status.message.contains("\" cannot "))
}
