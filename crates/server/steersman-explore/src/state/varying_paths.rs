//! Machine: finds the fields of objects with generated names that have random values, and so do not identify an object.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::state::generated::NameGroup;
use crate::state::lists::Content;

/// The paths of fields that differ from run to run, by group.
#[derive(Debug, Default)]
pub(super) struct VaryingPaths(BTreeMap<NameGroup, BTreeSet<String>>);

impl VaryingPaths {
    /// Learns from the objects of the groups in each run.
    pub(super) fn learn(runs: &[BTreeMap<&NameGroup, Vec<&Content>>]) -> Self {
        let groups: BTreeSet<&NameGroup> =
            runs.iter().flat_map(|run| run.keys().copied()).collect();
        let of_group = |group: &NameGroup| {
            let objects: Vec<&[&Content]> = runs
                .iter()
                .filter_map(|run| run.get(group))
                .map(Vec::as_slice)
                .collect();
            (group.clone(), varying(&objects))
        };
        Self(groups.into_iter().map(of_group).collect())
    }

    /// Returns whether a field of the objects of a group differs from run to run.
    pub(super) fn contains(&self, group: &NameGroup, path: &str) -> bool {
        self.0.get(group).is_some_and(|paths| paths.contains(path))
    }
}

/// Returns the paths that vary. The objects of all runs have the same combinations of values at the other paths. Paths
/// with many different values count first: the name of a role identifies an object better than a flag does.
fn varying(runs: &[&[&Content]]) -> BTreeSet<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, leaf) in runs.iter().copied().flatten().copied().flatten() {
        values.entry(path).or_default().insert(leaf);
    }
    let mut paths: Vec<(&str, usize)> = values
        .into_iter()
        .map(|(path, leaves)| (path, leaves.len()))
        .collect();
    paths.sort_by_key(|(_, leaves)| std::cmp::Reverse(*leaves));
    let is_equal_count = runs.iter().all(|run| run.len() == runs[0].len());
    let is_same = |combinations: &[Vec<u64>]| {
        let mut sorted = combinations.to_vec();
        for hashes in &mut sorted {
            hashes.sort_unstable();
            if !is_equal_count {
                hashes.dedup();
            }
        }
        sorted.iter().all(|hashes| *hashes == sorted[0])
    };
    // The hash of the values of each object at the paths that do not vary.
    let mut combinations: Vec<Vec<u64>> = runs.iter().map(|run| vec![0; run.len()]).collect();
    let mut varying = BTreeSet::new();
    for (path, _) in paths {
        let with_path = runs.iter().zip(&combinations).map(|(run, hashes)| {
            let pairs = run.iter().zip(hashes);
            pairs
                .map(|(content, hash)| combine(*hash, content.get(path)))
                .collect()
        });
        let with_path: Vec<Vec<u64>> = with_path.collect();
        if is_same(&with_path) {
            combinations = with_path;
        } else {
            varying.insert(path.to_owned());
        }
    }
    varying
}

fn combine(hash: u64, leaf: Option<&String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (hash, leaf).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::state::lists::content;

    fn found(runs: &[Value]) -> Vec<String> {
        let contents: Vec<Vec<Content>> = runs
            .iter()
            .map(|run| run.as_array().unwrap().iter().map(content).collect())
            .collect();
        let runs: Vec<Vec<&Content>> = contents.iter().map(|run| run.iter().collect()).collect();
        varying(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>())
            .into_iter()
            .collect()
    }

    #[test]
    fn a_path_varies_if_its_values_or_its_combinations_do() {
        let flags = |flags: [bool; 3]| -> Value {
            let objects = flags
                .iter()
                .enumerate()
                .map(|(at, flag)| json!({"flag": flag, "role": at}));
            objects.collect()
        };
        for (runs, expected) in [
            (
                vec![json!([{"a": 1}, {"a": 2}]), json!([{"a": 2}, {"a": 1}])],
                vec![],
            ),
            (
                vec![json!([{"a": 1}, {"a": 2}]), json!([{"a": 1}, {"a": 1}])],
                vec!["a"],
            ),
            (
                vec![
                    json!([{"a": 1}, {"a": 1}, {"a": 2}]),
                    json!([{"a": 1}, {"a": 2}, {"a": 2}]),
                ],
                vec!["a"],
            ),
            (
                vec![
                    json!([{"a": 1, "b": 1}, {"b": 1}]),
                    json!([{"b": 1}, {"b": 1}]),
                ],
                vec!["a"],
            ),
            (
                vec![json!([{"a": "x", "b": 1}]), json!([{"a": "y", "b": 1}])],
                vec!["a"],
            ),
            // The same number of flags, at objects with different roles.
            (
                vec![flags([true, false, false]), flags([false, true, false])],
                vec!["flag"],
            ),
            // Different numbers of objects.
            (
                vec![
                    json!([{"a": 1}, {"a": 2}]),
                    json!([{"a": 2}, {"a": 1}, {"a": 2}]),
                ],
                vec![],
            ),
            (
                vec![
                    json!([{"a": 1}, {"a": 2}]),
                    json!([{"a": 2}, {"a": 1}, {"a": 3}]),
                ],
                vec!["a"],
            ),
            (vec![json!([]), json!([{"a": 2}])], vec!["a"]),
            (vec![json!([{"a": 1}])], vec![]),
            (vec![], vec![]),
        ] {
            assert_eq!(found(&runs), expected, "{runs:?}");
        }
    }
}
