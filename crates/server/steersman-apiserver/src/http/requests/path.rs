//! Machine: parses a URL path into a route.

use steersman_apimachinery::go;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathRoute {
    /// `/healthz`, `/livez` or `/readyz`, or one check below them.
    Health {
        /// `healthz`, `livez` or `readyz`.
        endpoint: String,
        /// The single check, such as `ping` in `/readyz/ping`; `None` for all checks.
        check: Option<String>,
    },
    /// `/`: the list of served paths.
    Root,
    Version,
    Metrics,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the served groups.
    Groups,
    /// `/apis/<group>`: the versions of a group.
    Group(String),
    /// `/api/v1` or `/apis/<group>/<version>`: the resources of a version.
    Resources {
        /// The API group; empty for core.
        group: String,
        version: String,
    },
    /// `/openapi/v2`: the OpenAPI v2 document of all kinds.
    OpenApiV2,
    /// `/openapi/v3`: the paths of the OpenAPI v3 documents.
    OpenApiIndex,
    /// `/openapi/v3/<path>`: the OpenAPI v3 document of a group version, such as `apis/apps/v1`, served or not.
    OpenApi(String),
    Issuer(IssuerDocument),
    Objects(ObjectPath),
    /// An unserved path below `/api`, `/apis` or `/version`, with its group. The group is empty for core.
    NoSuchPath(String),
    /// An unserved path outside of `/api`, `/apis` and `/version`.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IssuerDocument {
    Metadata,
    Keys,
}

/// A path below a group version: a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    /// The API group; empty for core.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The namespace; `None` for cluster-scoped objects and for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    /// The name of the object; `None` for a collection.
    pub(crate) name: Option<String>,
    /// The path elements after the object's name, joined by slashes: `status`, or `proxy/metrics`.
    pub(crate) subresource: Option<String>,
    /// Whether the path has the old prefix `/watch/`, as in `/api/v1/watch/pods`: a GET is then a watch.
    pub(crate) watch_prefix: bool,
}

impl PathRoute {
    pub(crate) fn parse(path: &str) -> Self {
        // As in Go, the path is decoded before it is split, so an escaped slash (`%2F`) separates too.
        let decoded = go::unescape(path);
        let Some(below_root) = decoded.as_deref().and_then(|path| path.strip_prefix('/')) else {
            return Self::Unknown;
        };
        let mut words: Vec<&str> = below_root.split('/').collect();
        words.pop_if(|last| last.is_empty());
        if words.contains(&"") {
            return match words.as_slice() {
                ["api", ..] => Self::no_such_path(""),
                ["apis", group, ..] if !group.is_empty() => Self::no_such_path(group),
                _ => Self::Unknown,
            };
        }
        match words.as_slice() {
            [] => Self::Root,
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => Self::Health {
                endpoint: (*endpoint).to_owned(),
                // Joined again, because the names of some checks contain slashes: `poststarthook/rbac/bootstrap-roles`.
                check: (!check.is_empty()).then(|| check.join("/")),
            },
            ["version"] => Self::Version,
            ["metrics"] => Self::Metrics,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/")),
            [".well-known", "openid-configuration"] => Self::Issuer(IssuerDocument::Metadata),
            ["openid", "v1", "jwks"] => Self::Issuer(IssuerDocument::Keys),
            ["api", version] => Self::resources("", version),
            ["apis", group, version] => Self::resources(group, version),
            ["api", version, rest @ ..] => Self::objects("", version, rest),
            ["apis", group, version, rest @ ..] => Self::objects(group, version, rest),
            // Upstream, the router of the core group answers paths below `/version` too, with its 404.
            ["version", ..] => Self::no_such_path(""),
            _ => Self::Unknown,
        }
    }

    fn no_such_path(group: &str) -> Self {
        Self::NoSuchPath(group.to_owned())
    }

    fn resources(group: &str, version: &str) -> Self {
        Self::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }

    fn objects(group: &str, version: &str, rest: &[&str]) -> Self {
        let (watch_prefix, rest) = match rest {
            ["watch", after @ ..] if !after.is_empty() => (true, after),
            _ => (false, rest),
        };
        let mut path = ObjectPath {
            group: group.to_owned(),
            version: version.to_owned(),
            watch_prefix,
            ..ObjectPath::default()
        };
        // `/namespaces/x/status` is the status of a namespace, `/namespaces/x/pods` are its Pods.
        let rest = match rest {
            ["namespaces", namespace, after @ ..]
                if !after.is_empty() && !matches!(after[0], "status" | "finalize") =>
            {
                path.namespace = Some((*namespace).to_owned());
                after
            }
            _ => rest,
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            // The path of a proxy request continues after the name of the subresource, as in `proxy/metrics`.
            [resource, name, below @ ..] => (*resource, Some(*name), Some(below.join("/"))),
            _ => return Self::no_such_path(group),
        };
        path.resource = resource.to_owned();
        path.name = name.map(str::to_owned);
        path.subresource = subresource;
        Self::Objects(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(path: &str) -> ObjectPath {
        match PathRoute::parse(path) {
            PathRoute::Objects(found) => found,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn collections_objects_and_subresources() {
        let pods = objects("/api/v1/pods");
        assert_eq!(
            (pods.namespace.as_deref(), pods.name.as_deref()),
            (None, None)
        );
        let pod = objects("/api/v1/namespaces/a/pods/b/status");
        assert_eq!(pod.namespace.as_deref(), Some("a"));
        assert_eq!(pod.name.as_deref(), Some("b"));
        assert_eq!(pod.subresource.as_deref(), Some("status"));
        let scale = objects("/apis/apps/v1/namespaces/a/deployments/b/scale");
        assert_eq!(
            (scale.group.as_str(), scale.resource.as_str()),
            ("apps", "deployments")
        );
    }

    #[test]
    fn a_namespace_path_names_an_object_or_a_prefix() {
        let namespace = objects("/api/v1/namespaces/a");
        assert_eq!(
            (namespace.resource.as_str(), namespace.name.as_deref()),
            ("namespaces", Some("a"))
        );
        assert_eq!(namespace.namespace, None);
        let status = objects("/api/v1/namespaces/a/status");
        assert_eq!(status.subresource.as_deref(), Some("status"));
        assert_eq!(status.resource, "namespaces");
        assert_eq!(
            objects("/api/v1/namespaces/a/pods").namespace.as_deref(),
            Some("a")
        );
    }

    #[test]
    fn the_old_watch_prefix_makes_a_watch() {
        let watched = objects("/api/v1/watch/namespaces/a/configmaps/b");
        assert!(watched.watch_prefix);
        assert_eq!(watched.name.as_deref(), Some("b"));
        assert!(!objects("/apis/x.example.com/v1/watch").watch_prefix);
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_make_an_unknown_path() {
        assert_eq!(
            objects("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode")
                .name
                .as_deref(),
            Some("system:node")
        );
        for path in [
            "", "x", "/api/v1/pods/%zz", "/api/v1/pods/%", "/api/v1/pods/%ff", "//", "/a",
        ] {
            assert_eq!(PathRoute::parse(path), PathRoute::Unknown, "{path}");
        }
    }

    #[test]
    fn documents() {
        assert_eq!(PathRoute::parse("/apis/"), PathRoute::Groups);
        assert_eq!(PathRoute::parse("/api"), PathRoute::CoreVersions);
        assert_eq!(
            PathRoute::parse("/readyz"),
            PathRoute::Health {
                endpoint: "readyz".to_owned(),
                check: None
            }
        );
        assert_eq!(
            PathRoute::parse("/livez/poststarthook/rbac/bootstrap-roles"),
            PathRoute::Health {
                endpoint: "livez".to_owned(),
                check: Some("poststarthook/rbac/bootstrap-roles".to_owned())
            }
        );
        assert_eq!(PathRoute::parse("/"), PathRoute::Root);
        assert_eq!(
            PathRoute::parse("/openapi/v3/apis/apps/v1"),
            PathRoute::OpenApi("apis/apps/v1".to_owned())
        );
    }
}
