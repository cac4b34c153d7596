//! Machine: lists revisions of objects with their differences and the requests that made them.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use steersman_apimachinery::secret_values;
use steersman_registry::Registry;
use steersman_schema::resource::Resource;
use steersman_store::{Change, Stored};

use super::field_changes::{FieldChange, field_changes};
use super::field_owners::writers;
use super::form::Form;
use super::kinds;
use crate::faults::RequestRecord;

/// The number of revisions on a page.
pub(crate) const PAGE: usize = 25;

/// Revisions, the newest first.
#[derive(Debug, Serialize)]
pub(crate) struct RevisionsView {
    pub(crate) filter: RevisionFilter,
    pub(crate) revisions: Vec<RevisionView>,
    /// The `before` of the next page; `None` on the last page.
    pub(crate) next: Option<u64>,
    /// The oldest revision that the server retains.
    pub(crate) oldest: u64,
}

/// Which revisions a page shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RevisionFilter {
    /// The plural and the group of the kind; empty for all kinds.
    pub(crate) resource: String,
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    /// A part of the name of the object; empty for all names.
    pub(crate) name: String,
    /// Only revisions before this one.
    pub(crate) before: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RevisionView {
    pub(crate) revision: u64,
    pub(crate) change: RevisionChange,
    /// The plural and the group of the kind.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The server's wall time of the change; `None` if it was before the page was served.
    #[serde(serialize_with = "as_text")]
    pub(crate) at: Option<Timestamp>,
    pub(crate) by: RevisionBy,
    /// The field managers that wrote the revision, by managedFields. They also name the controllers that the server plays.
    pub(crate) managers: Vec<String>,
    pub(crate) fields: Vec<FieldChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RevisionChange {
    Created,
    Changed,
    Deleted,
}

/// What made a revision.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum RevisionBy {
    /// A request in the log.
    Request {
        sequence: u64,
        verb: String,
        subresource: String,
        user: String,
        user_agent: String,
    },
    /// A request that the log has dropped.
    ForgottenRequest { sequence: u64 },
    /// A controller that the server plays, or a method call in its process.
    Server,
    /// The revision is older than the record.
    Unknown,
}

/// A change in the log of the store, and the resource that it is of.
#[derive(Debug)]
pub(crate) struct LoggedChange {
    resource: Arc<Resource>,
    change: Change,
}

impl RevisionFilter {
    pub(crate) fn of(form: &Form) -> Self {
        Self {
            resource: form.text("resource"),
            namespace: form.text("namespace"),
            name: form.text("name"),
            before: form.number("before"),
        }
    }

    fn fits(&self, change: &Change) -> bool {
        self.before.is_none_or(|before| change.revision < before)
            && (self.namespace.is_empty() || *change.new.namespace == *self.namespace)
            && change.new.name.contains(self.name.as_str())
    }
}

/// Returns the newest changes that fit, the newest first, at most one more than a page has. The caller holds the
/// registry's lock, so the differences are found later, by [`RevisionView::of`].
pub(crate) fn collect(registry: &Registry, filter: &RevisionFilter) -> Vec<LoggedChange> {
    let fits = |change: &Change| filter.fits(change);
    newest(registry, &filter.resource, fits)
}

/// Returns the newest changes of one object, at most one more than a page has.
pub(crate) fn of_object(
    registry: &Registry,
    resource: &Resource,
    (namespace, name): (&str, &str),
    before: Option<u64>,
) -> Vec<LoggedChange> {
    newest(registry, &kinds::name_of(resource), |change| {
        *change.new.namespace == *namespace
            && *change.new.name == *name
            && before.is_none_or(|before| change.revision < before)
    })
}

/// Returns the changes with these revisions.
pub(crate) fn with_revisions(registry: &Registry, revisions: &[u64]) -> Vec<LoggedChange> {
    newest(registry, "", |change| revisions.contains(&change.revision))
}

fn newest(
    registry: &Registry,
    resource: &str,
    fits: impl Fn(&Change) -> bool,
) -> Vec<LoggedChange> {
    let mut found = Vec::new();
    let all = kinds::stored(registry);
    for kind in all.filter(|one| resource.is_empty() || kinds::name_of(one) == resource) {
        let changes = registry.store().latest_changes(&kind.storage);
        let fitting = changes.filter(|change| fits(change)).take(PAGE + 1);
        found.extend(fitting.map(|change| LoggedChange {
            resource: Arc::clone(kind),
            change: change.clone(),
        }));
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.change.revision));
    found.truncate(PAGE + 1);
    found
}

impl LoggedChange {
    pub(crate) fn revision(&self) -> u64 {
        self.change.revision
    }
}

impl RevisionView {
    /// Finds the difference of a change. The values of Secrets are hidden before, so that the difference has none.
    pub(crate) fn of(logged: &LoggedChange, at: Option<Timestamp>, by: RevisionBy) -> Self {
        let LoggedChange { resource, change } = logged;
        let hidden = |one: &Stored| secret_values::hide(&one.look(), &resource.kind);
        let old = change.old.as_deref().map(hidden);
        let (kind, fields) = match (&old, change.deleted) {
            // The last state is that of the revision before.
            (_, true) => (RevisionChange::Deleted, Vec::new()),
            (None, false) => {
                let new = hidden(&change.new);
                (RevisionChange::Created, field_changes(None, Some(&new)))
            }
            (Some(old), false) => {
                let new = hidden(&change.new);
                (
                    RevisionChange::Changed,
                    field_changes(Some(old), Some(&new)),
                )
            }
        };
        let old_managed = change.old.as_deref().map(managed).unwrap_or_default();
        Self {
            revision: change.revision,
            change: kind,
            resource: kinds::name_of(resource),
            namespace: change.new.namespace.to_string(),
            name: change.new.name.to_string(),
            at,
            by,
            managers: writers(&old_managed, &managed(&change.new)),
            fields,
        }
    }
}

impl RevisionBy {
    pub(crate) fn request(record: &RequestRecord) -> Self {
        Self::Request {
            sequence: record.sequence,
            verb: record
                .verb
                .map_or_else(|| record.method.clone(), |verb| verb.to_string()),
            subresource: record.subresource.clone().unwrap_or_default(),
            user: record.user.clone(),
            user_agent: record.user_agent.clone(),
        }
    }
}

impl RevisionChange {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// Returns the managedFields of an object; null for one without any.
pub(crate) fn managed(one: &Stored) -> Value {
    let managed = one.managed().map(serde_json::from_str);
    managed.and_then(Result::ok).unwrap_or_default()
}

fn as_text<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}
