//! Machine: a watch as a position in the log of revisions, and the events of each change.

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

/// The position of a watch. [`Registry::watch`] creates it, [`Registry::poll`] moves it.
#[derive(Debug, Clone)]
#[must_use = "a watch says nothing until it is polled"]
pub struct WatchCursor {
    resource: Arc<Resource>,
    namespace: Option<String>,
    selection: Selectors,
    /// Every change up to this revision was returned.
    position: u64,
    /// The initial objects that were not returned yet.
    initial: VecDeque<Arc<Stored>>,
    /// Whether the bookmark after the initial objects is still to be returned.
    end_of_initial: bool,
    over: bool,
    /// The version of the catalogue in which the edition of the watched resource was last found to be served.
    catalogue: u64,
    /// The error of a watch that starts before the last compaction or in the future.
    misplaced: Option<Box<Status>>,
}

impl WatchCursor {
    /// Returns the storage that this watch reads.
    pub fn storage(&self) -> &StorageKey {
        &self.resource.storage
    }

    /// Returns whether no event will follow, because an `ERROR` was returned or the definition of the watched resource
    /// has changed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns whether the watch begins with the objects of a revision that the store has not reached. Its only event
    /// will be an `ERROR`.
    pub fn is_ahead(&self) -> bool {
        let misplaced = self.misplaced.as_ref();
        misplaced.is_some_and(|status| status.is_too_large_resource_version())
    }

    /// Returns the watched resource, in the requested version.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Returns the revision up to which every change was returned.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Registry {
    /// Opens a watch of one namespace, or of all namespaces if `namespace` is `None`.
    ///
    /// A start that was compacted, and a future start with initial objects, are no errors here: the first poll returns
    /// an `ERROR` event, as kube-apiserver does after its 200 (`cacher.go`: `newErrWatcher`). A watch without initial
    /// objects may wait for a future start.
    ///
    /// # Errors
    /// 400, 422 or 500 for invalid parameters.
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
            // Upstream's cache of a kind starts anew with each edition of the kind's definition.
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

    /// Returns the events since the last poll, at most `max`. Call it until the result is empty, then wait until the
    /// storage of the cursor changes. After an `ERROR` the result is always empty.
    ///
    /// Events come in the order of their revisions, each change once (SRV-WATCH-1).
    pub fn poll(&self, cursor: &mut WatchCursor, max: usize) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        if cursor.over {
            return events;
        }
        // A poll that stops for a webhook must not move the cursor.
        let before = cursor.resource.conversion.is_some().then(|| cursor.clone());
        let end = self.end_of_edition(cursor);
        if let Err(status) = self.look(cursor, end, max, &mut events) {
            if self.is_waiting() {
                *cursor = before.unwrap_or_else(|| cursor.clone());
                return Vec::new();
            }
            cursor.over = true;
            // The objects of an earlier edition may have no working conversion any more; the client lists again anyway.
            if end.is_none() {
                events.push(WatchEvent::Error(Box::new(status)));
            }
        }
        events
    }

    /// Returns the revision at which the watched edition of a definition ended; `None` if it is served.
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

    /// Collects up to `max` ready events. A watch of an edition that ended is over with its last event (SRV-WATCH-4).
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
            // WAL-1: the change is not in the write-ahead log yet; the watch is woken again once it is.
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
        // WAL-1: the watch is over only once the log holds the change that ended the edition.
        cursor.over = end <= self.visible_revision();
        cursor.position = cursor.position.max(self.visible_revision());
        Ok(())
    }

    /// Returns a bookmark at the newest revision, if every change up to that revision was returned, and if the watch
    /// does not wait for a later start. The driver's timer calls this for clients that allow bookmarks.
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

    /// Filters one change by the cursor's selectors. An object that begins to match is an addition; one that stops
    /// matching is a deletion with its last matching state and the revision of the change.
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
