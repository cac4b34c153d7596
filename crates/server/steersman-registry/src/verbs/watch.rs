//! Machine: the watch verb: opens a watch at a revision of the store, and turns later changes into its events.

use std::collections::VecDeque;
use std::sync::Arc;

use steersman_apimachinery::go;
use steersman_apimachinery::status::{FieldError, Status};
use steersman_schema::resource::{Resource, StorageKey};
use steersman_store::{Change, Stored};

use super::read::parse_version;
use crate::requests::intake::refuse_options;
use crate::requests::options::{ListQuery, WatchEvent};
use crate::requests::select::Selectors;
use crate::state::registry::Registry;

/// The selection and the position of one open watch. [`Registry::watch`] creates the cursor, and [`Registry::poll`]
/// returns events and moves the cursor to newer revisions.
#[derive(Debug, Clone)]
#[must_use = "a watch says nothing until it is polled"]
pub struct WatchCursor {
    resource: Arc<Resource>,
    namespace: Option<String>,
    selection: Selectors,
    /// The revision up to which [`Registry::poll`] has returned all changes.
    position: u64,
    /// The objects that existed when the watch was opened, for which no `ADDED` event was returned yet.
    initial: VecDeque<Arc<Stored>>,
    /// Whether the bookmark after the initial objects is still to be returned.
    end_of_initial: bool,
    over: bool,
    /// The version of the catalogue at the last check that the CRD of the watched resource is unchanged. The check is
    /// skipped while the catalogue has this version.
    catalogue: u64,
    /// The error that the first poll returns, because the watch starts at a compacted or at a future revision.
    misplaced: Option<Box<Status>>,
}

impl WatchCursor {
    /// Returns the storage that the watch reads. After each change in this storage, [`Registry::poll`] must be called.
    pub fn storage(&self) -> &StorageKey {
        &self.resource.storage
    }

    /// Returns whether the watch has ended: it has returned an `ERROR`, or the CRD of its resource has changed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns whether the watch asks for initial objects at a future revision. Its only event will be an `ERROR`.
    pub fn is_ahead(&self) -> bool {
        let misplaced = self.misplaced.as_ref();
        misplaced.is_some_and(|status| status.is_too_large_resource_version())
    }

    /// Returns the watched resource, in the requested version.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Returns the revision up to which [`Registry::poll`] has returned all changes.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Registry {
    /// Opens a watch of one namespace, or of all namespaces if `namespace` is `None`.
    ///
    /// A start at a compacted revision, or at a future one with initial objects, does not fail here: the first poll
    /// returns an `ERROR` event, as kube-apiserver does after its 200 (`cacher.go`: `newErrWatcher`). Without initial
    /// objects, a watch may start at a future revision, and waits for it.
    ///
    /// # Errors
    /// 400, 422 or 500 for invalid query parameters.
    pub fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListQuery,
    ) -> Result<WatchCursor, Status> {
        let selection = Selectors::parse(options)?;
        check_options(options)?;
        let selection = selection.of(resource, options.shard_selector.as_deref())?;
        let version = options.resource_version.as_deref().unwrap_or_default();
        let from = parse_version(version).map_err(Status::internal_plain)?;
        let now = self.store.revision();
        let with_initial = options.send_initial_events.unwrap_or(from == 0);
        let misplaced = if with_initial {
            (from > now).then(|| Status::too_large_resource_version(from, now))
        } else {
            // Upstream starts an empty cache at each change of a CRD's spec or accepted names (a new edition), so a
            // watch cannot start before this change.
            let begins = self.forgotten.max(resource.edition);
            let forgotten = from > 0 && from < begins;
            forgotten.then(|| Status::too_old(from, begins.max(self.store.compacted())))
        };
        let namespace = namespace.filter(|_| resource.namespaced).map(str::to_owned);
        let initial = if with_initial {
            let all = self.store.list(&resource.storage, namespace.as_deref());
            let selected = all.filter(|stored| selection.matches(stored));
            selected.cloned().collect()
        } else {
            VecDeque::new()
        };
        let own = self.resource(&resource.group, &resource.version, &resource.plural);
        let catalogue = own.as_ref().map_or(0, |_| self.catalogue_version());
        Ok(WatchCursor {
            resource: own.unwrap_or_else(|| Arc::new(resource.clone())),
            namespace,
            selection,
            position: if with_initial || from == 0 { now } else { from },
            initial,
            end_of_initial: with_initial && options.allow_bookmarks,
            over: false,
            catalogue,
            misplaced: misplaced.map(Box::new),
        })
    }

    /// Returns the next events, at most `max`. Poll until the result is empty, then wait until [`WatchCursor::storage`]
    /// changes. After an `ERROR` the result is always empty.
    ///
    /// Events come in the order of their revisions, each change once (SRV-WATCH-1).
    pub fn poll(&self, cursor: &mut WatchCursor, max: usize) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        if cursor.over {
            return events;
        }
        // If the poll stops for a conversion webhook, the cursor is set back to return these events in the next poll.
        let before = cursor.resource.conversion.is_some().then(|| cursor.clone());
        let end = self.end_of_edition(cursor);
        if let Err(status) = self.look(cursor, end, max, &mut events) {
            if self.is_waiting() {
                *cursor = before.unwrap_or_else(|| cursor.clone());
                return Vec::new();
            }
            cursor.over = true;
            // After a change of the CRD, an object may have no working conversion. That is no error for the client,
            // because the watch ends anyway, and the client lists again.
            if end.is_none() {
                events.push(WatchEvent::Error(Box::new(status)));
            }
        }
        events
    }

    /// Returns the revision at which the CRD of the watched resource changed; `None` if the CRD has not changed since
    /// the start of the watch, and for built-in kinds.
    fn end_of_edition(&self, cursor: &mut WatchCursor) -> Option<u64> {
        if cursor.catalogue == self.catalogue_version() {
            return None;
        }
        let end = self.catalogue.end_of_edition(&cursor.resource);
        if end.is_none() {
            cursor.catalogue = self.catalogue_version();
        }
        end
    }

    /// Appends events until there are `max`. If the CRD changed at the revision `end`, ends the watch after the last
    /// event up to this revision (SRV-WATCH-4).
    fn look(
        &self,
        cursor: &mut WatchCursor,
        end: Option<u64>,
        max: usize,
        events: &mut Vec<WatchEvent>,
    ) -> Result<(), Status> {
        if let Some(status) = cursor.misplaced.take() {
            return Err(*status);
        }
        let count = max.min(cursor.initial.len());
        let initial: Vec<_> = cursor.initial.drain(..count).collect();
        let initial = self.present_all(&cursor.resource, &initial)?;
        events.extend(initial.into_iter().map(WatchEvent::Added));
        if events.len() >= max {
            return Ok(());
        }
        if cursor.end_of_initial {
            cursor.end_of_initial = false;
            let revision = cursor.position;
            events.push(WatchEvent::Bookmark {
                revision,
                initial_events_end: true,
            });
        }
        let end = end.unwrap_or(u64::MAX);
        for change in self.changes(cursor)? {
            if change.revision > end {
                break;
            }
            // The write-ahead log does not hold this change yet. When it does, the watch is woken again (WAL-1).
            if change.revision > self.visible {
                return Ok(());
            }
            if events.len() >= max {
                return Ok(());
            }
            let seen = self.see(cursor, change)?;
            cursor.position = change.revision;
            events.extend(seen);
        }
        // Ends the watch only after the write-ahead log holds the change of the CRD (WAL-1).
        cursor.over = end <= self.visible_revision();
        cursor.position = cursor.position.max(self.visible_revision());
        Ok(())
    }

    /// Returns a bookmark at the newest revision; `None` if the watch has events to return, has ended, or waits for a
    /// future start. A driver calls this from time to time for clients that allow bookmarks.
    pub fn bookmark(&self, cursor: &mut WatchCursor) -> Option<WatchEvent> {
        let pending = !cursor.initial.is_empty()
            || cursor.end_of_initial
            || cursor.over
            || cursor.misplaced.is_some()
            || cursor.position > self.store.revision()
            || self.end_of_edition(cursor).is_some();
        if pending {
            return None;
        }
        let mut changes = self.changes(cursor).ok()?;
        if changes.any(|change| concerns(cursor, change)) {
            return None;
        }
        cursor.position = cursor.position.max(self.visible_revision());
        Some(WatchEvent::Bookmark {
            revision: cursor.position,
            initial_events_end: false,
        })
    }

    fn changes<'a>(
        &'a self,
        cursor: &WatchCursor,
    ) -> Result<impl Iterator<Item = &'a Change> + use<'a>, Status> {
        let changes = self.store.changes(cursor.storage(), cursor.position);
        changes.map_err(|_| Status::too_old(cursor.position, self.store.compacted()))
    }

    /// Returns the event of a watch for one change: `Added` if the selectors begin to match the object, `Deleted` with
    /// the last matching state if they no longer match it, and `None` if they match neither before nor after.
    fn see(&self, cursor: &WatchCursor, change: &Change) -> Result<Option<WatchEvent>, Status> {
        if !concerns(cursor, change) {
            return Ok(None);
        }
        let before = change.old.as_ref();
        let before = before.filter(|old| cursor.selection.matches(old));
        let after = !change.deleted && cursor.selection.matches(&change.new);
        let show = |stored: &Arc<Stored>| self.present(&cursor.resource, stored);
        Ok(match (before, after) {
            (None, false) => None,
            (None, true) => Some(WatchEvent::Added(show(&change.new)?)),
            (Some(_), true) => Some(WatchEvent::Modified(show(&change.new)?)),
            (Some(_), false) if change.deleted => Some(WatchEvent::Deleted(show(&change.new)?)),
            (Some(old), false) => {
                let last = Arc::new(old.restamped(change.revision));
                Some(WatchEvent::Deleted(show(&last)?))
            }
        })
    }
}

fn concerns(cursor: &WatchCursor, change: &Change) -> bool {
    let namespace = cursor.namespace.as_deref();
    namespace.is_none_or(|namespace| *change.new.namespace == *namespace)
}

fn check_options(options: &ListQuery) -> Result<(), Status> {
    const FIELD: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    let wanted = options.resource_version_match.as_deref();
    let wanted = wanted.unwrap_or_default();
    if options.send_initial_events.is_some() && wanted != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(FIELD, detail));
    }
    if !wanted.is_empty() {
        if options.send_initial_events.is_none() {
            let detail =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if wanted != "NotOlderThan" {
            let wanted = go::quote(wanted);
            let supported = ["\"NotOlderThan\"".to_owned()];
            errors.push(FieldError::not_supported(FIELD, &wanted, &supported));
        }
    }
    let token = options.continue_token.as_deref();
    if token.is_some_and(|token| !token.is_empty()) {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(FIELD, detail));
    }
    refuse_options("ListOptions", &errors)
}
