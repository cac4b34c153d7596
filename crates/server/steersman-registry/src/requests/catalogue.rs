//! Machine: the catalogue of the resources that the server serves: finds them by path, storage or kind.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_schema::builtin::{built_in, is_on_by_default};
use steersman_schema::resource::{Resource, StorageKey};

/// The resources that the server serves, one per version. Each change of the resources increases `version` by 1.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) all: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), usize>,
    pub(crate) version: u64,
    /// Whether any resource has a conversion webhook.
    pub(crate) converts: bool,
    /// The revision at which an earlier edition of a CRD ended, by storage and edition. (An edition is a period with
    /// the same spec and accepted names.) Ends that were compacted are forgotten at the next change (SRV-WATCH-5).
    ended: HashMap<(StorageKey, u64), u64>,
}

impl Catalogue {
    /// Creates the catalogue of the built-in kinds that are on by default or for which `is_enabled` is true.
    pub(crate) fn new(is_enabled: impl Fn(&Resource) -> bool) -> Self {
        let served = |one: &Resource| is_on_by_default(one) || is_enabled(one);
        let all = built_in().into_iter().filter(served);
        let mut new = Self {
            all: all.map(Arc::new).collect(),
            ..Self::default()
        };
        new.index();
        new
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.by_path.get(&key).map(|at| &self.all[*at])
    }

    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        let mut all = self.all.iter();
        all.any(|one| one.group == group && one.version == version)
    }

    /// Returns the served resource with this storage, in its preferred version.
    pub(crate) fn of_storage(&self, storage: &StorageKey) -> Option<&Arc<Resource>> {
        let mut all = self.all.iter();
        all.find(|resource| resource.storage == *storage)
    }

    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let mut all = self.all.iter();
        all.find(|known| known.kind == kind && known.api_version() == api_version)
    }

    pub(crate) fn knows_kind(&self, api_version: &str, kind: &str) -> bool {
        if (api_version, kind) == ("v1", "Status") {
            return true;
        }
        self.all.iter().any(|known| {
            let list = known.built_in && known.list_kind == kind;
            (list || known.kind == kind) && known.api_version() == api_version
        })
    }

    /// Returns whether upstream can decode this `apiVersion` of a built-in resource, even if it is no longer served:
    /// such a version has another error message than an unknown version.
    pub(crate) fn reads_version(&self, resource: &Resource, api_version: &str) -> bool {
        let (kind, plural) = (resource.kind.as_str(), resource.plural.as_str());
        let retired = match api_version {
            "apps/v1beta1" => &["deployments", "statefulsets", "controllerrevisions"][..],
            "apps/v1beta2" => &[
                "deployments", "statefulsets", "controllerrevisions", "daemonsets", "replicasets",
            ],
            "extensions/v1beta1" => &[
                "deployments", "daemonsets", "replicasets", "ingresses", "networkpolicies",
            ],
            "networking.k8s.io/v1beta1" => &["ingresses", "ingressclasses"],
            "batch/v1beta1" => &["cronjobs"],
            "policy/v1beta1" => &["poddisruptionbudgets"],
            _ => &[],
        };
        retired.contains(&plural)
            || self.all.iter().any(|known| {
                let same = known.storage == resource.storage && known.kind == kind;
                same && known.api_version() == api_version
            })
    }

    /// Replaces the resources of a CRD by `resources`; `edition` is the revision at which their edition began (see
    /// `ended`), and may be that of the replaced resources. Forgets editions that ended up to the revision `compacted`.
    pub(crate) fn install(
        &mut self,
        storage: &StorageKey,
        edition: u64,
        resources: Vec<Resource>,
        compacted: u64,
    ) {
        self.ended.retain(|_, end| *end > compacted);
        let before = self.of_storage(storage).map(|served| served.edition);
        if let Some(before) = before.filter(|before| *before != edition) {
            self.ended.insert((storage.clone(), before), edition);
        }
        self.all
            .retain(|resource| resource.built_in || resource.storage != *storage);
        self.all.extend(resources.into_iter().map(Arc::new));
        self.index();
    }

    /// Returns the revision at which the CRD edition of a resource ended; `None` for the current edition and built-in
    /// kinds.
    ///
    /// Returns 0 for an end that was forgotten because it was compacted (SRV-WATCH-5): a watch of that edition has
    /// either seen all changes before the end, or can no longer read them.
    pub(crate) fn end_of_edition(&self, resource: &Resource) -> Option<u64> {
        let served = self.of_storage(&resource.storage);
        if resource.built_in || served.is_some_and(|served| served.edition == resource.edition) {
            return None;
        }
        let of = (resource.storage.clone(), resource.edition);
        Some(self.ended.get(&of).copied().unwrap_or(0))
    }

    #[cfg(test)]
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    fn index(&mut self) {
        self.version += 1;
        self.converts = self.all.iter().any(|one| one.conversion.is_some());
        let path = |r: &Resource| (r.group.clone(), r.version.clone(), r.plural.clone());
        self.by_path = self
            .all
            .iter()
            .enumerate()
            .map(|(at, r)| (path(r), at))
            .collect();
    }
}
