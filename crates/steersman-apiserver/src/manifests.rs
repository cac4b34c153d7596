//! Driver: the objects in YAML and JSON files.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// How deep folders are read.
const DEEPEST: usize = 16;
/// What the names of manifests in a folder end with.
const KINDS: [&str; 3] = ["yaml", "yml", "json"];

/// Why a manifest could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The operating system does not give it.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It is no YAML.
    #[error("{}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// The objects of a file, or of the `.yaml`, `.yml` and `.json` files of a folder and those below
/// it, in the order of their names. A file may hold several documents; a List stands for its items.
///
/// # Errors
/// [`ManifestError`], which names the file.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Value>, ManifestError> {
    let mut files = Vec::new();
    find(path.as_ref(), DEEPEST, &mut files)?;
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(unreadable(&file))?;
        match documents(&text) {
            Ok(found) => objects.extend(found),
            Err(problem) => {
                let path = file;
                return Err(ManifestError::Parse { path, problem });
            }
        }
    }
    Ok(objects)
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

fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for mut document in documents {
        let is_list = document["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        match document
            .get_mut("items")
            .filter(|_| is_list)
            .map(Value::take)
        {
            Some(Value::Array(items)) => all.extend(items),
            _ if document.is_null() => {}
            _ => all.push(document),
        }
    }
    Ok(all)
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
        let kind = |one: &Value| one["kind"].as_str().unwrap().to_owned();
        all.iter().map(kind).collect()
    }

    #[test]
    fn folders_are_read_to_their_depth_and_in_order() {
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
    fn what_is_wrong_names_its_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        let text = read(&path).unwrap_err().to_string();
        assert!(text.ends_with("a.yaml cannot be read"), "{text}");
        std::fs::write(&path, "a: [").unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("a.yaml: "), "{text}");
    }
}
