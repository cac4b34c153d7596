//! The files that rules read, and the violations that they report.

use std::fs;
use std::path::Path;

use super::lexer::line;

/// Folders that are never read, at any depth: build output, version control, installed packages.
const SKIPPED: &[&str] = &["target", ".git", "node_modules"];

#[derive(Debug, Clone)]
pub(crate) struct File {
    /// The path relative to the repository, separated by `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Returns whether the whole file is test code: an integration test, a benchmark, or unit tests
    /// in a file of their own.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| {
            matches!(part, "tests" | "benches" | "tests.rs") || part.ends_with("_tests.rs")
        })
    }

    pub(crate) fn violation(
        &self,
        at: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Violation {
        Violation::new(&self.path, line(&self.text, at), problem, remedy)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns whether the file is production code of a package, in its folder `src`.
    pub(crate) fn is_production(&self) -> bool {
        let package = self.package();
        let is_in_src =
            package.is_some_and(|package| self.path[package.len()..].starts_with("/src/"));
        is_in_src && !self.is_test()
    }

    /// Returns the folder of the package (`crates/framework/x`, `examples/y` or `xtask`) that holds this file.
    pub(crate) fn package(&self) -> Option<&str> {
        let mut slashes = self.path.match_indices('/').map(|(at, _)| at);
        let first = slashes.next()?;
        match &self.path[..first] {
            "xtask" => Some("xtask"),
            "crates" => Some(&self.path[..slashes.nth(1)?]),
            "examples" => Some(&self.path[..slashes.next()?]),
            _ => None,
        }
    }
}

/// Returns the name of the crate in a package's folder (`crates/framework/x` gives `x`), or none outside of `crates`.
pub(crate) fn crate_name(package: &str) -> Option<&str> {
    package.strip_prefix("crates/")?.rsplit('/').next()
}

/// All files of the repository, or of a small tree that a test made.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
    /// The paths of all other files, such as pictures.
    others: Vec<String>,
}

impl Tree {
    /// Reads every UTF-8 file below `root`, without the folders in [`SKIPPED`].
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.collect(root, "")
            .map_err(|error| format!("{} could not be read: {error}", root.display()))?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Returns every Rust file of the packages in this workspace.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files()
            .filter(|file| file.path.ends_with(".rs") && file.package().is_some())
    }

    /// Returns every manifest of the packages in this workspace, each with its package's folder.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files().filter_map(|file| {
            let package = file.package()?;
            (file.path.strip_prefix(package) == Some("/Cargo.toml")).then_some((package, file))
        })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns whether `path` is a file, or a folder that holds a file.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let files = self.files.iter().map(|file| &file.path);
        files.chain(&self.others).any(|file| {
            let rest = file.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn collect(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.collect(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                // Files deleted since the folder was read count as others, too.
                match fs::read_to_string(entry.path()) {
                    Ok(text) => self.files.push(File { path, text }),
                    Err(_) => self.others.push(path),
                }
            }
        }
        Ok(())
    }
}

/// A violation of a rule: where it is, what is wrong, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The path of the file, relative to the repository.
    pub(crate) path: String,
    /// The line, counted from 1; 0 if the violation concerns the whole file.
    pub(crate) line: usize,
    pub(crate) problem: String,
    pub(crate) remedy: String,
}

impl Violation {
    /// Makes a violation at a line of a file; line 0 stands for the whole file.
    pub(crate) fn new(
        path: &str,
        line: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the line of a message about this violation of a rule.
    pub(crate) fn of_rule(&self, rule: &str) -> String {
        let line = match self.line {
            0 => String::new(),
            line => format!(":{line}"),
        };
        format!(
            "{}{line}: [{rule}] {}; {}",
            self.path, self.problem, self.remedy
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{File, Tree, Violation};

    impl Tree {
        pub(crate) fn of(files: &[(&str, &str)]) -> Self {
            let files = files
                .iter()
                .map(|(path, text)| File {
                    path: (*path).to_owned(),
                    text: (*text).to_owned(),
                })
                .collect();
            Self {
                files,
                others: Vec::new(),
            }
        }
    }

    fn file(path: &str) -> File {
        File {
            path: path.to_owned(),
            text: String::new(),
        }
    }

    #[test]
    fn test_files_are_recognised_by_their_path() {
        for path in [
            "crates/framework/a/tests/it/main.rs",
            "crates/framework/a/src/x/tests.rs",
            "crates/framework/a/src/loom_tests.rs",
        ] {
            assert!(file(path).is_test(), "{path}");
        }
        for path in [
            "crates/framework/a/src/lib.rs",
            "crates/framework/testsuite/src/lib.rs",
        ] {
            assert!(!file(path).is_test(), "{path}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_package_of_its_folder() {
        assert_eq!(
            file("crates/framework/a/src/lib.rs").package(),
            Some("crates/framework/a")
        );
        assert_eq!(file("xtask/src/main.rs").package(), Some("xtask"));
        assert_eq!(file("docs/book.toml").package(), None);
        assert_eq!(file("crates/README.md").package(), None);
        assert_eq!(file("crates/framework/README.md").package(), None);
    }

    #[test]
    fn a_folder_exists_if_it_holds_a_file() {
        let tree = Tree::of(&[("crates/framework/a/src/lib.rs", "")]);
        assert!(
            tree.has("crates/framework/a")
                && tree.has("crates/framework/a/src/")
                && tree.has("crates/framework/a/src/lib.rs")
        );
        assert!(!tree.has("crates/framework/ab") && !tree.has("crates/framework/a/sr"));
    }

    #[test]
    fn a_violation_prints_path_line_rule_problem_and_remedy() {
        let violation = Violation::new("a.rs", 3, "too long", "split it");
        assert_eq!(
            violation.of_rule("sizes"),
            "a.rs:3: [sizes] too long; split it"
        );
    }
}
