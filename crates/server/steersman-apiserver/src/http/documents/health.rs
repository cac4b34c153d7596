//! Machine: the health endpoints. A server that answers is healthy, unless its write-ahead log cannot be written.

use crate::http::requests::query::Query;
use crate::http::responses::reply::{Reply, TEXT};

const STORAGE: &str = "etcd";

/// The hooks that a kube-apiserver 1.36 runs after its start, in its order. Here each is a health check that always
/// succeeds, because the server is ready when it listens; tools wait for single checks by name.
const HOOKS: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

fn checks(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let is_ready = endpoint == "readyz";
    let only_ready = move |names: &'static [&'static str]| names.iter().filter(move |_| is_ready);
    ["ping", "log", STORAGE]
        .iter()
        .chain(only_ready(&["etcd-readiness", "informer-sync"]))
        .chain(&HOOKS)
        .chain(only_ready(&["shutdown"]))
        .copied()
}

/// Answers `/healthz`, `/livez` or `/readyz`, or one check below them; `None` for an unknown check. The query parameter
/// `exclude` leaves checks out, and `verbose` lists them.
///
/// `log_failure` says why the write-ahead log cannot be written: the check `etcd` then fails with this reason.
pub(crate) fn answer(
    endpoint: &str,
    check: Option<&str>,
    query: &Query,
    log_failure: Option<&str>,
) -> Option<Reply> {
    if let Some(check) = check {
        let failure = log_failure.filter(|_| check == STORAGE);
        let is_known = checks(endpoint).any(|known| known == check);
        return is_known.then(|| match failure {
            Some(why) => Reply::new(500, TEXT, format!("internal server error: {why}\n")),
            None => Reply::text(200, "ok"),
        });
    }
    let is_excluded = query.all("exclude").iter().any(|name| name == STORAGE);
    let failure = log_failure.filter(|_| !is_excluded);
    if query.get("verbose").is_none() && failure.is_none() {
        return Some(Reply::text(200, "ok"));
    }
    let mut excluded = query.all("exclude");
    excluded.sort();
    excluded.dedup();
    let mut text = String::new();
    for check in checks(endpoint) {
        let named = excluded.iter().position(|name| name == check);
        if let Some(place) = named {
            excluded.remove(place);
        }
        text.push_str(&match failure.filter(|_| check == STORAGE) {
            Some(why) => format!("[-]{check} failed: {why}\n"),
            None if named.is_some() => format!("[+]{check} excluded: ok\n"),
            None => format!("[+]{check} ok\n"),
        });
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    let (code, outcome) = match failure {
        Some(_) => (500, "failed"),
        None => (200, "passed"),
    };
    text.push_str(&format!("{endpoint} check {outcome}\n"));
    Some(Reply::new(code, TEXT, text))
}

#[cfg(test)]
mod tests {
    use crate::http::responses::reply::ReplyBody;

    use super::*;

    fn text(endpoint: &str, check: Option<&str>, query: &str) -> Option<String> {
        said(endpoint, check, query, None).map(|(_, text)| text)
    }

    /// Returns the HTTP code and the text of an answer of a health endpoint.
    fn said(
        endpoint: &str,
        check: Option<&str>,
        query: &str,
        failure: Option<&str>,
    ) -> Option<(u16, String)> {
        let reply = answer(endpoint, check, &Query::parse(Some(query)), failure)?;
        let text = match reply.body {
            ReplyBody::Whole(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            ReplyBody::List(_)
            | ReplyBody::UnencodedObject(_)
            | ReplyBody::UnencodedList(_)
            | ReplyBody::Watch(_) => None,
        };
        Some((reply.code, text?))
    }

    // WAL-4: while the write-ahead log cannot be written, the health checks fail.
    #[test]
    fn a_log_that_cannot_be_written_fails_the_checks() {
        let why = Some("the disk is full");
        for endpoint in ["livez", "readyz", "healthz"] {
            let (code, text) = said(endpoint, None, "", why).unwrap();
            assert_eq!(code, 500);
            assert!(text.contains("[+]ping ok\n"), "{text}");
            assert!(
                text.contains("[-]etcd failed: the disk is full\n"),
                "{text}"
            );
            assert!(
                text.ends_with(&format!("{endpoint} check failed\n")),
                "{text}"
            );
        }
        assert_eq!(said("livez", Some("etcd"), "", why).unwrap().0, 500);
        assert_eq!(said("livez", Some("ping"), "", why).unwrap().0, 200);
        assert_eq!(said("livez", None, "exclude=etcd", why).unwrap().0, 200);
    }

    #[test]
    fn health_checks_can_be_listed_and_excluded() {
        assert_eq!(text("livez", None, "exclude=etcd").as_deref(), Some("ok"));
        let listed = text("livez", None, "verbose&exclude=etcd&exclude=x&exclude=etcd").unwrap();
        assert!(
            listed.starts_with("[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]poststarthook/"),
            "{listed}"
        );
        assert!(
            listed.ends_with(
                "-openapiv3-controller ok\nwarn: some health checks cannot be excluded: no matches \
                 for \"x\"\nlivez check passed\n"
            ),
            "{listed}"
        );
        let hook = Some("poststarthook/rbac/bootstrap-roles");
        assert_eq!(text("healthz", hook, "").as_deref(), Some("ok"));
        assert_eq!(text("readyz", Some("shutdown"), "").as_deref(), Some("ok"));
        assert_eq!(text("livez", Some("shutdown"), ""), None);
    }
}
