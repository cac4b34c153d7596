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
    files: BTreeMap<PathBuf, FileChange>,
}

/// The content of a file before and after a command. A new file has no content before.
#[derive(Debug)]
struct FileChange {
    before: Option<String>,
    after: String,
}

impl ChangeSet {
    pub(crate) fn of(project: &Project) -> Self {
        Self {
            folder: project.folder.clone(),
            edition: project.edition.clone(),
            files: BTreeMap::new(),
        }
    }

    /// Adds new files that belong together, and returns `true`. If all of them exist, an earlier call has added them:
    /// the files stay as they are, and the result is `false`.
    pub(crate) fn add(&mut self, files: Files) -> Result<bool, Error> {
        let mut present = files.keys().filter(|path| self.folder.join(path).exists());
        let Some(path) = present.next().cloned() else {
            for (path, after) in files {
                let before = None;
                self.files.insert(path, FileChange { before, after });
            }
            return Ok(true);
        };
        if present.count() + 1 < files.len() {
            return Err(Error::Exists(path));
        }
        Ok(false)
    }

    pub(crate) fn has_new(&self, path: impl AsRef<Path>) -> bool {
        let file = self.files.get(path.as_ref());
        file.is_some_and(|file| file.before.is_none())
    }

    /// Returns the content of a file with the pending changes; `None` if the file does not exist.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        let path = path.as_ref();
        match self.files.get(path) {
            Some(file) => Ok(Some(file.after.clone())),
            None => read_present(&self.folder.join(path)),
        }
    }

    /// Changes a source file. A further call changes the result of the call before.
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
        if let Some(file) = self.files.get_mut(path) {
            file.after = after;
        } else if after != source {
            let before = Some(source);
            let change = FileChange { before, after };
            self.files.insert(path.to_owned(), change);
        }
        Ok(())
    }

    /// Formats the files, writes them, and prints the names of new and changed files; prints `nothing` if there is no
    /// change. A dry run prints the differences and writes nothing.
    pub(crate) fn finish(mut self, is_dry_run: bool, nothing: &str) -> Result<(), Error> {
        let is_formatted = self.format();
        for (is_new, word) in [(true, "new"), (false, "changed")] {
            let paths = self.files.keys();
            for path in paths.filter(|path| self.has_new(path) == is_new) {
                say(format_args!("{word:<7}  {}", path.display()));
            }
        }
        if self.files.is_empty() {
            say(nothing);
            return Ok(());
        }
        if !is_formatted {
            say("rustfmt is not installed, so the files are not formatted");
        }
        if is_dry_run {
            for (path, file) in &self.files {
                if let Some(before) = &file.before {
                    let path = path.to_string_lossy();
                    say(difference(&path, before, &file.after).trim_end());
                }
            }
            return Ok(());
        }
        self.write()
    }

    /// Formats the new sources, and the changed sources that were formatted before the change. Returns whether rustfmt
    /// is installed.
    fn format(&mut self) -> bool {
        let formatted = |text: &String| formatted(&self.folder, &self.edition, text);
        let mut all = true;
        for (path, file) in &mut self.files {
            let before = file.before.as_ref();
            let is_rust = path.extension().is_some_and(|end| end == "rs");
            if !is_rust || before.is_some_and(|text| formatted(text).as_ref() != Some(text)) {
                continue;
            }
            match formatted(&file.after) {
                Some(better) => file.after = better,
                None if before.is_none() => all = false,
                None => {}
            }
        }
        all
    }

    /// Writes all files. If one write fails, restores the former content of all files.
    fn write(self) -> Result<(), Error> {
        let (mut before, mut after, mut added) = (Files::new(), Files::new(), Vec::new());
        for (path, file) in self.files {
            match file.before {
                Some(text) => drop(before.insert(path.clone(), text)),
                None => added.push(path.clone()),
            }
            after.insert(path, file.after);
        }
        let written = write(&self.folder, &after);
        if written.is_err() {
            // A failure of the restore is ignored, because the error of the write is reported.
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
            files: BTreeMap::new(),
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_others_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), "1\n").unwrap();
        let mut set = set(folder.path());
        // The second path needs a folder with the name of the first file, so that its write fails.
        let files = ["new", "new/a"].map(|path| (PathBuf::from(path), String::new()));
        assert!(set.add(Files::from(files)).unwrap());
        set.edit("old", |_| Ok("2\n".to_owned())).unwrap();
        let change = &set.files[Path::new("old")];
        assert_eq!(
            difference("old", change.before.as_ref().unwrap(), &change.after),
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
        // Formatting a file does not format the modules that it declares in other files.
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
