//! Words: the settings of an informer, set for all kinds, one kind, or one namespace.

use std::time::Duration;

use steersman_informer::{Budget, InformerOptions, Transform};

/// Settings that select, transform and index the cached objects. They apply to all kinds
/// ([`CacheOptions::defaults`](crate::CacheOptions::defaults)), a default namespace, one kind
/// ([`ByObject::settings`](crate::ByObject::settings)), or one namespace of one kind.
///
/// For each setting the most specific value applies: of the kind's namespace, the kind, the default namespace, or the
/// defaults. An opt-out ([`all_labels`](Self::all_labels), [`all_fields`](Self::all_fields), [`Transform::identity`],
/// [`no_resync`](Self::no_resync)) is a value, too, so it overrides a default.
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
    /// The informer's own budget in bytes; the inner `None` means no limit.
    pub(crate) decoded_budget: Option<Option<usize>>,
    pub(crate) decode_batches: Option<(usize, usize)>,
    pub(crate) indexed_labels: Option<Vec<String>>,
}

impl Settings {
    /// Creates settings without any value: each setting is inherited, or has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Caches only objects with these labels, in the syntax of `kubectl -l` or as a
    /// [`LabelSelector`](steersman_object::LabelSelector). The server filters.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Caches objects with any labels.
    pub fn all_labels(self) -> Self {
        self.labels("")
    }

    /// Caches only objects with these fields, such as `spec.nodeName=node-1`, or a
    /// [`FieldSelector`](steersman_object::FieldSelector). The server filters.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Caches objects with any fields.
    pub fn all_fields(self) -> Self {
        self.fields("")
    }

    /// Sets a function that changes each object before the cache stores it.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets whether watches request bookmarks. With bookmarks a watch can resume at a recent version even if no object
    /// has changed; without bookmarks lists are not streamed. Default: true.
    pub fn bookmarks(mut self, on: bool) -> Self {
        self.bookmarks = Some(on);
        self
    }

    /// Sets the interval at which subscribers receive every object again as an update; at least 1
    /// second. Each informer shortens or lengthens the interval by up to a tenth, so that informers
    /// do not resync at the same time. Default: never.
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// Disables resyncs.
    pub fn no_resync(self) -> Self {
        self.resync(Duration::ZERO)
    }

    /// Sets whether objects keep their `managedFields`. Default: false, because they are about half
    /// of an object's size and rarely read.
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.keep_managed_fields = Some(keep);
        self
    }

    /// Sets the number of objects per page of a list that is not streamed; 0 requests all objects
    /// at once. Default: 500.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Sets the number of changes per informer that may wait to be stored; a full queue stops
    /// reading from the connection. At least 1. Default: 1024.
    pub fn queue_bound(mut self, changes: usize) -> Self {
        self.queue_bound = Some(changes);
        self
    }

    /// Sets the same limit as [`queue_bound`](Self::queue_bound) in bytes of JSON; a larger change,
    /// such as a whole list, waits alone. Default: 16 MiB.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = Some(bytes);
        self
    }

    /// Sets the number of events that may wait for one subscriber, such as a controller. Beyond this number, the events
    /// of one object are coalesced into one, from the last state that the subscriber took to the current state.
    /// Default: 1024.
    pub fn mailbox_bound(mut self, events: usize) -> Self {
        self.mailbox_bound = Some(events);
        self
    }

    /// Sets the informer's own budget of decoded objects in bytes, separate from [that of the
    /// cache](crate::CacheOptions::decoded_budget). With 0 no decoded object is kept; with `None` there is no limit.
    /// Default: the informer shares the budget of the cache.
    pub fn decoded_budget(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.decoded_budget = Some(bytes.into());
        self
    }

    /// Sets that the objects of a list are decoded in batches of `bytes` of JSON, `batches` of them at once (0 decodes
    /// each object as it is read), for tests that must not depend on the runtime's threads. Default: batches of 64 KiB,
    /// as many at once as the runtime has threads, at most four.
    pub fn decode_batches(mut self, batches: usize, bytes: usize) -> Self {
        self.decode_batches = Some((batches, bytes));
        self
    }

    /// Indexes the values of these labels, each under the label's name, for reads as any type. The cost of a list under
    /// a label selector that requires a value of an indexed label is proportional to the number of objects with that
    /// value; other selectors examine every object. Default: no label.
    ///
    /// [`Reads::for_each`](crate::Reads::for_each) and [`Reads::keys`](crate::Reads::keys) examine every object
    /// regardless, unless the kind was read as their type before.
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.indexed_labels = Some(labels.into_iter().map(Into::into).collect());
        self
    }

    /// Returns these settings, with unset values from `other`.
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
        self.decode_batches = self.decode_batches.or(other.decode_batches);
        let labels = self.indexed_labels;
        self.indexed_labels = labels.or_else(|| other.indexed_labels.clone());
        self
    }

    /// Returns the options of an informer with these settings.
    pub(crate) fn applied_to(&self, options: InformerOptions) -> InformerOptions {
        use InformerOptions as Options;
        let budget = self.decoded_budget.map(Budget::new);
        let batches = self.decode_batches;
        let options = options.bookmarks(self.bookmarks.unwrap_or(true));
        let options = with(options, self.sent_labels(), Options::labels);
        let options = with(options, self.sent_fields(), Options::fields);
        let options = with(options, self.changing().cloned(), Options::transform);
        let options = with(options, self.resync, Options::resync);
        let options = with(options, self.page_size, Options::page_size);
        let options = with(options, self.queue_bound, Options::queue_bound);
        let options = with(options, self.queue_bytes, Options::queue_bytes);
        let options = with(options, self.mailbox_bound, Options::mailbox_bound);
        let options = with(options, budget, Options::budget);
        let options = with(options, batches, |options, (batches, bytes)| {
            options.decode_batches(batches, bytes)
        });
        with(options, self.indexed_labels.as_ref(), Options::index_labels)
    }

    pub(crate) fn sent_labels(&self) -> Option<&str> {
        self.labels.as_deref().filter(|text| !text.is_empty())
    }

    pub(crate) fn sent_fields(&self) -> Option<&str> {
        self.fields.as_deref().filter(|text| !text.is_empty())
    }

    pub(crate) fn changing(&self) -> Option<&Transform> {
        self.transform.as_ref().filter(|t| !t.is_identity())
    }

    /// Returns whether objects keep their `managedFields`.
    pub(crate) fn keeps_managed_fields(&self) -> bool {
        self.keep_managed_fields == Some(true)
    }

    pub(crate) fn scoped_by(&self) -> Option<String> {
        let labels = self.sent_labels().map(|l| format!("labels {l:?}"));
        let fields = self.sent_fields().map(|f| format!("fields {f:?}"));
        let parts: Vec<String> = labels.into_iter().chain(fields).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

/// Returns the options with `value` set by `set`; without a value the options stay as they are.
fn with<T>(
    options: InformerOptions,
    value: Option<T>,
    set: impl FnOnce(InformerOptions, T) -> InformerOptions,
) -> InformerOptions {
    match value {
        Some(value) => set(options, value),
        None => options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_bounds_keep_the_defaults_of_the_informer() {
        let bounds = |o: &InformerOptions| {
            (
                o.page_size,
                o.queue_bound,
                o.queue_bytes,
                o.mailbox_bound,
                o.resync,
                o.budget.limit(),
                o.decode_batches
                    .map(|batches| (batches.batches, batches.bytes)),
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
            .decode_batches(6, 7)
            .resync(every);
        let said = close.or(&default).applied_to(InformerOptions::new());
        let set = (1, 2, 3, 4, Some(every), Some(5), Some((6, 7)));
        assert_eq!(bounds(&said), set);
    }
}
