//! The files a rule looks at, and what it says about them.

use std::fmt;
use std::fs;
use std::path::Path;

/// Folders that hold nothing of ours, wherever they are.
const SKIPPED: &[&str] = &["target", ".git", "node_modules"];

/// One text file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl File {
    /// Whether the whole file is test code: integration tests, benches, and split-out unit tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.name();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self
                .path
                .split('/')
                .any(|part| part == "tests" || part == "benches")
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The package folder (`crates/x`, `examples/y`, `xtask`) this file lies in.
    pub(crate) fn package(&self) -> Option<&str> {
        let mut slashes = self.path.match_indices('/').map(|(at, _)| at);
        let first = slashes.next()?;
        match &self.path[..first] {
            "xtask" => Some("xtask"),
            "crates" | "examples" => Some(&self.path[..slashes.next()?]),
            _ => None,
        }
    }
}

/// All text files of the repository, or of a made-up one.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads every UTF-8 file below `root`, leaving out build output and version control.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        collect(root, "", &mut files)
            .map_err(|error| format!("{} could not be read: {error}", root.display()))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// A tree made of pairs of path and text.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        Self { files }
    }

    /// Every file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every Rust file of a package of ours.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files()
            .filter(|file| file.path.ends_with(".rs") && file.package().is_some())
    }

    /// Every manifest of a package of ours, with its folder.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files().filter_map(|file| {
            let package = file.package()?;
            (file.path.strip_prefix(package) == Some("/Cargo.toml")).then_some((package, file))
        })
    }

    /// The file at that path.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file, or a folder that holds one, is at that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// What is wrong, where, and how to put it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// The file, relative to the repository.
    pub(crate) path: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) problem: String,
    /// How to put it right.
    pub(crate) way_out: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}; {}", self.rule, self.problem, self.way_out)
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            // A file that is no text, or that vanished meanwhile, is nothing a rule speaks about.
            files.push(File { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{File, Tree, Violation};

    fn file(path: &str) -> File {
        File {
            path: path.to_owned(),
            text: String::new(),
        }
    }

    #[test]
    fn test_files_are_told_from_sources() {
        for path in [
            "crates/a/tests/it/main.rs",
            "crates/a/src/x/tests.rs",
            "crates/a/src/loom_tests.rs",
        ] {
            assert!(file(path).is_test(), "{path}");
        }
        for path in ["crates/a/src/lib.rs", "crates/testsuite/src/lib.rs"] {
            assert!(!file(path).is_test(), "{path}");
        }
    }

    #[test]
    fn packages_are_found_by_folder() {
        assert_eq!(file("crates/a/src/lib.rs").package(), Some("crates/a"));
        assert_eq!(file("xtask/src/main.rs").package(), Some("xtask"));
        assert_eq!(file("docs/book.toml").package(), None);
        assert_eq!(file("crates/README.md").package(), None);
    }

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "")]);
        assert!(
            tree.has("crates/a") && tree.has("crates/a/src/") && tree.has("crates/a/src/lib.rs")
        );
        assert!(!tree.has("crates/ab") && !tree.has("crates/a/sr"));
    }

    #[test]
    fn a_violation_names_place_rule_and_way_out() {
        let violation = Violation {
            rule: "sizes",
            path: "a.rs".to_owned(),
            line: 3,
            problem: "too long".to_owned(),
            way_out: "split it".to_owned(),
        };
        assert_eq!(violation.to_string(), "a.rs:3: [sizes] too long; split it");
    }
}
