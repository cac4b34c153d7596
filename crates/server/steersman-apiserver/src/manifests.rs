//! Driver: reads objects from YAML and JSON files.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use steersman_apimachinery::yaml::{self, Document};

const DEEPEST: usize = 16;
const KINDS: [&str; 3] = ["yaml", "yml", "json"];

/// An object that was read from a file, and its position there, which is shown as `crd/site.yaml:12`.
#[derive(Debug, Clone, PartialEq, derive_more::Display)]
#[display("{}:{line}", file.display())]
pub struct Manifest {
    /// The object that the document describes.
    pub object: Value,
    /// The path of the file.
    pub file: PathBuf,
    /// The line, counted from 1, at which the document of the object begins; for an item of a List, that of the List.
    pub line: u64,
}

/// The reason why a manifest could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The operating system failed to read the file or folder.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file or folder that cannot be read.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is not valid YAML.
    #[error("{}: {problem}", path.display())]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// The mistake in the YAML, as the parser describes it.
        problem: String,
    },
}

/// Reads the objects of a file, or of the `.yaml`, `.yml` and `.json` files of a folder and its
/// subfolders, in the order of their names. A file may hold several documents; a List stands for
/// its items. YAML is parsed as kubectl parses it, so that `0400` is 256 and `yes` is true.
///
/// # Errors
/// [`ManifestError`], which names the file.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Manifest>, ManifestError> {
    let mut files = Vec::new();
    find(path.as_ref(), DEEPEST, &mut files)?;
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(unreadable(&file))?;
        let path = file.clone();
        let found = yaml::documents(&text);
        let found = found.map_err(|problem| ManifestError::Parse { path, problem })?;
        for document in found {
            let line = document.line as u64;
            all.extend(objects(document).map(|object| Manifest {
                object,
                file: file.clone(),
                line,
            }));
        }
    }
    Ok(all)
}

fn find(path: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> Result<(), ManifestError> {
    if !std::fs::metadata(path).map_err(unreadable(path))?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(unreadable(path))?;
    let inside: Result<Vec<_>, _> = entries.map(|entry| entry.map(|one| one.path())).collect();
    let mut inside = inside.map_err(unreadable(path))?;
    inside.sort();
    for one in inside {
        let ending = one.extension();
        let manifest = ending.is_some_and(|ending| KINDS.iter().any(|known| ending == *known));
        if manifest || (one.is_dir() && deeper > 0) {
            find(&one, deeper.saturating_sub(1), files)?;
        }
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ManifestError {
    let path = path.to_owned();
    move |source| ManifestError::Read { path, source }
}

/// Returns the objects of a document: the items of a List, nothing for an empty document, else the document itself.
fn objects(document: Document) -> impl Iterator<Item = Value> {
    let mut document = document.value;
    let kind = document["kind"].as_str();
    let is_list = kind.is_some_and(|kind| kind.ends_with("List"));
    let items = document.get_mut("items").filter(|_| is_list);
    match items.map(Value::take) {
        Some(Value::Array(items)) => items,
        _ if document.is_null() => Vec::new(),
        _ => vec![document],
    }
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind: A
---
# A comment alone makes no document.
---
kind: B
items: [1]
---
apiVersion: v1
kind: List
items:
- kind: C
- kind: D
";

    fn kinds(path: &Path) -> Vec<String> {
        let all = read(path).unwrap();
        let kind = |one: &Manifest| one.object["kind"].as_str().unwrap().to_owned();
        all.iter().map(kind).collect()
    }

    #[test]
    fn folders_are_read_recursively_and_in_order() {
        let folder = tempfile::TempDir::new().unwrap();
        let inside = folder.path().join("crd/bases");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("two.yaml"), TEXT).unwrap();
        std::fs::write(folder.path().join("z.json"), r#"{"kind": "E"}"#).unwrap();
        std::fs::write(folder.path().join("readme.md"), "- no: [yaml").unwrap();
        assert_eq!(kinds(folder.path()), ["A", "B", "C", "D", "E"]);
        assert_eq!(kinds(&folder.path().join("z.json")), ["E"]);
    }

    #[test]
    fn objects_name_their_file_and_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, TEXT).unwrap();
        let places: Vec<_> = read(&path)
            .unwrap()
            .iter()
            .map(Manifest::to_string)
            .collect();
        let place = |line| format!("{}:{line}", path.display());
        // The two items of the List at line 8 have the line of the List.
        assert_eq!(places, [1, 5, 8, 8].map(place));
    }

    #[test]
    fn an_error_names_its_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        let text = read(&path).unwrap_err().to_string();
        assert!(text.ends_with("a.yaml cannot be read"), "{text}");
        std::fs::write(&path, "a: [").unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("a.yaml: "), "{text}");
    }
}
