//! Driver: reads, writes and formats files, and writes new folders without overwriting a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::project::{cargo, silent};
use crate::scaffold::Files;

pub(crate) fn read_present(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path, "read")(error)),
    }
}

/// Writes files into a new folder. Removes the folder if a write fails.
pub(crate) fn write_new(folder: &Path, files: &Files) -> Result<(), Error> {
    // `symlink_metadata` also finds a symbolic link without a target.
    if folder.symlink_metadata().is_ok() {
        return Err(Error::Exists(folder.to_owned()));
    }
    let written = write(folder, files);
    if written.is_err() {
        // A failed removal is ignored, because the error of the write is reported.
        let _ = fs::remove_dir_all(folder);
    }
    written
}

/// Writes files below a folder, and overwrites existing files.
pub(crate) fn write<P: AsRef<Path>>(
    folder: &Path,
    files: &BTreeMap<P, String>,
) -> Result<(), Error> {
    for (path, content) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::file(parent, "made"))?;
        }
        fs::write(&path, content).map_err(Error::file(&path, "written"))?;
    }
    Ok(())
}

/// Returns a source formatted by rustfmt with the options of the folder, without the modules in other files. `None` if
/// rustfmt is missing or the source cannot be parsed.
pub(crate) fn formatted(folder: &Path, edition: &str, source: &str) -> Option<String> {
    let program = std::env::var_os("RUSTFMT").unwrap_or_else(|| OsString::from("rustfmt"));
    let mut command = Command::new(program);
    command
        .args(["--edition", edition, "--emit", "stdout"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    // rustfmt reads its whole input before it writes, so the pipes cannot block each other.
    let sent = child.stdin.take()?.write_all(source.as_bytes());
    let output = child.wait_with_output().ok()?;
    sent.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Formats the sources of a crate. Line breaks depend on the lengths of names. Returns whether rustfmt succeeded.
pub(crate) fn format(folder: &Path) -> bool {
    let ended = silent(Command::new(cargo()).arg("fmt").current_dir(folder));
    ended.is_ok_and(|status| status.success())
}

/// Writes a file that only this user can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let failed = || Error::file(path, "written");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder, "made"))?;
    }
    let mut file = options.open(path).map_err(failed())?;
    file.write_all(text.as_bytes()).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        let files = Files::from([("src/main.rs".into(), "fn main() {}".to_owned())]);
        write_new(&new, &files).unwrap();
        fs::write(new.join("src/main.rs"), "mine").unwrap();
        let error = write_new(&new, &files).unwrap_err().to_string();
        assert!(error.contains("exists: choose another name"), "{error}");
        assert_eq!(fs::read_to_string(new.join("src/main.rs")).unwrap(), "mine");
    }

    #[test]
    fn after_a_failure_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        // The second path needs a folder with the name of the first file, so that its write fails.
        let files = [("a", ""), ("a/b", "")].map(|(path, text)| (path.into(), text.to_owned()));
        assert!(write_new(&new, &Files::from(files)).is_err());
        assert!(!new.exists());
    }
}
