//! Machine: describes the path of a request to an API server by its template.

/// The parts of a path such as `/apis/apps/v1/namespaces/web/deployments/shop/status`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DescribedPath<'a> {
    /// The path with names replaced, such as `/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status`.
    pub(crate) template: String,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

/// Describes a path. A path that is none of an object, such as that of discovery, is its own template.
pub(crate) fn describe(path: &str) -> DescribedPath<'_> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let root = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => parts.len(),
    };
    if parts.len() <= root {
        return DescribedPath {
            template: path.to_owned(),
            namespace: None,
            name: None,
        };
    }
    let (group, resource) = parts.split_at(root);
    // `namespaces/web` alone is the object `web`, and `namespaces/web/status` one of its subresources.
    let (namespace, resource) = match resource {
        ["namespaces", namespace, resource, ..] if !matches!(*resource, "status" | "finalize") => {
            (Some(*namespace), parts.get(root + 2..).unwrap_or_default())
        }
        _ => (None, resource),
    };
    let mut template = format!("/{}", group.join("/"));
    if namespace.is_some() {
        template.push_str("/namespaces/{namespace}");
    }
    for (place, part) in resource.iter().enumerate() {
        template.push('/');
        template.push_str(if place == 1 { "{name}" } else { part });
    }
    DescribedPath {
        template,
        namespace,
        name: resource.get(1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_in_the_template() {
        for (path, template, namespace, name) in [
            ("/version", "/version", None, None),
            ("/apis/apps/v1", "/apis/apps/v1", None, None),
            ("/api/v1/nodes", "/api/v1/nodes", None, None),
            (
                "/api/v1/nodes/n-1",
                "/api/v1/nodes/{name}",
                None,
                Some("n-1"),
            ),
            (
                "/api/v1/namespaces/web",
                "/api/v1/namespaces/{name}",
                None,
                Some("web"),
            ),
            (
                "/api/v1/namespaces/web/status",
                "/api/v1/namespaces/{name}/status",
                None,
                Some("web"),
            ),
            (
                "/api/v1/namespaces/web/pods",
                "/api/v1/namespaces/{namespace}/pods",
                Some("web"),
                None,
            ),
            (
                "/apis/apps/v1/namespaces/web/deployments/shop/status",
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status",
                Some("web"),
                Some("shop"),
            ),
        ] {
            let expected = DescribedPath {
                template: template.to_owned(),
                namespace,
                name,
            };
            assert_eq!(describe(path), expected, "{path}");
        }
    }
}
