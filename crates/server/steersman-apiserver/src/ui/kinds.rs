//! Machine: lists the served kinds with the number of their objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use steersman_registry::Registry;
use steersman_schema::resource::Resource;

/// The served kinds, each once, in the version in which its objects are stored.
#[derive(Debug, Serialize)]
pub(crate) struct KindsView {
    /// The number of objects of all kinds.
    pub(crate) objects: usize,
    pub(crate) kinds: Vec<KindRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindRow {
    /// The plural and the group, such as `deployments.apps`.
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) namespaced: bool,
    pub(crate) built_in: bool,
    pub(crate) objects: usize,
    /// The revision of the last retained change of an object of the kind.
    pub(crate) last_change: Option<u64>,
}

/// Lists the kinds: custom ones first, then those with objects, by name.
pub(crate) fn kinds(registry: &Registry) -> KindsView {
    let store = registry.store();
    let row = |resource: &Arc<Resource>| {
        let mut changes = store.latest_changes(&resource.storage);
        KindRow {
            resource: name_of(resource),
            kind: resource.kind.clone(),
            api_version: resource.api_version(),
            namespaced: resource.namespaced,
            built_in: resource.built_in,
            objects: store.count(&resource.storage),
            last_change: changes.next().map(|change| change.revision),
        }
    };
    let mut kinds: Vec<KindRow> = stored(registry).map(row).collect();
    kinds.sort_by_cached_key(|row| (row.built_in, row.objects == 0, row.resource.clone()));
    let objects = kinds.iter().map(|row| row.objects).sum();
    KindsView { objects, kinds }
}

/// Returns the resources with stored objects, one for each storage: Events, for instance, are served in two groups.
pub(crate) fn stored(registry: &Registry) -> impl Iterator<Item = &Arc<Resource>> {
    let mut seen = BTreeSet::new();
    let resources = registry.resources().iter();
    let stored =
        resources.filter(|one| one.version == one.storage_version && one.verbs.contains(&"list"));
    stored.filter(move |one| seen.insert(one.storage.clone()))
}

/// Returns the resource with this plural and group, such as `deployments.apps`, as [`stored`] lists it.
pub(crate) fn find(registry: &Registry, name: &str) -> Option<Arc<Resource>> {
    let mut served = registry.resources().iter();
    let named = served.find(|one| name_of(one) == name)?;
    let mut all = stored(registry);
    all.find(|one| one.storage == named.storage).cloned()
}

/// Returns the plural and the group of a resource; the plural alone for the core group.
pub(crate) fn name_of(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}
