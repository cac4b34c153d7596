//! Words: one request as the log records it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

/// The verb of a request on objects, as in the rules of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
#[display("{}", self.as_str())]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verb {
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

impl Verb {
    /// Returns the verb as discovery and RBAC write it, for instance `deletecollection`.
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

/// One request that the server received, as the log records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequestRecord {
    /// Number of the request, from 0; never reused.
    pub sequence: u64,
    /// The server's wall time when the request arrived.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// The HTTP method, for instance `GET`.
    pub method: String,
    /// URL path as received, percent-encoded.
    pub path: String,
    /// The query parameters, percent-decoded, in the order of the URL.
    #[serde(serialize_with = "by_name")]
    pub parameters: Vec<(String, String)>,
    /// The verb of a request on objects; `None` for documents such as discovery.
    pub verb: Option<Verb>,
    /// The API group in the path; empty for core, and for a document without a group.
    pub group: String,
    /// The API version in the path, such as `v1`; empty for a document without a version.
    pub version: String,
    /// Plural name of the resource; empty for documents.
    pub resource: String,
    /// The subresource, for instance `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// The namespace in the path; `None` if the path has none.
    pub namespace: Option<String>,
    /// The name in the path. The name of a created object is set after the create, so faults cannot match it.
    pub name: Option<String>,
    /// The `User-Agent` header; empty if absent.
    pub user_agent: String,
    /// The `Accept` headers, joined by commas; empty if absent.
    pub accept: String,
    /// Name of the user after impersonation. Empty if authentication failed (401).
    pub user: String,
    /// The groups of `user`, after impersonation.
    pub groups: Vec<String>,
    /// Name of the user that impersonates; `None` without impersonation.
    pub impersonated_by: Option<String>,
    /// Whether the request is a watch that asks for the initial objects (`sendInitialEvents=true`), in place of a list.
    #[serde(skip)]
    pub watch_list: bool,
    /// HTTP status of the answer; `None` before the answer, and for good if the client disconnected first.
    pub status: Option<u16>,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn by_name<S>(parameters: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
{
    let members = |(name, value): &_| json!({"name": name, "value": value});
    serializer.collect_seq(parameters.iter().map(members))
}

impl fmt::Display for RequestRecord {
    /// Prints one line: time, status (`open` for a request without an answer yet, such as a watch), request and user.
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
    /// Returns the first value of a query parameter; `None` if the query does not have it.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns whether the request has this verb; false for documents such as discovery.
    pub fn does(&self, verb: Verb) -> bool {
        self.verb == Some(verb)
    }

    /// Returns whether the request is for a resource: `pods`, `pods/status`,
    /// `websites.example.com`, `websites.example.com/status`, or `*` for every resource.
    pub fn is_for(&self, resource: &str) -> bool {
        if resource == "*" {
            return !self.resource.is_empty();
        }
        let split = |text, at: char| match str::split_once(text, at) {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let (resource, subresource) = split(resource, '/');
        let (plural, group) = split(resource, '.');
        self.resource == plural
            && group.is_none_or(|group| self.group == group)
            && self.subresource.as_deref() == subresource
    }

    /// Returns whether the request asks for the metadata of objects instead of whole objects.
    pub fn is_metadata_only(&self) -> bool {
        self.accept.contains("as=PartialObjectMetadata")
    }

    /// Returns whether the request is for the first page of a list; later pages carry a continue token.
    pub fn is_first_page(&self) -> bool {
        self.does(Verb::List) && self.parameter("continue").is_none_or(str::is_empty)
    }
}
