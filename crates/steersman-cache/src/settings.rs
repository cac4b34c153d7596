//! Words: what of a kind's objects is cached, and how; said for all kinds, one kind, or one namespace.

use std::time::Duration;

use steersman_informer::Transform;

/// What of the objects is cached, and how: the part of the options that can be said of all kinds
/// ([`CacheOptions::defaults`](crate::CacheOptions::defaults)), of a default namespace, of one kind
/// ([`ByObject::settings`](crate::ByObject::settings)), and of one kind in one namespace.
///
/// Each setting is taken from where it is said most closely: the namespace of the kind, the kind, the
/// default namespace, the defaults. What opts out ([`all_labels`](Self::all_labels),
/// [`all_fields`](Self::all_fields), [`Transform::identity`], [`no_resync`](Self::no_resync)) is said
/// too, and so beats a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) transform: Option<Transform>,
    pub(crate) bookmarks: Option<bool>,
    pub(crate) resync: Option<Duration>,
    pub(crate) keep_managed_fields: Option<bool>,
}

impl Settings {
    /// Says nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects with these labels, in the syntax of `kubectl -l` or as a
    /// [`LabelSelector`](steersman_object::LabelSelector). The server filters.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Whatever the labels.
    pub fn all_labels(self) -> Self {
        self.labels("")
    }

    /// Only objects with these fields, such as `spec.nodeName=node-1`, or a
    /// [`FieldSelector`](steersman_object::FieldSelector). The server filters.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Whatever the fields.
    pub fn all_fields(self) -> Self {
        self.fields("")
    }

    /// Changes each object before anybody sees it.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Whether watches ask for bookmarks, which keep their position fresh where nothing happens. On by
    /// default. Without them lists are not streamed either.
    pub fn bookmarks(mut self, on: bool) -> Self {
        self.bookmarks = Some(on);
        self
    }

    /// Repeats every object to the subscribers as an update to itself, this often; each informer a
    /// little earlier or later (by up to a tenth), so that not all do at once. Never by default.
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// Repeats nothing.
    pub fn no_resync(self) -> Self {
        self.resync(Duration::ZERO)
    }

    /// Whether objects keep their `managedFields`. Not by default: they are half of an object's size,
    /// and hardly ever read.
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.keep_managed_fields = Some(keep);
        self
    }

    /// What is said here, and of the rest what is said there.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        self.labels = self.labels.or_else(|| other.labels.clone());
        self.fields = self.fields.or_else(|| other.fields.clone());
        self.transform = self.transform.or_else(|| other.transform.clone());
        self.bookmarks = self.bookmarks.or(other.bookmarks);
        self.resync = self.resync.or(other.resync);
        self.keep_managed_fields = self.keep_managed_fields.or(other.keep_managed_fields);
        self
    }

    /// The label selector to send, if there is one.
    pub(crate) fn sent_labels(&self) -> Option<&str> {
        self.labels.as_deref().filter(|text| !text.is_empty())
    }

    /// The field selector to send, if there is one.
    pub(crate) fn sent_fields(&self) -> Option<&str> {
        self.fields.as_deref().filter(|text| !text.is_empty())
    }

    /// The transform, if there is one that may change something.
    pub(crate) fn changing(&self) -> Option<&Transform> {
        self.transform.as_ref().filter(|t| !t.is_identity())
    }

    /// The selectors that may hide an object, as text.
    pub(crate) fn scoped_by(&self) -> Option<String> {
        let labels = self.sent_labels().map(|l| format!("labels {l:?}"));
        let fields = self.sent_fields().map(|f| format!("fields {f:?}"));
        let parts: Vec<String> = labels.into_iter().chain(fields).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}
