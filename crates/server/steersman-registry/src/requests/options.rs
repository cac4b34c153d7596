//! Words: the options of verbs, and their results.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_auth::User;
use steersman_schema::resource::Resource;
use steersman_store::Stored;

/// The part of an object that a verb reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself.
    Main,
    /// `/status`: a write changes only the status.
    Status,
    /// `/scale`: an `autoscaling/v1` `Scale` derived from the object.
    Scale,
    /// `/finalize` of a Namespace: a write changes only `spec.finalizers`.
    Finalize,
    /// `/ephemeralcontainers` of a Pod: a write changes only `spec.ephemeralContainers`.
    EphemeralContainers,
    /// `/resize` of a Pod: a write changes only the resources of its containers.
    Resize,
    /// `/approval` of a CertificateSigningRequest: a write changes only `status.conditions`.
    Approval,
}

/// The target of a verb: an object, a part of one, or all objects of a resource.
#[derive(Debug, Clone, Copy)]
pub struct ObjectTarget<'a> {
    /// The resource, in the version of the request.
    pub resource: &'a Resource,
    /// The part of the object that the verb reads or writes.
    pub subresource: Subresource,
    /// The namespace of the request; `None` for cluster-scoped resources, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// The name of the object; empty for verbs on collections.
    pub name: &'a str,
}

impl<'a> ObjectTarget<'a> {
    /// Targets a whole object.
    #[must_use]
    pub fn object(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self {
            resource,
            subresource: Subresource::Main,
            namespace,
            name,
        }
    }

    /// Targets the objects of a resource in one namespace, or with `None` in all namespaces.
    #[must_use]
    pub fn collection(resource: &'a Resource, namespace: Option<&'a str>) -> Self {
        Self::object(resource, namespace, "")
    }

    /// Targets a part of the object instead of the whole object.
    #[must_use]
    pub fn part(mut self, subresource: Subresource) -> Self {
        self.subresource = subresource;
        self
    }

    /// Returns the namespace under which the target is stored: empty for a cluster-scoped object.
    pub(crate) fn scope(&self) -> &'a str {
        let namespace = self.namespace.filter(|_| self.resource.namespaced);
        namespace.unwrap_or_default()
    }
}

/// The format of a patch document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// A JSON patch (`application/json-patch+json`).
    Json,
    /// A JSON merge patch (`application/merge-patch+json`).
    Merge,
    /// A strategic merge patch (`application/strategic-merge-patch+json`).
    Strategic,
    /// A server-side apply (`application/apply-patch+yaml`).
    Apply,
}

impl PatchKind {
    /// The content types that `from_content_type` accepts, in the order in which messages list them.
    pub const ACCEPTED: &'static [&'static str] = &[
        "application/json-patch+json", "application/merge-patch+json",
        "application/apply-patch+yaml",
    ];

    /// Parses the `Content-Type` of a patch, without its parameters. Custom resources have no strategic merge patch.
    ///
    /// # Errors
    /// 415 with the names of the accepted types.
    pub fn from_content_type(content_type: &str, resource: &Resource) -> Result<Self, Status> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        match kind {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if resource.built_in => Ok(Self::Strategic),
            _ => Err(Status::unsupported_media_type(Self::ACCEPTED)),
        }
    }
}

/// The query of a list or a watch, and the selectors of a deletecollection, as received and decoded from the URL.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// `labelSelector`: selects objects by their labels.
    pub label_selector: Option<String>,
    /// `fieldSelector`: selects objects by their fields.
    pub field_selector: Option<String>,
    /// `shardSelector`: see [`ShardSelector`](steersman_cel::ShardSelector).
    pub shard_selector: Option<String>,
    /// `limit`: items per page; zero or less for all. A watch ignores it.
    pub limit: i64,
    /// `continue`: the token of the previous page, which a watch refuses.
    pub continue_token: Option<String>,
    /// `resourceVersion`. A watch without a version, or with `0`, starts with an `ADDED` event per object.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch`: `Exact` or `NotOlderThan`; for a watch only the latter, with `sendInitialEvents`.
    pub resource_version_match: Option<String>,
    /// `sendInitialEvents`: whether a watch starts with an `ADDED` event per existing object. A list refuses it.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`: whether the client of a watch accepts bookmarks. A list ignores it.
    pub allow_bookmarks: bool,
}

/// The query of a create, update or patch, as received and unchecked. Serialised as webhooks receive the options.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteOptions {
    /// All values of `dryRun`; `All` is the only valid value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// `fieldManager`: the owner of the fields that the write changes.
    #[serde(skip_serializing_if = "is_blank")]
    pub field_manager: Option<String>,
    /// The `User-Agent` header, which names the field manager of a request without a `fieldManager`.
    #[serde(skip)]
    pub user_agent: Option<String>,
    /// The user of the request.
    #[serde(skip)]
    pub user: Arc<User>,
    /// `fieldValidation`: `Ignore`, `Warn` (also if absent) or `Strict`.
    #[serde(skip_serializing_if = "is_blank")]
    pub field_validation: Option<String>,
    /// `force`, which only an apply may carry.
    #[serde(skip)]
    pub force: Option<bool>,
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn is_blank(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

/// The body or the query of a delete: `DeleteOptions`. Serialised as webhooks receive the options.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// `dryRun`: whether the delete is not stored; `All` is the only valid value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// `gracePeriodSeconds`: the time that the object has to shut down; `None` for the default of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`: `Foreground`, `Background` or `Orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    /// `orphanDependents`, the deprecated form of `Orphan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    /// The state that the stored object must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The user of the request.
    #[serde(skip)]
    pub user: Arc<User>,
}

/// The state that the stored object must have for a delete.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The stored object's uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The stored object's resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// An object in one version of its resource. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VersionedObject {
    /// The stored revision of the object, or for a dry run a revision that is not stored.
    pub stored: Arc<Stored>,
}

impl Deref for VersionedObject {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.stored
    }
}

impl VersionedObject {
    /// Returns the JSON of the whole object, `kind` and `apiVersion` first.
    pub fn bytes(&self) -> Bytes {
        self.stored.bytes().clone()
    }

    /// Returns the JSON of the object without `kind` and `apiVersion`, as an item of a built-in list. The bytes lack
    /// the opening brace, so that `{` followed by the bytes is the item.
    pub fn bytes_after_type(&self) -> Bytes {
        self.stored.bytes().slice(self.stored.after_type()..)
    }

    /// Returns the decoded object, without keeping a form that this call decodes (SRV-STORE-7).
    pub fn look(&self) -> Cow<'_, Value> {
        self.stored.look_whole()
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        &self.stored.name
    }

    /// Returns the decoded object, and keeps its decoded form for the lifetime of this value.
    pub fn value(&self) -> &Value {
        &self.stored.value
    }
}

/// The result of a create, update or patch.
#[derive(Debug, Clone)]
pub struct StoredWrite {
    /// The object after the write, or for a dry run the object as the write would store it.
    pub object: VersionedObject,
    /// Whether the write created the object, for which HTTP answers 201 instead of 200.
    pub created: bool,
}

/// The result of a delete.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object was removed; this `Status` (code 200) is the answer.
    Gone(Box<Status>),
    /// The object was removed, and the answer is its last state, as for some kinds.
    Last(VersionedObject),
    /// The object is marked for deletion and is removed later; this is its current state.
    Held(VersionedObject),
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct StoredPage {
    /// The objects of the page, sorted by namespace and name.
    pub items: Vec<VersionedObject>,
    /// The list's `metadata.resourceVersion`; zero for objects that are not stored.
    pub revision: u64,
    /// `metadata.continue`; absent on the last page.
    pub continue_token: Option<String>,
    /// `metadata.remainingItemCount`; absent with selectors and on the last page.
    pub remaining: Option<u64>,
    /// `metadata.shardInfo.selector`; absent without a `shardSelector`.
    pub shard: Option<String>,
}

impl StoredPage {
    /// Returns the text of the revision; empty for objects that are not stored.
    pub fn resource_version(&self) -> String {
        match self.revision {
            0 => String::new(),
            revision => revision.to_string(),
        }
    }
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// The object was created or began to match the selectors of the watch.
    Added(VersionedObject),
    /// The object changed.
    Modified(VersionedObject),
    /// The object was deleted or stopped matching: its last matching state, with the revision of that change.
    Deleted(VersionedObject),
    /// Every change up to this revision was sent.
    Bookmark {
        /// The bookmark's `resourceVersion`.
        revision: u64,
        /// Whether the bookmark has the annotation `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// The watch ends with this error, and no event follows.
    Error(Box<Status>),
}

impl WatchEvent {
    /// Returns the `type` of the event: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Added(_) => "ADDED",
            Self::Modified(_) => "MODIFIED",
            Self::Deleted(_) => "DELETED",
            Self::Bookmark { .. } => "BOOKMARK",
            Self::Error(_) => "ERROR",
        }
    }

    /// Returns the object of an event `ADDED`, `MODIFIED` or `DELETED`.
    pub fn object(&self) -> Option<&VersionedObject> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark { .. } | Self::Error(_) => None,
        }
    }
}
