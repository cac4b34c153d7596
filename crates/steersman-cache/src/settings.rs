//! Words: what of a kind's objects is cached, and how; said for all kinds, one kind, or one namespace.

use std::time::Duration;

use steersman_informer::{Budget, InformerOptions, Transform};

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
    pub(crate) page_size: Option<u32>,
    pub(crate) queue_bound: Option<usize>,
    pub(crate) queue_bytes: Option<usize>,
    pub(crate) mailbox_bound: Option<usize>,
    /// None of it, where all is kept.
    pub(crate) decoded_budget: Option<Option<usize>>,
    pub(crate) indexed_labels: Option<Vec<String>>,
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
    /// little earlier or later (by up to a tenth), so that not all do at once, and each second at
    /// most. Never by default.
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

    /// How many objects a page of a list has, where lists are not streamed; 0 asks for all at once. 500
    /// by default.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// How many changes of each informer may wait to be stored; past that its connection is not read
    /// until there is room. At least 1, and 1024 by default.
    pub fn queue_bound(mut self, changes: usize) -> Self {
        self.queue_bound = Some(changes);
        self
    }

    /// As [`queue_bound`](Self::queue_bound), in bytes of JSON; what is larger by itself, as a whole list may
    /// be, waits alone. 16 MiB by default.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = Some(bytes);
        self
    }

    /// How many events may wait for one subscriber, as a controller is; past that those of one object
    /// become one, from what it last took to what is. 1024 by default.
    pub fn mailbox_bound(mut self, events: usize) -> Self {
        self.mailbox_bound = Some(events);
        self
    }

    /// How many bytes of objects each informer that goes by this keeps decoded for itself, apart from what the
    /// [cache](crate::CacheOptions::decoded_budget) keeps: 0 none, `None` all of them. By default it shares
    /// that of the cache.
    pub fn decoded_budget(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.decoded_budget = Some(bytes.into());
        self
    }

    /// Indexes the values of these labels, each under its name, whatever the objects are read as: a list
    /// under a label selector that wants a value of one of them costs the size of what has it. Other
    /// selectors look at each object. No label by default.
    ///
    /// Passing over a kind ([`Reads::for_each`](crate::Reads::for_each),
    /// [`Reads::keys`](crate::Reads::keys)) that nobody reads as that type looks at each object all the same.
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.indexed_labels = Some(labels.into_iter().map(Into::into).collect());
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
        self.page_size = self.page_size.or(other.page_size);
        self.queue_bound = self.queue_bound.or(other.queue_bound);
        self.queue_bytes = self.queue_bytes.or(other.queue_bytes);
        self.mailbox_bound = self.mailbox_bound.or(other.mailbox_bound);
        self.decoded_budget = self.decoded_budget.or(other.decoded_budget);
        let labels = self.indexed_labels;
        self.indexed_labels = labels.or_else(|| other.indexed_labels.clone());
        self
    }

    /// What an informer does that goes by this; the rest is as it was.
    pub(crate) fn applied_to(&self, mut options: InformerOptions) -> InformerOptions {
        options = options.bookmarks(self.bookmarks.unwrap_or(true));
        if let Some(labels) = self.sent_labels() {
            options = options.labels(labels);
        }
        if let Some(fields) = self.sent_fields() {
            options = options.fields(fields);
        }
        if let Some(transform) = self.changing() {
            options = options.transform(transform.clone());
        }
        if let Some(every) = self.resync {
            options = options.resync(every);
        }
        if let Some(objects) = self.page_size {
            options = options.page_size(objects);
        }
        if let Some(changes) = self.queue_bound {
            options = options.queue_bound(changes);
        }
        if let Some(bytes) = self.queue_bytes {
            options = options.queue_bytes(bytes);
        }
        if let Some(events) = self.mailbox_bound {
            options = options.mailbox_bound(events);
        }
        if let Some(bytes) = self.decoded_budget {
            options = options.budget(Budget::new(bytes));
        }
        if let Some(labels) = &self.indexed_labels {
            options = options.index_labels(labels);
        }
        options
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

    /// Whether objects keep their `managedFields`.
    pub(crate) fn keeps_managed_fields(&self) -> bool {
        self.keep_managed_fields == Some(true)
    }

    /// The selectors that may hide an object, as text.
    pub(crate) fn scoped_by(&self) -> Option<String> {
        let labels = self.sent_labels().map(|l| format!("labels {l:?}"));
        let fields = self.sent_fields().map(|f| format!("fields {f:?}"));
        let parts: Vec<String> = labels.into_iter().chain(fields).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_reach_the_informer_and_are_its_own_where_nobody_says_them() {
        let bounds = |o: &InformerOptions| {
            (
                o.page_size,
                o.queue_bound,
                o.queue_bytes,
                o.mailbox_bound,
                o.resync,
                o.budget.limit(),
            )
        };
        let own = InformerOptions::new();
        let said = Settings::new().applied_to(InformerOptions::new());
        assert_eq!(bounds(&said), bounds(&own));
        let every = Duration::from_secs(30);
        let close = Settings::new().page_size(1).queue_bound(2);
        let default = Settings::new()
            .queue_bound(20)
            .queue_bytes(3)
            .mailbox_bound(4)
            .decoded_budget(5)
            .resync(every);
        let said = close.or(&default).applied_to(InformerOptions::new());
        assert_eq!(bounds(&said), (1, 2, 3, 4, Some(every), Some(5)));
    }
}
