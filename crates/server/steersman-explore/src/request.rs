//! Words: a request of the operator, as the exploration sees it.

use derive_more::Display;

/// The verb of a request on objects, as in the rules of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display(rename_all = "lowercase")]
pub enum RequestVerb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes the objects of a collection.
    DeleteCollection,
}

/// A request of the operator on objects. Requests for documents, such as discovery, are not explored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorRequest {
    /// The number that the server gave the request; requests have distinct numbers.
    pub sequence: u64,
    /// The number of the operator's process that sent the request, from 1; each start makes a new number.
    pub process: usize,
    /// The verb.
    pub verb: RequestVerb,
    /// The plural of the resource with its group, such as `configmaps` or `deployments.apps`.
    pub resource: String,
    /// The subresource, such as `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// The namespace in the path; `None` for cluster-scoped resources and for all namespaces.
    pub namespace: Option<String>,
    /// The name of the object; `None` for a collection, and for a create until it is answered.
    pub name: Option<String>,
    /// Whether the request asks the server to change nothing (`dryRun=All`).
    pub is_dry_run: bool,
    /// Whether the request reads or watches from a version that the server may choose (`resourceVersion=0`), so that
    /// a server that lags may answer with an older state.
    pub may_be_stale: bool,
    /// Whether the request is a streaming list: a watch that begins with all objects (`sendInitialEvents=true`).
    pub is_streaming_list: bool,
}

/// Resources that an operator writes to coordinate its processes and to report, not to do its task: Leases and Events.
const HOUSEKEEPING: [&str; 3] = [
    "leases.coordination.k8s.io", "events", "events.events.k8s.io",
];

/// Groups with requests that are answered and store nothing, such as reviews of permissions.
const REVIEWS: [&str; 2] = [".authorization.k8s.io", ".authentication.k8s.io"];

impl RequestVerb {
    /// Returns whether requests with this verb change objects.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl OperatorRequest {
    /// Returns whether the request is a point to explore: a write that is no dry run, no review, and neither for a Lease
    /// nor for an Event.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.verb.is_write()
            && !self.is_dry_run
            && self.subresource.as_deref() != Some("token")
            && !is_housekeeping(&self.resource)
            && !REVIEWS.iter().any(|group| self.resource.ends_with(group))
    }

    /// Returns whether the request is a get or a list of other objects than Leases and Events.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.verb, RequestVerb::Get | RequestVerb::List)
            && !is_housekeeping(&self.resource)
    }
}

/// Returns whether a resource is one of Leases or Events.
pub(crate) fn is_housekeeping(resource: &str) -> bool {
    HOUSEKEEPING.contains(&resource)
}

impl std::fmt::Display for OperatorRequest {
    /// Prints the request as in `patch websites.example.com/status shop/pages`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (self.namespace.as_deref(), self.name.as_deref()) {
            (None, None) => Ok(()),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
        }
    }
}
