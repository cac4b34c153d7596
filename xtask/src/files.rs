//! Files and folders, with errors that name the path.

use std::fs;
use std::path::Path;

pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the names of the files and folders in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, String> {
    let problem = |error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        names.extend(entry.map_err(problem)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
