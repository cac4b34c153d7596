//! Words: the parameters and the results of verbs such as list and create.

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

/// The part of an object that a request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself, without a subresource in the path.
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

/// The target of a verb: one object, a subresource of an object, or all objects of a resource.
#[derive(Debug, Clone, Copy)]
pub struct ObjectTarget<'a> {
    /// The resource, in the version that the request names.
    pub resource: &'a Resource,
    /// The object itself or one of its subresources.
    pub subresource: Subresource,
    /// The namespace in the request; `None` for cluster-scoped resources, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// The name of the object; empty for all objects, and for a create.
    pub name: &'a str,
}

impl<'a> ObjectTarget<'a> {
    /// Returns the target for the object itself, without a subresource.
    #[must_use]
    pub fn object(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self {
            resource,
            subresource: Subresource::Main,
            namespace,
            name,
        }
    }

    /// Returns the target for all objects of a resource, in one namespace or, with `None`, in all namespaces.
    #[must_use]
    pub fn collection(resource: &'a Resource, namespace: Option<&'a str>) -> Self {
        Self::object(resource, namespace, "")
    }

    /// Returns the same target for a subresource of the object.
    #[must_use]
    pub fn part(mut self, subresource: Subresource) -> Self {
        self.subresource = subresource;
        self
    }

    /// Returns the namespace by which the object is stored; empty for cluster-scoped resources.
    pub(crate) fn scope(&self) -> &'a str {
        let namespace = self.namespace.filter(|_| self.resource.namespaced);
        namespace.unwrap_or_default()
    }
}

/// The format of a patch, which the `Content-Type` names.
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
    /// The content types that `from_content_type` accepts for every resource, in the order of error messages.
    pub const ACCEPTED: &'static [&'static str] = &[
        "application/json-patch+json", "application/merge-patch+json",
        "application/apply-patch+yaml",
    ];

    /// The content types that `from_content_type` accepts for built-in kinds, in the order of error messages.
    pub const OF_BUILT_IN: &'static [&'static str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];

    /// Parses the `Content-Type` of a patch, without parameters. Custom resources have no strategic merge patch.
    ///
    /// # Errors
    /// 415 with the accepted content types.
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

/// The query parameters of a list, watch or deletecollection, decoded from the URL and not checked.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// `labelSelector`: selects objects by their labels.
    pub label_selector: Option<String>,
    /// `fieldSelector`: selects objects by their fields.
    pub field_selector: Option<String>,
    /// `shardSelector`: selects a part of the objects by a hash, see [`ShardSelector`](steersman_cel::ShardSelector).
    pub shard_selector: Option<String>,
    /// `limit`: items per page; zero or less for all. A watch ignores it.
    pub limit: i64,
    /// `continue`: the token of the previous page, which a watch refuses.
    pub continue_token: Option<String>,
    /// `resourceVersion`: the revision that a list reads, or after which a watch starts. A watch without it, or with
    /// `0`, starts with an `ADDED` event per existing object.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch`: `Exact` or `NotOlderThan`; for a watch only `NotOlderThan`, with `sendInitialEvents`.
    pub resource_version_match: Option<String>,
    /// `sendInitialEvents`: whether a watch starts with an `ADDED` event per existing object. A list refuses it.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`: whether the client of a watch accepts bookmarks. A list ignores it.
    pub allow_bookmarks: bool,
}

/// The query parameters of a create, update or patch, not checked yet. Webhooks get them as JSON in the field `options`
/// of the AdmissionReview.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteOptions {
    /// All values of the parameter `dryRun`: with `All`, the only valid value, nothing is stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// `fieldManager`: the name that becomes the owner of the changed fields in managedFields.
    #[serde(skip_serializing_if = "is_blank")]
    pub field_manager: Option<String>,
    /// The `User-Agent` header. Its start is the name of the field manager if `fieldManager` is absent.
    #[serde(skip)]
    pub user_agent: Option<String>,
    /// The user that sent the request; a user without a name is the program that embeds the server.
    #[serde(skip)]
    pub user: Arc<User>,
    /// `fieldValidation`: `Ignore`, `Warn` (also if absent) or `Strict`.
    #[serde(skip_serializing_if = "is_blank")]
    pub field_validation: Option<String>,
    /// `force`: whether an apply takes over fields of other managers, instead of failing with 409. Only for an apply.
    #[serde(skip)]
    pub force: Option<bool>,
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn is_blank(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

/// The body or the query parameters of a delete (`DeleteOptions`). Webhooks get them as JSON in the field `options` of
/// the AdmissionReview.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// All values of `dryRun`: with `All`, the only valid value, nothing is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// `gracePeriodSeconds`: the time, in seconds, to shut down; `None` for the default of the object's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`: whether dependents are deleted before the object (`Foreground`), after it (`Background`) or
    /// not at all (`Orphan`). `None` for the default of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    /// `orphanDependents`: the deprecated parameter for the policies `Orphan` (true) and `Background` (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    /// The uid and resource version that the stored object must have, or else the delete fails with 409.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The user that sent the request; a user without a name is the program that embeds the server.
    #[serde(skip)]
    pub user: Arc<User>,
}

/// The uid and the resource version that a stored object must have for a delete to succeed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The uid that the stored object must have; `None` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version that the stored object must have; `None` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// An object in the version of its resource that a request asked for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VersionedObject {
    /// The object as it is stored, or as a dry run would have stored it; possibly converted to the requested version.
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

    /// Returns the JSON of the object after `kind` and `apiVersion`, for an item of a list of a built-in kind. The
    /// opening brace is missing too: write `{` before these bytes.
    pub fn bytes_after_type(&self) -> Bytes {
        self.stored.bytes().slice(self.stored.after_type()..)
    }

    /// Returns the object as JSON values. If the object is stored as text, it is decoded for this call only, so that
    /// the store's memory does not grow (SRV-STORE-7).
    pub fn look(&self) -> Cow<'_, Value> {
        self.stored.look_whole()
    }

    /// Returns the name of the object (`metadata.name`).
    pub fn name(&self) -> &str {
        &self.stored.name
    }

    /// Returns the object as JSON values. An object that is stored as text stays decoded as long as this value lives.
    pub fn value(&self) -> &Value {
        &self.stored.value
    }
}

/// The result of a create, update or patch.
#[derive(Debug, Clone)]
pub struct StoredWrite {
    /// The object as it is stored now, or as a dry run would have stored it.
    pub object: VersionedObject,
    /// Whether the write created the object, which HTTP reports with the status code 201 in place of 200.
    pub created: bool,
}

/// The result of a delete: whether the object is removed, and the body of the response.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object is removed, and the response is this `Status` with the code 200.
    Gone(Box<Status>),
    /// The object is removed, and the response is its last state, as upstream returns it for some kinds.
    Last(VersionedObject),
    /// The object stays until its finalizers are removed and its grace period ends; the response is its current state.
    Held(VersionedObject),
}

/// The result of a list: the objects on one page, and the metadata of the list.
#[derive(Debug, Clone, Default)]
pub struct StoredPage {
    /// The objects on this page, sorted by namespace and name.
    pub items: Vec<VersionedObject>,
    /// The list's `metadata.resourceVersion`; 0 for objects that are derived and not stored.
    pub revision: u64,
    /// `metadata.continue`, with which the next page is requested; `None` on the last page.
    pub continue_token: Option<String>,
    /// `metadata.remainingItemCount`: the number of objects on later pages; `None` on the last page and with selectors.
    pub remaining: Option<u64>,
    /// `metadata.shardInfo.selector`: the shard selector of the request; `None` for a request without this selector.
    pub shard: Option<String>,
}

impl StoredPage {
    /// Returns the revision as a resource version; empty for objects that are derived and not stored.
    pub fn resource_version(&self) -> String {
        match self.revision {
            0 => String::new(),
            revision => revision.to_string(),
        }
    }
}

/// A message of a watch to its client: a change of one object, a bookmark, or the error that ends the watch.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// An object was created, or changed so that the selectors of the watch match it now.
    Added(VersionedObject),
    /// An object changed, and the selectors of the watch match it both before and after the change.
    Modified(VersionedObject),
    /// An object was deleted, or the selectors of the watch no longer match it. Has its last matching state, with the
    /// revision of the deletion or change.
    Deleted(VersionedObject),
    /// Every change up to this revision was sent, so a new watch can start here.
    Bookmark {
        /// The resource version in the bookmark, with which a new watch can start.
        revision: u64,
        /// Whether the bookmark follows the initial objects and so has the annotation `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// The watch has failed; no event follows.
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

    /// Returns the object of an event; `None` for a bookmark and an error.
    pub fn object(&self) -> Option<&VersionedObject> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark { .. } | Self::Error(_) => None,
        }
    }
}
