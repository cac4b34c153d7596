//! Machine: derives the attributes that authorization checks from a request's method, path and query.

use steersman_apimachinery::go;
use steersman_apimachinery::selector::FieldSelector;
use steersman_auth::Attributes;

use crate::http::requests::query::Query;

/// Derives the attributes of a request for any path, as upstream's `RequestInfoFactory.NewRequestInfo` does.
pub(crate) fn attributes(method: &str, path: &str, query: &Query) -> Attributes {
    let path = go::unescape(path).unwrap_or_else(|| path.to_owned());
    let trimmed = path.trim_matches('/');
    let parts: Vec<&str> = trimmed.split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => {
            return Attributes {
                verb: method.to_lowercase(),
                path: Some(path),
                ..Attributes::default()
            };
        }
    };
    let (special, rest) = match rest {
        [verb @ ("watch" | "proxy"), after @ ..] if !after.is_empty() => (Some(*verb), after),
        _ => (None, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, after @ ..] => match after.first() {
            None | Some(&"status" | &"finalize") => (*namespace, rest),
            Some(_) => (*namespace, after),
        },
        _ => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default();
    let verb = special.unwrap_or(match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    });
    let mut asked = Attributes::of(verb, group, part(0), part(1)).within(namespace);
    if special != Some("proxy") {
        part(2).clone_into(&mut asked.subresource);
    }
    if !asked.name.is_empty() {
        return asked;
    }
    match verb {
        "get" => {
            let verb = if query.is_watch() { "watch" } else { "list" };
            verb.clone_into(&mut asked.verb);
            asked.name = only_name(query).unwrap_or_default();
        }
        "delete" => "deletecollection".clone_into(&mut asked.verb),
        _ => {}
    }
    asked
}

/// Returns the only `metadata.name` that a field selector allows, for RBAC rules with `resourceNames`.
fn only_name(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let mut terms = selector.terms().iter();
    let found = terms.find(|term| term.equal && term.label == "metadata.name")?;
    let value = &found.value;
    let usable = !matches!(value.as_str(), "" | "." | "..") && !value.contains(['/', '%']);
    usable.then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, path: &str, query: &str) -> Attributes {
        attributes(method, path, &Query::parse(Some(query)))
    }

    #[test]
    fn the_verb_follows_from_method_name_and_query() {
        for (method, path, query, verb) in [
            ("GET", "/api/v1/pods", "", "list"),
            ("GET", "/api/v1/pods", "watch=1", "watch"),
            ("GET", "/api/v1/pods", "watch=false", "list"),
            ("GET", "/api/v1/namespaces/a/pods/x", "watch=1", "get"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "", "watch"),
            ("HEAD", "/api/v1/namespaces/a/pods/x", "", "get"),
            (
                "DELETE", "/api/v1/namespaces/a/pods", "", "deletecollection",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods/x", "", "delete"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/x",
                "",
                "patch",
            ),
            ("OPTIONS", "/api/v1/pods", "", ""),
        ] {
            assert_eq!(
                read(method, path, query).verb,
                verb,
                "{method} {path}?{query}"
            );
        }
    }

    #[test]
    fn a_request_for_a_namespace_is_authorized_in_that_namespace() {
        let namespace = read("GET", "/api/v1/namespaces/a", "");
        assert_eq!(namespace.resource, "namespaces");
        assert_eq!(
            (namespace.namespace.as_str(), namespace.name.as_str()),
            ("a", "a")
        );
        let status = read("PUT", "/api/v1/namespaces/a/status", "");
        assert_eq!(status.full_resource(), "namespaces/status");
        let all = read("GET", "/api/v1/namespaces", "");
        assert_eq!((all.namespace.as_str(), all.name.as_str()), ("", ""));
    }

    #[test]
    fn a_path_after_a_subresource_is_not_part_of_it() {
        let proxied = read("GET", "/api/v1/namespaces/a/services/s/proxy/deep/er", "");
        assert_eq!(proxied.full_resource(), "services/proxy");
        assert_eq!(proxied.name, "s");
    }

    #[test]
    fn a_list_that_selects_one_name_is_authorized_for_that_name() {
        let name = |query: &str| read("GET", "/api/v1/configmaps", query).name;
        assert_eq!(name("fieldSelector=metadata.name%3Dc,a!%3Db"), "c");
        assert_eq!(name("fieldSelector=metadata.name!%3Dc"), "");
        assert_eq!(name("fieldSelector=metadata.name%3Da/b"), "");
    }

    #[test]
    fn paths_that_are_no_resource_keep_their_text() {
        for path in [
            "/", "/metrics", "/api/v1", "/apis/apps/v1", "/openapi/v3/api/v1",
        ] {
            let asked = read("GET", path, "");
            assert_eq!(
                (asked.verb.as_str(), asked.path.as_deref()),
                ("get", Some(path))
            );
        }
        assert_eq!(read("POST", "/no/such", "").verb, "post");
    }
}
