//! Words: the subresources of Kubernetes' own kinds beside status and scale.

use super::resource::Resource;

/// The operation of a request to a subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Gives a Pod its node.
    Bind,
    /// Deletes a Pod unless a disruption budget forbids it.
    Evict,
    /// Returns the log of a Pod's container.
    Log,
    /// Issues a token for a ServiceAccount.
    Token,
    /// Answers a review, such as a SubjectAccessReview, without storing it.
    Review,
    /// Connects to a running process, such as `exec`. This server refuses it.
    Connect,
}

/// A subresource of a built-in kind, as discovery lists it.
#[derive(Debug, Clone, Copy)]
pub struct Further {
    /// Plural name of the core kind that has the subresource.
    plural: &'static str,
    /// Name of the subresource, for instance `binding`.
    pub name: &'static str,
    /// Group of the subresource's kind, as in discovery; empty for core.
    pub group: &'static str,
    /// Version of the kind; empty if the group is the resource's own group.
    pub version: &'static str,
    /// Kind of the request body, for instance `Binding`.
    pub kind: &'static str,
    /// The verbs, in the order of discovery.
    pub verbs: &'static [&'static str],
    /// The operation of a request.
    pub act: Act,
}

const CREATE: &[&str] = &["create"];
const STREAM: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const TABLE: &[Further] = &[
    connect("nodes", "proxy", "NodeProxyOptions", PROXY),
    connect("pods", "attach", "PodAttachOptions", STREAM),
    core("pods", "binding", "Binding", CREATE, Act::Bind),
    Further {
        group: "policy",
        version: "v1",
        ..core("pods", "eviction", "Eviction", CREATE, Act::Evict)
    },
    connect("pods", "exec", "PodExecOptions", STREAM),
    core("pods", "log", "Pod", &["get"], Act::Log),
    connect("pods", "portforward", "PodPortForwardOptions", STREAM),
    connect("pods", "proxy", "PodProxyOptions", PROXY),
    Further {
        group: "authentication.k8s.io",
        version: "v1",
        ..core(
            "serviceaccounts",
            "token",
            "TokenRequest",
            CREATE,
            Act::Token,
        )
    },
    connect("services", "proxy", "ServiceProxyOptions", PROXY),
];

const fn core(
    plural: &'static str,
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
    act: Act,
) -> Further {
    Further {
        plural,
        name,
        group: "",
        version: "",
        kind,
        verbs,
        act,
    }
}

const fn connect(
    plural: &'static str,
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Further {
    core(plural, name, kind, verbs, Act::Connect)
}

/// Returns the subresources of a resource, by name.
pub fn further(resource: &Resource) -> impl Iterator<Item = &'static Further> {
    let plural = if resource.built_in && resource.group.is_empty() {
        resource.plural.as_str()
    } else {
        ""
    };
    TABLE.iter().filter(move |row| row.plural == plural)
}
