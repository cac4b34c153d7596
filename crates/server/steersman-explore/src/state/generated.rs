//! Machine: tells generated names from chosen names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::object_id::{ObjectId, ObjectMap};

/// The characters, and their number, with which the server ends a name that it makes from `metadata.generateName`.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

/// The number of characters of `metadata.generateName` that the server uses.
const LONGEST_PREFIX: usize = 58;

/// The objects with generated names of one kind, namespace and prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameGroup {
    scope: NameScope,
    /// What all names of the group begin with.
    pub(super) prefix: String,
}

/// The API group, kind and namespace of an object: the scope in which names are unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NameScope {
    group: String,
    kind: String,
    namespace: String,
}

/// Which objects a pass numbers. Namespaces come first, because they are a part of the identities of other objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamePass {
    Namespaces,
    OtherObjects,
}

/// The names that are generated, as several runs show.
#[derive(Debug)]
pub(super) struct GeneratedNames {
    pass: NamePass,
    /// Objects of the runs with chosen names.
    chosen: BTreeSet<ObjectId>,
    /// The prefixes of names that differ among the runs.
    prefixes: BTreeMap<NameScope, BTreeSet<String>>,
}

impl NameGroup {
    /// Returns the name that stands for each name of the group.
    pub(super) fn mask(&self) -> String {
        format!("{}*", self.prefix)
    }
}

impl NameScope {
    fn of(id: &ObjectId) -> Self {
        Self {
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
        }
    }
}

impl NamePass {
    fn covers(self, id: &ObjectId) -> bool {
        (self == Self::Namespaces) == is_namespace(id)
    }
}

/// Returns whether an object is a Namespace.
pub(super) fn is_namespace(id: &ObjectId) -> bool {
    id.kind == "Namespace" && id.group.is_empty()
}

/// Returns the prefix of a name that the server generated: `metadata.generateName`, if the name is this text and five
/// random characters. Pods of a StatefulSet have `generateName` and chosen names.
pub(super) fn generated_prefix(name: &str, object: &Value) -> Option<String> {
    let generate_name = Some(generate_name(object)).filter(|text| !text.is_empty())?;
    let prefix: String = generate_name.chars().take(LONGEST_PREFIX).collect();
    let suffix = name.strip_prefix(&prefix)?;
    let is_random = suffix.len() == SUFFIX && suffix.bytes().all(|byte| LETTERS.contains(&byte));
    is_random.then_some(prefix)
}

fn generate_name(object: &Value) -> &str {
    object["metadata"]["generateName"]
        .as_str()
        .unwrap_or_default()
}

impl GeneratedNames {
    /// Learns which names are generated: those from `metadata.generateName`, and names that occur in only some of the
    /// runs and begin as a name of another run does.
    pub(super) fn learn(runs: &[&ObjectMap], pass: NamePass) -> Self {
        let constant = |(id, object): &(&ObjectId, &Value)| {
            pass.covers(id) && generated_prefix(&id.name, object).is_none()
        };
        let ids = |run: &&ObjectMap| -> BTreeSet<ObjectId> {
            run.iter()
                .filter(constant)
                .map(|(id, _)| id.clone())
                .collect()
        };
        let named: Vec<BTreeSet<ObjectId>> = runs.iter().map(ids).collect();
        let mut chosen = named.first().cloned().unwrap_or_default();
        chosen.retain(|id| named.iter().all(|ids| ids.contains(id)));
        // The other names of each scope, for each run.
        let mut others: BTreeMap<NameScope, Vec<BTreeSet<&ObjectId>>> = BTreeMap::new();
        for (run, ids) in named.iter().enumerate() {
            for id in ids.difference(&chosen) {
                let of_runs = others
                    .entry(NameScope::of(id))
                    .or_insert_with(|| vec![BTreeSet::new(); runs.len()]);
                of_runs[run].insert(id);
            }
        }
        let mut prefixes: BTreeMap<NameScope, BTreeSet<String>> = BTreeMap::new();
        let mut single = Vec::new();
        for (scope, of_runs) in others {
            let mut alone: Vec<Vec<&ObjectId>> = vec![Vec::new(); runs.len()];
            for (run, ids) in of_runs.iter().enumerate() {
                for id in ids {
                    let object = &runs[run][*id];
                    match prefix_among(id, generate_name(object), run, &of_runs) {
                        Some(prefix) => {
                            prefixes.entry(scope.clone()).or_default().insert(prefix);
                        }
                        None => alone[run].push(id),
                    }
                }
            }
            // Names without a common beginning are random names if each run has such a name.
            if alone.iter().all(|ids| !ids.is_empty()) {
                prefixes.entry(scope).or_default().insert(String::new());
            } else {
                single.extend(alone.into_iter().flatten().cloned());
            }
        }
        chosen.extend(single);
        Self {
            pass,
            chosen,
            prefixes,
        }
    }

    /// Returns the group of an object with a generated name; `None` if its name is chosen.
    pub(super) fn group(&self, id: &ObjectId, object: &Value) -> Option<NameGroup> {
        if !self.pass.covers(id) {
            return None;
        }
        if let Some(prefix) = generated_prefix(&id.name, object) {
            let scope = NameScope::of(id);
            return Some(NameGroup { scope, prefix });
        }
        if self.chosen.contains(id) {
            return None;
        }
        let scope = NameScope::of(id);
        let prefixes = self.prefixes.get(&scope)?.iter();
        let longest = prefixes
            .filter(|prefix| id.name.starts_with(*prefix))
            .max_by_key(|prefix| prefix.len());
        let prefix = longest?.clone();
        Some(NameGroup { scope, prefix })
    }
}

/// Returns the prefix of a name that only some of the runs have: its `generateName`, or the longest text up to a `-` or
/// `.` that other names of this kind in each other run begin with. Runs without such a name do not count.
fn prefix_among(
    id: &ObjectId,
    generate_name: &str,
    own: usize,
    runs: &[BTreeSet<&ObjectId>],
) -> Option<String> {
    if !generate_name.is_empty() && id.name.starts_with(generate_name) {
        return Some(generate_name.to_owned());
    }
    let others = runs.iter().enumerate().filter(|(run, _)| *run != own);
    let longest = others.filter_map(|(_, ids)| {
        ids.iter()
            .map(|other| shared(&id.name, &other.name))
            .max_by_key(|text| text.len())
    });
    let shortest = longest
        .filter(|prefix| !prefix.is_empty())
        .min_by_key(|prefix| prefix.len());
    shortest.map(str::to_owned)
}

/// Returns the common beginning of two names, up to its last `-` or `.`.
fn shared<'a>(name: &'a str, other: &str) -> &'a str {
    let same = name
        .char_indices()
        .zip(other.chars())
        .take_while(|((_, one), other)| one == other);
    let end = same
        .last()
        .map_or(0, |((at, char), _)| at + char.len_utf8());
    let common = &name[..end];
    let cut = common.rfind(['-', '.']).map_or(0, |at| at + 1);
    &common[..cut]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(names: &[&str]) -> ObjectMap {
        let objects = names.iter().map(|name| {
            let (generate, name) = name.split_once('|').unwrap_or(("", name));
            let metadata = json!({"namespace": "shop", "name": format!("{generate}{name}"), "generateName": generate});
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        });
        ObjectId::map(objects)
    }

    /// Returns the prefix of each name of a world; `!` for a chosen name.
    fn prefixes(runs: &[&[&str]], world: &[&str]) -> Vec<String> {
        let runs: Vec<ObjectMap> = runs.iter().map(|names| run(names)).collect();
        let names = GeneratedNames::learn(&runs.iter().collect::<Vec<_>>(), NamePass::OtherObjects);
        let one = |name: &&str| {
            let world = run(&[name]);
            let (id, object) = world.iter().next().unwrap();
            names
                .group(id, object)
                .map_or("!".to_owned(), |group| group.prefix)
        };
        world.iter().map(one).collect()
    }

    #[test]
    fn a_prefix_is_that_of_generate_name_or_what_the_runs_share() {
        for (runs, world, expected) in [
            // Names that the server generated, even if the runs agree by their seed.
            (
                vec![&["web-|bcdfg"][..], &["web-|bcdfg"]],
                vec!["web-|xxxxx", "a", "app-|22222"],
                vec!["web-", "!", "app-"],
            ),
            // Ordinals of a StatefulSet are chosen.
            (
                vec![&["web-|0"], &["web-|0"]],
                vec!["web-|0", "web-|1"],
                vec!["!", "!"],
            ),
            (
                vec![&["web-|aeiou"], &["web-|aeiou"]],
                vec!["web-|aeiou"],
                vec!["!"],
            ),
            // A generator of another kind.
            (
                vec![&["web-x|1a"], &["web-x|1b"]],
                vec!["web-x|1c"],
                vec!["web-x"],
            ),
            // The prefix that names share, up to a dash, for each name of the other runs that is the most similar.
            (
                vec![&["a-b-x1", "a-c-x2"], &["a-b-x3", "a-c-x4"]],
                vec!["a-b-z", "a-c-z", "a-z", "z"],
                vec!["a-b-", "a-c-", "!", "!"],
            ),
            (
                vec![&["a-1-x"], &["a-1-y"], &["a-2-z"]],
                vec!["a-1-z", "a-3-z"],
                vec!["a-", "a-"],
            ),
            (
                vec![&["a-b-x", "a-y"], &["a-b-z", "a-w"]],
                vec!["a-b-1", "a-c"],
                vec!["a-b-", "a-"],
            ),
            // Names that are equal in all runs are chosen.
            (vec![&["a-b"], &["a-b"]], vec!["a-b", "a-c"], vec!["!", "!"]),
            // Names without a common beginning are random, or occur by chance.
            (vec![&["x1"], &["y2"]], vec!["z3"], vec![""]),
            (
                vec![&["x1"], &[], &["y2"]],
                vec!["x1", "z3"],
                vec!["!", "!"],
            ),
            (vec![&["é-x"], &["é-y"]], vec!["é-z"], vec!["é-"]),
            (vec![&["éa"], &["èa"]], vec!["x"], vec![""]),
        ] {
            assert_eq!(prefixes(&runs, &world), expected, "{runs:?}");
        }
        assert_eq!(prefixes(&[], &["a"]), ["!"]);
        let long = "a".repeat(60);
        let object = json!({"metadata": {"generateName": long}});
        assert_eq!(
            generated_prefix(&format!("{}bcdfg", &long[..58]), &object).as_deref(),
            Some(&long[..58])
        );
    }
}
