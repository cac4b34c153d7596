//! Machine: turns a request of the request log into an audit event.

use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value, json};
use steersman_apimachinery::go;
use steersman_apiserver::faults::{RequestRecord, Verb};

/// Returns the `audit.k8s.io/v1` Event of a request, at level `Metadata`. `run` distinguishes the ids of this process
/// from those of other processes that append to the same file.
pub(super) fn event(record: &RequestRecord, run: u32, now: Timestamp) -> Value {
    let verb = record.verb.map_or_else(
        || record.method.to_ascii_lowercase(),
        |verb| verb.as_str().to_owned(),
    );
    // The event of a watch that opens is written at once, while the request has no status yet.
    let is_open = record.does(Verb::Watch) && record.status.is_none();
    let stage = if is_open {
        "ResponseStarted"
    } else {
        "ResponseComplete"
    };
    let own = match record.user.as_str() {
        // The request was not authenticated, so it has no user.
        "" => json!({}),
        name => json!({"username": name, "groups": record.groups}),
    };
    let mut event = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": format!("{run:08x}-0000-4000-8000-{:012x}", record.sequence & 0xffff_ffff_ffff),
        "stage": stage,
        "requestURI": uri(record),
        "verb": verb,
        "user": own,
        "userAgent": record.user_agent,
        "requestReceivedTimestamp": micros(record.at),
        "stageTimestamp": micros(now),
    });
    if let Some(by) = &record.impersonated_by {
        event["impersonatedUser"] = event["user"].take();
        event["user"] = json!({"username": by});
    }
    if !record.resource.is_empty() {
        event["objectRef"] = object(record);
    }
    let code = record.status.or_else(|| is_open.then_some(200));
    if let Some(code) = code {
        event["responseStatus"] = json!({"metadata": {}, "code": code});
    }
    event
}

fn object(record: &RequestRecord) -> Value {
    let mut object = Map::new();
    for (field, value) in [
        ("resource", Some(&record.resource)),
        ("namespace", record.namespace.as_ref()),
        ("name", record.name.as_ref()),
        ("apiGroup", Some(&record.group)),
        ("apiVersion", Some(&record.version)),
        ("subresource", record.subresource.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            object.insert(field.to_owned(), json!(value));
        }
    }
    Value::Object(object)
}

fn uri(record: &RequestRecord) -> String {
    let mut uri = record.path.clone();
    for (index, (name, value)) in record.parameters.iter().enumerate() {
        uri.push(if index == 0 { '?' } else { '&' });
        uri.extend(utf8_percent_encode(name, go::QUERY));
        uri.push('=');
        uri.extend(utf8_percent_encode(value, go::QUERY));
    }
    uri
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::Empty;
    use steersman_apiserver::ApiServer;
    use tower::ServiceExt as _;

    use super::*;

    async fn logged(path: &str, as_user: Option<&str>) -> RequestRecord {
        let server = ApiServer::new();
        let mut request = Request::get(path).header("user-agent", "test/1");
        if let Some(user) = as_user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        server.service().oneshot(request).await.unwrap();
        server.requests().all().remove(0)
    }

    #[tokio::test]
    async fn a_request_becomes_an_event_of_level_metadata() {
        let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=a%20b";
        let record = logged(path, Some("ann")).await;
        let event = event(&record, 7, "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(event["level"], "Metadata");
        assert_eq!(event["auditID"], "00000007-0000-4000-8000-000000000000");
        assert_eq!(event["stage"], "ResponseComplete");
        assert_eq!(event["requestURI"], path);
        assert_eq!(event["verb"], "get");
        assert_eq!(event["user"]["username"], "system:admin");
        assert_eq!(event["impersonatedUser"]["username"], "ann");
        assert_eq!(
            event["objectRef"],
            json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"})
        );
        assert_eq!(event["responseStatus"]["code"], 404);
        assert_eq!(event["stageTimestamp"], "2026-01-01T00:00:00.000000Z");
    }

    #[tokio::test]
    async fn a_document_has_no_object() {
        let event = event(&logged("/version", None).await, 7, Timestamp::UNIX_EPOCH);
        assert_eq!(event["verb"], "get");
        assert_eq!(event.get("objectRef"), None);
        assert_eq!(event.get("impersonatedUser"), None);
    }
}
