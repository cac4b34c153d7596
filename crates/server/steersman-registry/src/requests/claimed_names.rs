//! Machine: keeps the accepted names of all CRDs, to find conflicts of a CRD's names without decoding other CRDs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_schema::resource::StorageKey;

use crate::values::{items, one_or_many, text};

#[derive(Debug, Default)]
pub(crate) struct ClaimedNames(BTreeMap<StorageKey, Claim>);

#[derive(Debug)]
struct Claim {
    group: String,
    /// The plural, singular and short names that were accepted for the CRD.
    resources: Vec<String>,
    /// The kind and the list kind that were accepted for the CRD.
    kinds: Vec<String>,
    /// Whether one of the names in the CRD's spec was refused, because another CRD has this name.
    is_refused: bool,
}

impl ClaimedNames {
    pub(crate) fn record(&mut self, storage: &StorageKey, crd: &Value) {
        let names = &crd["status"]["acceptedNames"];
        let of = |fields: &[&str]| -> Vec<String> {
            let all = fields.iter().flat_map(|field| names_in(&names[*field]));
            all.map(str::to_owned).collect()
        };
        let conditions = items(&crd["status"]["conditions"]);
        let mut judged = conditions
            .iter()
            .filter(|one| one["type"] == "NamesAccepted");
        let claim = Claim {
            group: text(&crd["spec"]["group"]).to_owned(),
            resources: of(&["plural", "singular", "shortNames"]),
            kinds: of(&["kind", "listKind"]),
            is_refused: judged.any(|one| one["status"] == "False"),
        };
        self.0.insert(storage.clone(), claim);
    }

    pub(crate) fn remove(&mut self, storage: &StorageKey) {
        self.0.remove(storage);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the names of resources and the kinds in `group` that CRDs other than `own` have taken.
    pub(crate) fn of_others(
        &self,
        group: &str,
        own: &StorageKey,
    ) -> (BTreeSet<&str>, BTreeSet<&str>) {
        let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for (storage, claim) in &self.0 {
            if storage != own && claim.group == group {
                resources.extend(claim.resources.iter().map(String::as_str));
                kinds.extend(claim.kinds.iter().map(String::as_str));
            }
        }
        (resources, kinds)
    }

    /// Returns the storages of the CRDs in a group with a refused name, to check them again when a name is freed.
    pub(crate) fn refused(&self, group: &str) -> Vec<StorageKey> {
        let all = self.0.iter();
        let refused = all.filter(|(_, claim)| claim.is_refused && claim.group == group);
        refused.map(|(storage, _)| storage.clone()).collect()
    }
}

/// Returns the names in a field of a CRD: one text (such as `plural`) or a list (`shortNames`), without empty names.
pub(crate) fn names_in(field: &Value) -> impl Iterator<Item = &str> {
    one_or_many(field).filter(|name| !name.is_empty())
}
