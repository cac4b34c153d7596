//! Words: what a caller may ask of a verb, and what a verb answers.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use steersman_schema::resource::Resource;
use steersman_text::status::Status;

use crate::auth::User;
use crate::store::{Made, Stored};

/// Which face of an object a verb works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself.
    Main,
    /// `/status`: only the status changes.
    Status,
    /// `/scale`: an `autoscaling/v1` `Scale` made from the object.
    Scale,
    /// `/finalize` of a Namespace: only `spec.finalizers` changes.
    Finalize,
    /// `/ephemeralcontainers` of a Pod: only `spec.ephemeralContainers` changes.
    EphemeralContainers,
    /// `/resize` of a Pod: only the resources of its containers change.
    Resize,
    /// `/approval` of a CertificateSigningRequest: only `status.conditions` changes.
    Approval,
}

/// What a verb works on: an object, a part of one, or all objects of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The resource, in the version of the request.
    pub resource: &'a Resource,
    /// Which face of the object.
    pub subresource: Subresource,
    /// The namespace; `None` for cluster-scoped resources, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// The object; empty where the verb names none.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// One object, as a whole.
    #[must_use]
    pub fn object(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self {
            resource,
            subresource: Subresource::Main,
            namespace,
            name,
        }
    }

    /// The objects of a resource in a namespace, or in all.
    #[must_use]
    pub fn collection(resource: &'a Resource, namespace: Option<&'a str>) -> Self {
        Self::object(resource, namespace, "")
    }

    /// A face of the object.
    #[must_use]
    pub fn part(mut self, subresource: Subresource) -> Self {
        self.subresource = subresource;
        self
    }

    /// The namespace under which the object is stored: empty for cluster-scoped ones.
    pub(super) fn scope(&self) -> &'a str {
        let namespace = self.namespace.filter(|_| self.resource.namespaced);
        namespace.unwrap_or_default()
    }
}

/// What a patch document is, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchKind {
    /// The content types that are taken, in the order in which refusals name them.
    pub const ACCEPTED: &'static [&'static str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ];

    /// Reads a `Content-Type`; its parameters are ignored. Custom resources have no strategic
    /// merge: their types have no merge keys.
    ///
    /// # Errors
    /// 415 naming the accepted types.
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

/// Query of a GET.
#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// `resourceVersion`: empty or absent for the newest; otherwise a lower bound.
    pub resource_version: Option<String>,
}

/// Query of a list (and the selecting half of a deletecollection).
///
/// Strings are as they came, decoded from the URL; the registry parses and refuses them.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// `labelSelector`.
    pub label_selector: Option<String>,
    /// `fieldSelector`.
    pub field_selector: Option<String>,
    /// `shardSelector`: see [`ShardSelector`](crate::shard::ShardSelector).
    pub shard_selector: Option<String>,
    /// `limit`: items per page; zero or less for all.
    pub limit: i64,
    /// `continue`: the token of the page before.
    pub continue_token: Option<String>,
    /// `resourceVersion`.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch`: `Exact` or `NotOlderThan`.
    pub resource_version_match: Option<String>,
    /// `sendInitialEvents`, which a list refuses.
    pub send_initial_events: Option<bool>,
}

/// Query of a watch.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// `labelSelector`.
    pub label_selector: Option<String>,
    /// `fieldSelector`.
    pub field_selector: Option<String>,
    /// `shardSelector`: see [`ShardSelector`](crate::shard::ShardSelector).
    pub shard_selector: Option<String>,
    /// `resourceVersion`: absent, empty or `0` starts with an `ADDED` per object.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch`: only `NotOlderThan`, with `sendInitialEvents`.
    pub resource_version_match: Option<String>,
    /// `allowWatchBookmarks`.
    pub allow_bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `limit` and `continue`, which a watch ignores or refuses.
    pub continue_token: Option<String>,
}

/// Query of create, update and patch. Values are as they came; the registry checks them.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `dryRun`, every occurrence; `All` is the only value taken.
    pub dry_run: Vec<String>,
    /// `fieldManager`: who owns what the write changes.
    pub field_manager: Option<String>,
    /// The `User-Agent` header, which names the manager where nothing else does.
    pub user_agent: Option<String>,
    /// Who asks.
    pub user: Arc<User>,
    /// `fieldValidation`: `Ignore`, `Warn` (also when absent) or `Strict`.
    pub field_validation: Option<String>,
    /// `force`, which only an apply may carry.
    pub force: Option<bool>,
}

/// Body (or query) of a delete: `DeleteOptions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// `dryRun`.
    pub dry_run: Vec<String>,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`: `Foreground`, `Background` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// The old spelling of `Orphan`.
    pub orphan_dependents: Option<bool>,
    /// What must hold for the delete to happen.
    pub preconditions: Option<Preconditions>,
    /// Who asks.
    #[serde(skip)]
    pub user: Arc<User>,
}

/// What the stored object must look like for a delete to happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The stored object's uid.
    pub uid: Option<String>,
    /// The stored object's resource version.
    pub resource_version: Option<String>,
}

/// One object as a request for one version of its resource sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Object {
    /// The stored revision this answer was made from (for a dry run: a revision that was not kept).
    pub stored: Arc<Stored>,
}

impl Object {
    /// The whole object, `kind` and `apiVersion` first.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.stored.bytes.clone()
    }

    /// The object without `kind` and `apiVersion`: how items of a built-in list are written.
    /// The bytes lack the opening brace, so that `{` followed by them is the item.
    #[must_use]
    pub fn bytes_after_type(&self) -> Bytes {
        self.stored.bytes.slice(self.stored.after_type..)
    }

    /// The line of a watch event of that type, if it was written with the object.
    #[must_use]
    pub fn line(&self, made: Made) -> Option<Bytes> {
        self.stored.line(made)
    }

    /// The decoded object without its managedFields (SRV-STORE-8).
    pub fn lean(&self) -> &Value {
        self.stored.lean()
    }

    /// The whole object for one look: it is as decoded afterwards as it was before (SRV-STORE-7).
    #[must_use]
    pub fn look(&self) -> Cow<'_, Value> {
        self.stored.look_whole()
    }

    /// Its metadata as JSON. Nothing is decoded for it.
    #[must_use]
    pub fn metadata(&self) -> &str {
        self.stored.metadata()
    }

    /// The decoded object, which stays decoded as long as this lives.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.stored.value
    }
}

/// What a create, update or patch did.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object as it is now (or would be, for a dry run).
    pub object: Object,
    /// Whether the object is new: HTTP 201 rather than 200.
    pub created: bool,
}

/// What a delete did.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object is gone; this `Status` (code 200) is the answer.
    Gone(Box<Status>),
    /// The object is gone, and of a kind whose delete answers its last state.
    Last(Object),
    /// The object is marked for deletion, and goes later; this is how it is.
    Held(Object),
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The objects, by namespace and name.
    pub items: Vec<Object>,
    /// The list's `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.continue`; absent on the last page.
    pub continue_token: Option<String>,
    /// `metadata.remainingItemCount`; absent with selectors and on the last page.
    pub remaining: Option<u64>,
    /// `metadata.shardInfo.selector`; absent without a `shardSelector`.
    pub shard: Option<String>,
}

/// One line of a watch.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// The object appeared (to this watch).
    Added(Object),
    /// The object changed.
    Modified(Object),
    /// The object went (from this watch): its last state, with the version of its going.
    Deleted(Object),
    /// Everything up to this revision was sent.
    Bookmark {
        /// The bookmark's `resourceVersion`.
        revision: u64,
        /// Whether it carries the `k8s.io/initial-events-end` annotation.
        initial_events_end: bool,
    },
    /// The watch is over, for this reason; nothing follows.
    Error(Box<Status>),
}

impl WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Added(_) => "ADDED",
            Self::Modified(_) => "MODIFIED",
            Self::Deleted(_) => "DELETED",
            Self::Bookmark { .. } => "BOOKMARK",
            Self::Error(_) => "ERROR",
        }
    }

    /// The object of `ADDED`, `MODIFIED` and `DELETED`.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark { .. } | Self::Error(_) => None,
        }
    }
}
