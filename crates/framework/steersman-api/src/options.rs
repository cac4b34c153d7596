//! Words: the options of requests.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_object::{ListOptions, Object, ResourceVersion, TypeInfo as _};

/// The pages of a list and its resource version. The default is one page at the newest version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a paging does nothing until a list is requested with it"]
pub struct Paging {
    /// The largest number of objects in one page; `None` for all objects in one page.
    pub page_size: Option<u32>,
    /// The continue token of the preceding page.
    pub continue_token: Option<String>,
    /// The resource version of the list: absent or unset means the newest version, `"0"` any version that the server
    /// has.
    pub resource_version: Option<ResourceVersion>,
    /// How the server interprets `resource_version`.
    pub version_match: Option<VersionMatch>,
}

/// One page of a list, as a [`ListWatch`](crate::ListWatch) requests it, with selectors as text. The default requests
/// every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageRequest {
    /// A label selector, as `kubectl -l` takes it.
    pub labels: Option<String>,
    /// A field selector, such as `status.phase=Running`.
    pub fields: Option<String>,
    /// A shard selector (`shardSelector`, KEP-5866): the server sends only the objects of a shard. Servers without the
    /// feature ignore it.
    pub shard_selector: Option<String>,
    /// The requested page, and the resource version of the list.
    pub paging: Paging,
    /// How much of each object the server should send. [`Api`](crate::Api) ignores this field, because its object type
    /// decides.
    pub projection: Projection,
}

/// How much of each object a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Projection {
    /// The metadata only.
    Metadata,
    /// The whole object. In protobuf it lacks the fields that this version does not know.
    #[default]
    Whole,
    /// The whole object with every field, always as JSON.
    EveryField,
}

/// How the server interprets the resource version of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMatch {
    /// The list is at this version or a newer one.
    NotOlderThan,
    /// The list is at exactly this version.
    Exact,
}

/// The options of a watch. The default starts at the newest state, with bookmarks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until a request is sent with them"]
pub struct WatchOptions {
    /// A label selector, as `kubectl -l` takes it.
    pub labels: Option<String>,
    /// A field selector, such as `status.phase=Running`.
    pub fields: Option<String>,
    /// A shard selector, as in [`PageRequest::shard_selector`].
    pub shard_selector: Option<String>,
    /// The resource version after which the watch starts.
    pub resource_version: ResourceVersion,
    /// Whether the server sends bookmarks.
    pub bookmarks: bool,
    /// The time after which the server ends the watch, in whole seconds.
    pub timeout: Option<Duration>,
    /// Whether to begin with all objects, followed by a bookmark (WatchList, KEP-3157).
    pub initial_events: bool,
    /// How much of each object the server sends.
    pub projection: Projection,
}

/// The options of a create, an update or a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until a request is sent with them"]
pub struct WriteOptions {
    /// The field manager: the recorded owner of the written fields. Apply needs one; for other writes the server
    /// derives a name by default.
    pub field_manager: Option<String>,
    /// Whether the server checks the request and stores nothing.
    pub dry_run: bool,
    /// How the server treats unknown fields; it warns by default. Not sent with apply, which is always strict.
    pub field_validation: Option<FieldValidation>,
    /// Whether an apply takes fields over from other managers. Sent with apply only.
    pub force: bool,
}

/// How the server treats unknown and duplicate fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValidation {
    /// Drops such fields.
    Ignore,
    /// Drops such fields and sends a warning. The server's default.
    Warn,
    /// Refuses the request (400).
    Strict,
}

/// The options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until a request is sent with them"]
pub struct DeleteOptions {
    /// Deletes the object only if it has this uid.
    pub uid: Option<String>,
    /// Deletes the object only at this resource version.
    pub resource_version: Option<ResourceVersion>,
    /// What happens to the objects that the deleted object owns; the server decides by default.
    pub propagation: Option<Propagation>,
    /// The time that a Pod may take to end, in whole seconds.
    pub grace_period: Option<Duration>,
    /// Whether the server checks the request and deletes nothing.
    pub dry_run: bool,
}

/// What happens to the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Propagation {
    /// The owned objects are deleted after the owner.
    Background,
    /// The owned objects are deleted before the owner.
    Foreground,
    /// The owned objects stay, without the owner.
    Orphan,
}

/// A change of an object, in one of the forms that an API server accepts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Patch {
    /// A JSON merge patch (RFC 7396): objects are merged, `null` removes a member, lists are replaced.
    Merge(Value),
    /// A JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// A strategic merge patch: a merge patch in which lists merge by the keys that Kubernetes defines. Built-in
    /// kinds only.
    Strategic(Value),
    /// Server-side apply: the fields that a manager sets, with ownership tracked by the server.
    Apply(Value),
}

impl FieldValidation {
    /// Returns the value of the request parameter `fieldValidation`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl Paging {
    /// Requests one page at the newest version.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest number of objects in one page; 0 means no limit.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects).filter(|objects| *objects > 0);
        self
    }

    /// Requests the next page, with the continue token of the previous page.
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// Sets how new the answer must be.
    pub fn resource_version(mut self, version: ResourceVersion) -> Self {
        self.resource_version = Some(version);
        self
    }

    /// Sets how the server interprets the resource version.
    pub fn version_match(mut self, version_match: VersionMatch) -> Self {
        self.version_match = Some(version_match);
        self
    }
}

impl Projection {
    /// All projections, from the smallest to the largest.
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Whole, Self::EveryField];

    /// Returns how much of an object the type `K` needs: a dynamic type keeps every field.
    pub fn of<K: Object>() -> Self {
        if K::metadata_api() {
            Self::Metadata
        } else if K::DynamicType::IS_DYNAMIC {
            Self::EveryField
        } else {
            Self::Whole
        }
    }
}

impl PageRequest {
    /// Requests every object on the pages that `paging` describes.
    pub fn new(paging: Paging) -> Self {
        Self {
            paging,
            ..Self::default()
        }
    }

    /// Requests the objects that the list options select by labels and fields. The page size is at most the limit of
    /// the list options.
    pub(crate) fn of(list_options: &ListOptions, paging: &Paging) -> Self {
        let limit = list_options.selected_limit();
        let limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let page_size = match (paging.page_size, limit.filter(|limit| *limit > 0)) {
            (Some(size), Some(limit)) => Some(size.min(limit)),
            (size, limit) => size.or(limit),
        };
        let labels = list_options.selected_labels();
        let fields = list_options.selected_fields();
        Self {
            labels: (!labels.is_everything()).then(|| labels.to_string()),
            fields: (!fields.is_everything()).then(|| fields.to_string()),
            shard_selector: None,
            paging: Paging {
                page_size,
                ..paging.clone()
            },
            projection: Projection::default(),
        }
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            shard_selector: None,
            resource_version: ResourceVersion::unset(),
            bookmarks: true,
            timeout: None,
            initial_events: false,
            projection: Projection::default(),
        }
    }
}

impl WatchOptions {
    /// Watches the changes after `version`.
    pub fn after(version: ResourceVersion) -> Self {
        Self {
            resource_version: version,
            ..Self::default()
        }
    }

    /// Streams all objects at a state not older than `version`, then the changes (WatchList).
    pub fn streaming_list(version: ResourceVersion) -> Self {
        Self {
            resource_version: version,
            initial_events: true,
            ..Self::default()
        }
    }

    /// Watches only objects with these labels.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Watches only objects with these fields.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Sets whether the server sends bookmarks.
    pub fn bookmarks(mut self, bookmarks: bool) -> Self {
        self.bookmarks = bookmarks;
        self
    }

    /// Sets the time after which the server ends the watch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl WriteOptions {
    /// Leaves every option to the server's default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field manager: the recorded owner of the written fields.
    pub fn field_manager(mut self, manager: impl Into<String>) -> Self {
        self.field_manager = Some(manager.into());
        self
    }

    /// Sets whether the server checks the request and stores nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets how the server treats unknown fields.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Sets whether an apply takes fields over from other managers.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }
}

impl DeleteOptions {
    /// Leaves every option to the server's default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes only the object with this uid.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Deletes only the object at this version.
    pub fn resource_version(mut self, version: ResourceVersion) -> Self {
        self.resource_version = Some(version);
        self
    }

    /// Sets what happens to the objects that the deleted object owns.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    /// Sets the time that a Pod may take to end.
    pub fn grace_period(mut self, grace_period: Duration) -> Self {
        self.grace_period = Some(grace_period);
        self
    }

    /// Sets whether the server checks the request and deletes nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Returns the `DeleteOptions` of `meta/v1`: the body of a delete, and a part of the body of an eviction.
    pub fn to_json(&self) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = match propagation {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            }
            .into();
        }
        if let Some(grace) = self.grace_period {
            body["gracePeriodSeconds"] = grace.as_secs().into();
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        body
    }
}
