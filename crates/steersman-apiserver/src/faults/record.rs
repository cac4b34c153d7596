//! Words: one request as the log keeps it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a request does to objects, in the words of Kubernetes' authorisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch,
    /// Removes an object.
    Delete,
    /// Removes the objects of a collection.
    DeleteCollection,
}

impl Verb {
    /// The verb as discovery and RBAC write it, for instance `deletecollection`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestRecord {
    /// Counts requests from 0; never reused.
    pub sequence: u64,
    /// The server's wall time when the request arrived.
    pub at: Timestamp,
    /// HTTP method.
    pub method: String,
    /// URL path as it came.
    pub path: String,
    /// The query, decoded, in order.
    pub parameters: Vec<(String, String)>,
    /// What it does to objects; `None` for documents such as discovery.
    pub verb: Option<Verb>,
    /// API group; empty for core.
    pub group: String,
    /// API version; empty for documents.
    pub version: String,
    /// Plural name of the resource; empty for documents.
    pub resource: String,
    /// For instance `status`.
    pub subresource: Option<String>,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Name in the path.
    pub name: Option<String>,
    /// The `User-Agent` header; empty where there is none.
    pub user_agent: String,
    /// The `Accept` header, several of them joined by commas; empty where there is none.
    pub accept: String,
    /// Who asks: whom the request acts as, where it impersonates somebody. Empty where no user was
    /// recognised, which is answered 401.
    pub user: String,
    /// The groups of that user.
    pub groups: Vec<String>,
    /// Who acts as that user; `None` for a user who acts as himself.
    pub impersonated_by: Option<String>,
    /// Whether it is a watch that asks for the initial objects (`sendInitialEvents=true`).
    pub watch_list: bool,
    /// HTTP status of the answer; `None` until it is known, and for good when the client went away
    /// before.
    pub status: Option<u16>,
}

impl fmt::Display for RequestRecord {
    /// One line: when, how it was answered (`open` for one that is not, such as a watch), what, and
    /// who.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.to_string();
        let time = at.split_once('T').map_or(at.as_str(), |(_, time)| time);
        write!(f, "{}  ", time.get(..12).unwrap_or(time))?;
        match self.status {
            Some(status) => write!(f, " {status}  ")?,
            None => f.write_str("open  ")?,
        }
        let verb = self.verb.map_or(self.method.as_str(), |verb| verb.as_str());
        if self.resource.is_empty() {
            write!(f, "{verb} {}", self.path)?;
        } else {
            write!(f, "{verb} {}", self.resource)?;
            if !self.group.is_empty() {
                write!(f, ".{}", self.group)?;
            }
            if let Some(subresource) = &self.subresource {
                write!(f, "/{subresource}")?;
            }
        }
        let place = [self.namespace.as_deref(), self.name.as_deref()];
        for (at, part) in place.into_iter().flatten().enumerate() {
            write!(f, "{}{part}", if at == 0 { ' ' } else { '/' })?;
        }
        write!(f, "  ({})", self.user_agent)
    }
}

impl RequestRecord {
    /// The first value of a query parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether the request does `verb`.
    #[must_use]
    pub fn does(&self, verb: Verb) -> bool {
        self.verb == Some(verb)
    }

    /// Whether the request is about a resource: `pods`, `pods/status`, `websites.example.com`,
    /// `websites.example.com/status`, or `*` for every resource.
    #[must_use]
    pub fn is_for(&self, resource: &str) -> bool {
        if resource == "*" {
            return !self.resource.is_empty();
        }
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (resource, None),
        };
        let (plural, group) = match resource.split_once('.') {
            Some((plural, group)) => (plural, Some(group)),
            None => (resource, None),
        };
        self.resource == plural
            && group.is_none_or(|group| self.group == group)
            && self.subresource.as_deref() == subresource
    }

    /// Whether it asks for the metadata of objects instead of whole ones.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.accept.contains("as=PartialObjectMetadata")
    }

    /// Whether it is the first page of a list: pages after it carry a continue token.
    #[must_use]
    pub fn is_first_page(&self) -> bool {
        self.does(Verb::List) && self.parameter("continue").is_none_or(str::is_empty)
    }
}
