//! Driver: the files that a command adds and changes, written together or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::comparison::difference;
use crate::edits::Edited;
use crate::error::Error;
use crate::files::{formatted, read_present, write};
use crate::project::Project;
use crate::scaffold::Files;
use crate::screen::say;

/// The files that a command adds and changes. Nothing is written before [`finish`](Self::finish).
#[derive(Debug)]
pub(crate) struct ChangeSet {
    folder: PathBuf,
    edition: String,
    new: Files,
    changed: BTreeMap<PathBuf, FileChange>,
}

/// The content of a file before and after a command.
#[derive(Debug)]
struct FileChange {
    before: String,
    after: String,
}

impl ChangeSet {
    /// Makes an empty set for an operator.
    pub(crate) fn of(project: &Project) -> Self {
        Self {
            folder: project.folder.clone(),
            edition: project.edition.clone(),
            new: Files::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Adds new files that belong together. If all of them exist, the command ran before, and they may have been
    /// changed since: they stay. Returns whether they are new.
    pub(crate) fn add(&mut self, files: Files) -> Result<bool, Error> {
        let mut present = files.keys().filter(|path| self.folder.join(path).exists());
        let Some(path) = present.next().cloned() else {
            self.new.extend(files);
            return Ok(true);
        };
        if present.count() + 1 < files.len() {
            return Err(Error::Exists { path });
        }
        Ok(false)
    }

    /// Returns whether a file is new.
    pub(crate) fn has_new(&self, path: impl AsRef<Path>) -> bool {
        self.new.contains_key(path.as_ref())
    }

    /// Returns a file with the changes so far; `None` if it does not exist.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        let path = path.as_ref();
        let changed = self.changed.get(path).map(|change| &change.after);
        if let Some(text) = changed.or_else(|| self.new.get(path)) {
            return Ok(Some(text.clone()));
        }
        read_present(&self.folder.join(path))
    }

    /// Changes a source. Several changes of one source follow each other.
    pub(crate) fn edit(
        &mut self,
        path: impl AsRef<Path>,
        change: impl FnOnce(&str) -> Edited,
    ) -> Result<(), Error> {
        let path = path.as_ref();
        let wrong = |problem: String| Error::Source {
            path: path.to_owned(),
            problem,
        };
        let Some(source) = self.read(path)? else {
            return Err(wrong("it does not exist".to_owned()));
        };
        let after = change(&source).map_err(wrong)?;
        if after == source {
            return Ok(());
        }
        if let Some(new) = self.new.get_mut(path) {
            *new = after;
        } else if let Some(change) = self.changed.get_mut(path) {
            change.after = after;
        } else {
            let before = source;
            self.changed
                .insert(path.to_owned(), FileChange { before, after });
        }
        Ok(())
    }

    /// Formats the files, prints what is new and changed, and writes it; `nothing` is printed if there is nothing. A
    /// dry run prints the differences of the changed files instead of writing.
    pub(crate) fn finish(mut self, is_dry_run: bool, nothing: &str) -> Result<(), Error> {
        let is_formatted = self.format();
        for path in self.new.keys() {
            say(format_args!("new      {}", path.display()));
        }
        for path in self.changed.keys() {
            say(format_args!("changed  {}", path.display()));
        }
        if self.new.is_empty() && self.changed.is_empty() {
            say(nothing);
            return Ok(());
        }
        if !is_formatted {
            say("rustfmt is not installed, so the files are not formatted");
        }
        if is_dry_run {
            for (path, change) in &self.changed {
                let path = path.to_string_lossy();
                say(difference(&path, &change.before, &change.after).trim_end());
            }
            return Ok(());
        }
        self.write()
    }

    /// Formats the new sources, and of the others those that were formatted before. Returns whether there is a
    /// formatter.
    fn format(&mut self) -> bool {
        let (folder, edition) = (&self.folder, &self.edition);
        let is_rust = |path: &Path| path.extension().is_some_and(|end| end == "rs");
        let mut all = true;
        for (path, text) in &mut self.new {
            if is_rust(path) {
                match formatted(folder, edition, text) {
                    Some(better) => *text = better,
                    None => all = false,
                }
            }
        }
        for (path, change) in &mut self.changed {
            let was = is_rust(path)
                && formatted(folder, edition, &change.before).as_ref() == Some(&change.before);
            if was && let Some(better) = formatted(folder, edition, &change.after) {
                change.after = better;
            }
        }
        all
    }

    /// Writes all files. If one cannot be written, the others become what they were.
    fn write(self) -> Result<(), Error> {
        let before: Files = self
            .changed
            .iter()
            .map(|(path, change)| (path.clone(), change.before.clone()))
            .collect();
        let added: Vec<PathBuf> = self.new.keys().cloned().collect();
        let after = self.changed.into_iter();
        let mut files = self.new;
        files.extend(after.map(|(path, change)| (path, change.after)));
        let written = write(&self.folder, &files);
        if written.is_err() {
            // The first error is the one to report.
            let _ = write(&self.folder, &before);
            for path in added {
                let _ = fs::remove_file(self.folder.join(path));
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(folder: &Path) -> ChangeSet {
        ChangeSet {
            folder: folder.to_owned(),
            edition: "2024".to_owned(),
            new: Files::new(),
            changed: BTreeMap::new(),
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_others_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), "1\n").unwrap();
        let mut set = set(folder.path());
        // The first file is in the way of the folder of the second.
        let files = ["new", "new/a"].map(|path| (PathBuf::from(path), String::new()));
        assert!(set.add(Files::from(files)).unwrap());
        set.edit("old", |_| Ok("2\n".to_owned())).unwrap();
        let change = &set.changed[Path::new("old")];
        assert_eq!(
            difference("old", &change.before, &change.after),
            "--- a/old\n+++ b/old\n@@ -1 +1 @@\n-1\n+2\n"
        );
        set.finish(false, "").unwrap_err();
        let left = fs::read_to_string(folder.path().join("old")).unwrap();
        assert_eq!(left, "1\n");
        assert!(!folder.path().join("new").exists());
    }

    #[test]
    fn a_changed_file_is_formatted_only_if_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut set = set(folder.path());
        for (path, text) in [("neat.rs", "fn a() {}\n"), ("own.rs", "fn a(){}\n")] {
            fs::write(folder.path().join(path), text).unwrap();
            set.edit(path, |text| Ok(format!("{text}fn  b() {{}}\n")))
                .unwrap();
        }
        // A module in another file is not formatted with the file that declares it.
        fs::write(folder.path().join("other.rs"), "fn a(){}\n").unwrap();
        set.edit("neat.rs", |text| Ok(format!("mod other;\n{text}")))
            .unwrap();
        set.finish(false, "").unwrap();
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(read("neat.rs"), "mod other;\nfn a() {}\nfn b() {}\n");
        assert_eq!(read("own.rs"), "fn a(){}\nfn  b() {}\n");
        assert_eq!(read("other.rs"), "fn a(){}\n");
    }
}
