//! Machine: the accepted names of all definitions, so that the names of a definition are checked without decoding other
//! definitions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_schema::resource::StorageKey;

use crate::values::{text, texts};

#[derive(Debug, Default)]
pub(crate) struct ClaimedNames(BTreeMap<StorageKey, Claim>);

#[derive(Debug)]
struct Claim {
    group: String,
    /// The plural, singular and short names of the definition.
    resources: Vec<String>,
    /// The kind and the list kind of the definition.
    kinds: Vec<String>,
    /// Whether a name of the definition was refused because another definition has the name.
    is_refused: bool,
}

impl ClaimedNames {
    pub(crate) fn record(&mut self, storage: &StorageKey, crd: &Value) {
        let names = &crd["status"]["acceptedNames"];
        let of = |fields: &[&str]| -> Vec<String> {
            let all = fields.iter().flat_map(|field| one_or_many(&names[*field]));
            all.map(str::to_owned).collect()
        };
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        let mut judged = conditions.filter(|one| one["type"] == "NamesAccepted");
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

    /// Returns the names of resources and the names of kinds that the other definitions of a group have.
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

    /// Returns the definitions of a group that wait for a name.
    pub(crate) fn refused(&self, group: &str) -> Vec<StorageKey> {
        let all = self.0.iter();
        let refused = all.filter(|(_, claim)| claim.is_refused && claim.group == group);
        refused.map(|(storage, _)| storage.clone()).collect()
    }
}

/// Returns the names in a field that holds a name or a list of names.
pub(crate) fn one_or_many(field: &Value) -> impl Iterator<Item = &str> {
    let names = field.as_str().into_iter().chain(texts(field));
    names.filter(|name| !name.is_empty())
}
