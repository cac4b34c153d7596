//! The rule `folders`: a folder has at most 25 Rust files side by side.

use std::collections::BTreeMap;

use super::tree::{Tree, Violation};

/// The name of this rule.
pub(crate) const RULE: &str = "folders";

/// The largest number of Rust files in one folder; files of its sub-folders are not counted.
const MOST: usize = 25;

/// Folders that hold more files, with their number of files. A number may only shrink.
const KNOWN: &[(&str, usize)] = &[];

/// Counts the Rust files of every folder.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, KNOWN)
}

fn check_with(tree: &Tree, known: &[(&str, usize)]) -> Vec<Violation> {
    let mut counts: BTreeMap<&str, usize> = known.iter().map(|(folder, _)| (*folder, 0)).collect();
    for file in tree.rust() {
        let (folder, _) = file.path.rsplit_once('/').unwrap_or_default();
        *counts.entry(folder).or_default() += 1;
    }
    let allowed = |folder: &str| known.iter().find(|(known, _)| *known == folder);
    counts
        .into_iter()
        .filter_map(|(folder, count)| match allowed(folder) {
            Some((_, allowed)) if count < *allowed => Some(shrunk(folder, *allowed, count)),
            Some((_, allowed)) if count > *allowed => Some(grown(folder, *allowed, count)),
            None if count > MOST => Some(grown(folder, MOST, count)),
            _ => None,
        })
        .collect()
}

fn grown(folder: &str, most: usize, count: usize) -> Violation {
    let problem = format!("holds {count} Rust files side by side, more than {most}");
    let way_out = "move files that belong together to a sub-folder";
    Violation::new(RULE, folder, 0, problem, way_out)
}

fn shrunk(folder: &str, allowed: usize, count: usize) -> Violation {
    let problem = format!("holds {count} Rust files, and `KNOWN` still allows {allowed}");
    let way_out = if count > MOST {
        "lower the number in `KNOWN`"
    } else {
        "delete the line from `KNOWN`"
    };
    Violation::new(RULE, folder, 0, problem, way_out)
}

#[cfg(test)]
mod tests {
    use super::{MOST, Tree, check_with};

    const FOLDER: &str = "crates/steersman-x/src";

    /// Returns the violations of a folder with `count` files and of a full sub-folder.
    fn violations(count: usize, known: &[(&str, usize)]) -> Vec<String> {
        let direct = (0..count).map(|index| format!("{FOLDER}/file_{index}.rs"));
        let below = (0..MOST).map(|index| format!("{FOLDER}/below/file_{index}.rs"));
        let paths: Vec<String> = direct.chain(below).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        let found = check_with(&Tree::of(&files), known);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_folder_of_26_files_fails() {
        assert_eq!(violations(MOST + 1, &[]).len(), 1);
        assert!(violations(MOST, &[]).is_empty());
    }

    #[test]
    fn a_known_folder_keeps_its_number_of_files() {
        assert!(violations(30, &[(FOLDER, 30)]).is_empty());
        assert!(violations(31, &[(FOLDER, 30)])[0].contains("more than 30"));
        assert!(violations(29, &[(FOLDER, 30)])[0].contains("lower the number"));
    }

    #[test]
    fn an_allowance_that_is_no_longer_needed_fails() {
        assert!(violations(MOST, &[(FOLDER, 30)])[0].contains("delete the line"));
        assert!(violations(MOST, &[("crates/gone/src", 30)])[0].contains("delete the line"));
    }
}
