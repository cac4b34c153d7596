//! The states of the server at each revision, the writes of each key, and the states that its reads may show.

use std::collections::BTreeMap;

use kube_core::DynamicObject;
use serde_json::Value;
use steersman_object::{Object as _, ObjectKey};

use super::plan::Selection;

/// The version of an object in a cache with the selectors; `None` if the cache does not hold it.
type Shown = Option<u64>;

pub(super) struct Ledger {
    scope: Selection,
    /// The expected state of each object in the cache, by the revision at which it begins.
    history: BTreeMap<String, Vec<(u64, Shown)>>,
    /// The newest write of each key, by object.
    floors: BTreeMap<(usize, String), (ObjectKey, u64)>,
}

impl Ledger {
    pub(super) fn new(scope: Selection) -> Self {
        Self {
            scope,
            history: BTreeMap::new(),
            floors: BTreeMap::new(),
        }
    }

    /// Records the state of the server at a revision.
    pub(super) fn look(&mut self, revision: u64, objects: &[Value]) {
        let mut now = BTreeMap::new();
        for object in objects.iter().filter(|object| self.scope.selects(object)) {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap();
            let key = ObjectKey::namespaced(text("namespace"), text("name"));
            now.insert(key.to_string(), text("resourceVersion").parse().unwrap());
        }
        for key in now.keys() {
            self.history
                .entry(key.clone())
                .or_insert_with(|| vec![(0, None)]);
        }
        for (key, states) in &mut self.history {
            let shown = now.get(key).copied();
            if states.last().is_none_or(|(_, last)| *last != shown) {
                states.push((revision, shown));
            }
        }
    }

    /// Records the version at which a key wrote an object, or by which it deleted the object.
    pub(super) fn wrote(&mut self, writer: usize, key: &ObjectKey, version: u64) {
        let floor = self.floors.entry((writer, key.to_string()));
        let (_, floor) = floor.or_insert_with(|| (key.clone(), 0));
        *floor = version.max(*floor);
    }

    /// Returns the first revision that reads of a key may show of an object.
    pub(super) fn floor(&self, writer: usize, key: &ObjectKey) -> u64 {
        let floor = self.floors.get(&(writer, key.to_string()));
        floor.map_or(0, |(_, floor)| *floor)
    }

    /// Returns the first revisions that a list of a key may show, for all objects of the list.
    pub(super) fn floors(&self, writer: usize, namespace: Option<&str>) -> Vec<(ObjectKey, u64)> {
        let own = self.floors.iter().filter(|((of, _), _)| *of == writer);
        let own = own.map(|(_, floor)| floor.clone());
        let own = own.filter(|(key, _)| {
            let listed = namespace.is_none() || key.namespace() == namespace;
            listed && self.scope.covers(key.namespace().unwrap())
        });
        own.collect()
    }

    /// Checks that a shown state existed at the revision `floor` or later.
    pub(super) fn check(&self, key: &ObjectKey, floor: u64, shown: Option<&DynamicObject>) {
        let shown = shown.map(version);
        let none = vec![(0, None)];
        let states = self.history.get(&key.to_string()).unwrap_or(&none);
        let from = states.iter().rposition(|(revision, _)| *revision <= floor);
        let since = &states[from.unwrap_or(0)..];
        assert!(
            since.iter().any(|(_, state)| *state == shown),
            "{key}: shown {shown:?}, written at {floor}: {since:?} of {states:?}"
        );
    }

    /// Checks that a shown state is the current one.
    pub(super) fn is_now(&self, key: &ObjectKey, shown: Option<&DynamicObject>) {
        let states = self.history.get(&key.to_string());
        let now = states.and_then(|states| states.last()?.1);
        assert_eq!(shown.map(version), now, "{key}");
    }
}

fn version(object: &DynamicObject) -> u64 {
    object.stored_version().as_str().parse().unwrap()
}
