//! Words: the addresses of the page, and what they show.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use steersman_apimachinery::go;

/// The characters of a path segment or of a query value that are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The segment of a path in place of the namespace of an object without one. No namespace has this name.
const NO_NAMESPACE: &str = "_";

/// A page, or the JSON of a page below `/api`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UiRoute {
    /// `/`, or `/api/kinds`.
    Kinds,
    /// `/objects/<resource>`.
    Objects { resource: String },
    /// `/objects/<resource>/<namespace>/<name>`.
    Object {
        resource: String,
        namespace: String,
        name: String,
    },
    /// `/changes`.
    Changes,
    /// `/requests`.
    Requests,
    /// `/requests/<sequence>`.
    Request { sequence: u64 },
    /// `/faults`.
    Faults,
}

impl UiRoute {
    /// Parses a path, with the form of the answer; `None` for a path without a page.
    pub(crate) fn parse(path: &str) -> Option<(Self, UiFormat)> {
        let (path, format) = match path.strip_prefix("/api/") {
            Some("kinds") => ("", UiFormat::Json),
            Some("") => return None,
            Some(rest) => (rest, UiFormat::Json),
            None => (path.strip_prefix('/')?, UiFormat::Html),
        };
        let segments: Option<Vec<String>> = path.split('/').map(go::unescape).collect();
        let segments = segments?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let route = match segments.as_slice() {
            [""] => Self::Kinds,
            ["changes"] => Self::Changes,
            ["requests"] => Self::Requests,
            ["requests", sequence] => Self::Request {
                sequence: sequence.parse().ok()?,
            },
            ["faults"] => Self::Faults,
            ["objects", resource] => Self::Objects {
                resource: (*resource).to_owned(),
            },
            ["objects", resource, namespace, name] => Self::Object {
                resource: (*resource).to_owned(),
                namespace: match *namespace {
                    NO_NAMESPACE => String::new(),
                    namespace => namespace.to_owned(),
                },
                name: (*name).to_owned(),
            },
            _ => return None,
        };
        Some((route, format))
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UiFormat {
    Html,
    Json,
}

pub(crate) fn objects_path(resource: &str) -> String {
    format!("/objects/{}", encoded(resource))
}

pub(crate) fn object_path(resource: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() {
        NO_NAMESPACE
    } else {
        namespace
    };
    format!(
        "/objects/{}/{}/{}",
        encoded(resource),
        encoded(namespace),
        encoded(name)
    )
}

/// Returns a path with a query of those pairs that have a value.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs = given.map(|(name, value)| format!("{name}={}", encoded(value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_each_object_is_parsed_again() {
        for (resource, namespace, name) in [
            ("pods", "default", "a"),
            ("clusterroles.rbac.authorization.k8s.io", "", "system:node"),
            ("websites.example.com", "a", "b.c"),
        ] {
            let path = object_path(resource, namespace, name);
            let route = UiRoute::Object {
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            assert_eq!(UiRoute::parse(&path), Some((route.clone(), UiFormat::Html)));
            let parsed = UiRoute::parse(&format!("/api{path}"));
            assert_eq!(parsed, Some((route, UiFormat::Json)));
        }
    }

    #[test]
    fn other_paths_have_no_page() {
        for path in [
            "", "/api", "/api/", "/objects", "/objects/pods/a", "/requests/x", "/x", "/faults/",
        ] {
            assert_eq!(UiRoute::parse(path), None, "{path}");
        }
        assert_eq!(UiRoute::parse("/"), Some((UiRoute::Kinds, UiFormat::Html)));
        assert_eq!(
            UiRoute::parse("/api/kinds"),
            Some((UiRoute::Kinds, UiFormat::Json))
        );
    }

    #[test]
    fn only_values_appear_in_a_query() {
        let link = with_query("/requests", &[("verb", ""), ("client", "a b&c")]);
        assert_eq!(link, "/requests?client=a%20b%26c");
        assert_eq!(with_query("/x", &[("a", "")]), "/x");
    }
}
