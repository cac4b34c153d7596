//! The rule `folders`: a folder has at most 25 Rust files side by side.

use std::collections::BTreeMap;

use super::tree::{Tree, Violation};

/// The largest number of Rust files in one folder; files of its sub-folders are not counted.
const MOST: usize = 25;

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.rust() {
        let (folder, _) = file.path.rsplit_once('/').unwrap_or_default();
        *counts.entry(folder).or_default() += 1;
    }
    let full = counts.into_iter().filter(|(_, count)| *count > MOST);
    full.map(|(folder, count)| {
        let problem = format!("holds {count} Rust files side by side, more than {MOST}");
        let remedy = "move files that belong together to a sub-folder";
        Violation::new(folder, 0, problem, remedy)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST, Tree, check};

    const FOLDER: &str = "crates/framework/steersman-x/src";

    /// Returns the violations of a folder with `count` files and of a full sub-folder.
    fn violations(count: usize) -> Vec<String> {
        let direct = (0..count).map(|index| format!("{FOLDER}/file_{index}.rs"));
        let below = (0..MOST).map(|index| format!("{FOLDER}/below/file_{index}.rs"));
        let paths: Vec<String> = direct.chain(below).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        let found = check(&Tree::of(&files));
        found
            .iter()
            .map(|violation| violation.of_rule("folders"))
            .collect()
    }

    #[test]
    fn a_folder_of_26_files_fails() {
        let found = violations(MOST + 1);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("26 Rust files side by side, more than 25"));
        assert!(violations(MOST).is_empty());
    }
}
