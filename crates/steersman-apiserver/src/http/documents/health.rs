//! Machine: the health endpoints. A server that answers is healthy; only a restart changes that.

use crate::http::requests::query::Query;
use crate::http::responses::reply::{Reply, TEXT};

/// Returns the checks of a kube-apiserver that exist here too, in its order.
fn checks(endpoint: &str) -> &'static [&'static str] {
    const READY: [&str; 6] = [
        "ping",
        "log",
        "etcd",
        "etcd-readiness",
        "informer-sync",
        "shutdown",
    ];
    if endpoint == "readyz" {
        &READY
    } else {
        &READY[..3]
    }
}

/// Answers `/healthz`, `/livez` or `/readyz`, or one check below them; `None` for an unknown check.
/// `exclude` leaves checks out, `verbose` lists them.
pub(crate) fn answer(endpoint: &str, check: Option<&str>, query: &Query) -> Option<Reply> {
    let checks = checks(endpoint);
    if let Some(check) = check {
        return checks.contains(&check).then(|| Reply::text(200, "ok"));
    }
    if query.get("verbose").is_none() {
        return Some(Reply::text(200, "ok"));
    }
    let mut excluded = query.all("exclude");
    excluded.sort();
    excluded.dedup();
    let mut text = String::new();
    for check in checks {
        let named = excluded.iter().position(|name| name == check);
        if let Some(place) = named {
            excluded.remove(place);
        }
        let how = if named.is_some() {
            " excluded: ok"
        } else {
            " ok"
        };
        text.push_str(&format!("[+]{check}{how}\n"));
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    Some(Reply::new(200, TEXT, text))
}

#[cfg(test)]
mod tests {
    use crate::http::responses::reply::ReplyBody;

    use super::*;

    fn text(endpoint: &str, check: Option<&str>, query: &str) -> Option<String> {
        match answer(endpoint, check, &Query::parse(Some(query)))?.body {
            ReplyBody::Whole(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            ReplyBody::List(_)
            | ReplyBody::UnencodedObject(_)
            | ReplyBody::UnencodedList(_)
            | ReplyBody::Watch(_) => None,
        }
    }

    #[test]
    fn health_checks_can_be_listed_and_excluded() {
        assert_eq!(text("livez", None, "exclude=etcd").as_deref(), Some("ok"));
        assert_eq!(
            text("livez", None, "verbose&exclude=etcd&exclude=x&exclude=etcd").as_deref(),
            Some(
                "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be \
                 excluded: no matches for \"x\"\nlivez check passed\n"
            )
        );
        assert_eq!(text("readyz", Some("shutdown"), "").as_deref(), Some("ok"));
        assert_eq!(text("livez", Some("shutdown"), ""), None);
    }
}
