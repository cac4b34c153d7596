//! The error of each answer, and the text of the error.

use serde_json::json;
use steersman_object::{Kind, ObjectKey};

use super::*;
use k8s_openapi::api::apps::v1::Deployment;

fn info() -> RequestInfo {
    let key = ObjectKey::namespaced("web", "site");
    RequestInfo::of_object("get", &Kind::of::<Deployment>(), &key)
}

fn answer(code: u16, reason: &str, name: &str) -> Error {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": "said the server", "details": {"name": name},
    });
    Error::from_answer(info(), code, None, body.to_string().as_bytes())
}

type Predicate = fn(&Error) -> bool;

#[test]
fn each_answer_becomes_the_error_that_its_predicate_names() {
    let table: [(u16, &str, &str, Predicate); 18] = [
        (404, "NotFound", "site", Error::is_not_found),
        (404, "NotFound", "", Error::is_kind_not_served),
        (409, "AlreadyExists", "site", Error::is_already_exists),
        (409, "Conflict", "site", Error::is_conflict),
        (410, "Expired", "", Error::is_expired),
        (410, "Gone", "", Error::is_expired),
        (422, "Invalid", "site", Error::is_invalid),
        (429, "TooManyRequests", "", Error::is_throttled),
        (401, "Unauthorized", "", Error::is_unauthorized),
        (403, "Forbidden", "site", Error::is_forbidden),
        (500, "InternalError", "", Error::is_internal),
        (400, "BadRequest", "", Error::is_bad_request),
        (405, "MethodNotAllowed", "", Error::is_method_not_supported),
        (413, "RequestEntityTooLarge", "", Error::is_too_large),
        (
            415,
            "UnsupportedMediaType",
            "",
            Error::is_unsupported_media_type,
        ),
        (500, "ServerTimeout", "", Error::is_server_timeout),
        (503, "ServiceUnavailable", "", Error::is_service_unavailable),
        (504, "Timeout", "", Error::is_timeout),
    ];
    for (row, (code, reason, name, _)) in table.iter().enumerate() {
        let error = answer(*code, reason, name);
        let predicates: Vec<bool> = table.iter().map(|(.., is)| is(&error)).collect();
        assert!(predicates[row], "{error}");
        for (other, (_, name, ..)) in table.iter().enumerate() {
            // `Expired` and `Gone` are two names for one reason.
            let same = matches!((*reason, *name), ("Expired", "Gone") | ("Gone", "Expired"));
            assert!(
                other == row || same || !predicates[other],
                "{error} is {name}"
            );
        }
        assert_eq!(error.code(), Some(*code));
        let text = error.to_string();
        let said = format!(
            "could not get Deployment.v1.apps web/site: the server answered {code} {reason}: \
             said the server"
        );
        assert!(text.starts_with(&said), "{text}");
        // The text is one line without repetitions.
        assert!(!text.contains('\n'));
        assert!(StdError::source(&error).is_none());
    }
}

#[test]
fn a_cause_is_found_among_the_causes_of_the_status() {
    let causes = json!([{"reason": "FieldValueInvalid"}, {"reason": "NamespaceTerminating"}]);
    let body = json!({
        "kind": "Status", "code": 403, "reason": "Forbidden",
        "details": {"name": "site", "causes": causes},
    });
    let error = Error::from_answer(info(), 403, None, body.to_string().as_bytes());
    assert!(error.is_namespace_terminating() && error.is_forbidden());
    assert!(error.has_cause("FieldValueInvalid") && !error.has_cause("Other"));
    assert_eq!(error.reason(), Some("Forbidden"));
    assert!(!answer(403, "Forbidden", "site").is_namespace_terminating());
}

#[test]
fn an_answer_without_a_status_is_classified_by_its_code() {
    let predicates: [(u16, Predicate); 5] = [
        (400, Error::is_bad_request),
        (405, Error::is_method_not_supported),
        (500, Error::is_internal),
        (503, Error::is_service_unavailable),
        (504, Error::is_timeout),
    ];
    for (code, is) in predicates {
        let error = Error::from_answer(info(), code, None, b"");
        assert!(is(&error) && error.reason().is_none(), "{error}");
    }
    let error = Error::from_answer(info(), 404, None, b"404 page not found\n");
    assert!(error.is_kind_not_served(), "{error}");
    assert!(error.to_string().contains("404 page not found"), "{error}");
    let error = Error::from_answer(info(), 502, None, b"<html><body>secret</body></html>");
    assert_eq!(error.code(), Some(502));
    assert!(!error.to_string().contains("secret"), "{error}");
    for body in [
        &b""[..],
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"{\"kind\":\"Secret\",\"data\":\"x\"}",
    ] {
        let error = Error::from_answer(info(), 409, None, body);
        assert!(error.is_conflict(), "{error}");
        assert!(!error.to_string().contains("data"), "{error}");
    }
}

#[test]
fn a_404_of_another_web_server_is_not_a_missing_kind() {
    let kind = Kind::of::<Deployment>();
    let info = || RequestInfo::of_collection("list", &kind, None);
    for (body, quoted) in [
        (&b"<html><body>nginx</body></html>"[..], ""),
        (b"default backend - 404\n", "404: default backend - 404 ("),
        (b"{ not json", ""),
    ] {
        let error = Error::from_answer(info(), 404, None, body);
        assert!(!error.is_kind_not_served() && !error.is_not_found());
        assert_eq!(error.code(), Some(404));
        let text = error.to_string();
        assert!(
            text.contains("the address does not look like a Kubernetes API server"),
            "{text}"
        );
        assert!(text.contains(quoted) && !text.contains("nginx"), "{text}");
    }
    for body in [
        &b""[..],
        b"404 page not found\n",
        b"{}",
        b"{\"kind\":\"Status\"}",
    ] {
        let error = Error::from_answer(info(), 404, None, body);
        assert!(error.is_kind_not_served(), "{error}");
    }
}

#[test]
fn a_pretty_printed_status_is_a_status() {
    let body = "{\n  \"kind\": \"Status\",\n  \"reason\": \"Expired\",\n  \"code\": 410\n}\n";
    assert!(Error::from_answer(info(), 410, None, body.as_bytes()).is_expired());
    assert_eq!(parse_status(body.as_bytes()).map(|s| s.code), Some(410));
}

#[test]
fn a_throttled_request_has_the_time_to_wait() {
    let header = Some(Duration::from_secs(3));
    let error = Error::from_answer(info(), 429, header, b"");
    assert_eq!(error.retry_after(), header);
    assert!(matches!(error, Error::Throttled { after, .. } if after == header));
    let body = json!({
        "kind": "Status", "code": 429, "reason": "TooManyRequests",
        "details": {"retryAfterSeconds": 7},
    });
    let error = Error::from_answer(info(), 429, None, body.to_string().as_bytes());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    // Not only a 429 has a `Retry-After`.
    let error = Error::from_answer(info(), 503, header, b"");
    assert_eq!(error.retry_after(), header);
}

#[test]
fn a_too_large_version_differs_from_other_timeouts() {
    let body = json!({
        "kind": "Status", "code": 504, "reason": "Timeout",
        "message": "Too large resource version: 9, current: 5",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}]},
    });
    let error = Error::from_answer(info(), 504, None, body.to_string().as_bytes());
    assert!(error.is_version_too_large());
    assert!(!Error::from_answer(info(), 504, None, b"").is_version_too_large());
}

#[test]
fn an_unreachable_server_is_named_with_the_root_cause() {
    let unreachable = Unreachable {
        endpoint: "https://10.0.0.1:6443".into(),
        source: Box::new(std::io::Error::other("connection refused")),
    };
    let error = kube_client::Error::Service(Box::new(unreachable));
    let error = Error::from_client(info(), error);
    assert!(error.is_transport());
    assert_eq!(
        error.to_string(),
        "could not get Deployment.v1.apps web/site: https://10.0.0.1:6443 cannot be reached: \
         connection refused"
    );
}

#[test]
fn a_brief_text_has_neither_kind_nor_advice() {
    let error = answer(404, "NotFound", "");
    assert!(
        error.to_string().ends_with(
            "install the definition of Deployment.v1.apps, or ask for a version that is served"
        ),
        "{error}"
    );
    assert_eq!(
        error.brief(),
        "get of web/site failed: the server answered 404 NotFound: said the server"
    );
    let kind = Kind::of::<Deployment>();
    let info = RequestInfo::of_collection("watch", &kind, None);
    let error = Error::from_answer(info, 403, None, b"");
    assert_eq!(
        error.to_string(),
        "could not watch deployments.apps of all namespaces: the server answered 403; \
         grant it with RBAC"
    );
    assert_eq!(error.brief(), "watch failed: the server answered 403");
    let info = RequestInfo::of_collection("list", &kind, Some("web"));
    assert_eq!(
        Error::transport(&info, "connection reset").brief(),
        "list of namespace web failed: connection reset"
    );
}
