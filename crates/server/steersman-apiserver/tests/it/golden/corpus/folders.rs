//! Reads the folders of a corpus.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::difference::{Folder, is_definition};

/// The recording of a folder.
pub(super) const ANSWERS: &str = "answers.json";

/// Reads all folders with manifests, the given one and those below it.
pub(super) fn folders(root: &Path) -> Result<Vec<Folder>, String> {
    let (mut found, mut waiting) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = waiting.pop() {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let entries = std::fs::read_dir(&path).map_err(|error| problem(&error))?;
        let entries: Result<Vec<_>, _> = entries.map(|one| one.map(|one| one.path())).collect();
        let mut files = entries.map_err(|error| problem(&error))?;
        files.sort();
        let mut folder = Folder {
            path: path.clone(),
            manifests: Vec::new(),
            unreadable: Vec::new(),
            recording: BTreeMap::new(),
        };
        for file in files {
            let extension = file.extension().and_then(|one| one.to_str());
            if file.is_dir() {
                waiting.push(file);
            } else if file.ends_with(ANSWERS) {
                let text = std::fs::read(&file).map_err(|error| problem(&error))?;
                let read = serde_json::from_slice(&text);
                folder.recording = read.map_err(|error| format!("{}: {error}", file.display()))?;
            } else if let Some("yaml" | "yml" | "json") = extension {
                match manifests(&file) {
                    Ok(read) => folder.manifests.extend(read),
                    // The other files are compared all the same.
                    Err(why) => folder.unreadable.push(why),
                }
            }
        }
        // The sort is stable: definitions come first, otherwise the order is that of the names.
        folder.manifests.sort_by_key(|(_, one)| !is_definition(one));
        if !folder.manifests.is_empty() || !folder.unreadable.is_empty() {
            found.push(folder);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    if found.is_empty() {
        let root = root.display();
        return Err(format!("{root} has no manifests (*.yaml, *.yml, *.json)"));
    }
    Ok(found)
}

/// Reads the objects of a file, and those of its Lists. Of two values of one key the last one counts, as at a server.
fn manifests(file: &Path) -> Result<Vec<(String, Value)>, String> {
    let problem = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        format!(
            "{}: {}",
            file.display(),
            text.lines().next().unwrap_or_default()
        )
    };
    let text = std::fs::read_to_string(file).map_err(|error| problem(&error))?;
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .map_err(|error| problem(&error))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let objects = documents.into_iter().flat_map(objects);
    let named = objects.enumerate().map(|(index, object)| match index {
        0 => (name.to_string(), object),
        _ => (format!("{name}#{}", index + 1), object),
    });
    Ok(named.collect())
}

/// Returns the objects of a document: one, those of a List, or none.
fn objects(mut document: Value) -> Vec<Value> {
    if document["kind"] == "List"
        && let Value::Array(items) = document["items"].take()
    {
        return items.into_iter().flat_map(objects).collect();
    }
    let is_object = document["kind"].is_string();
    is_object.then_some(document).into_iter().collect()
}

#[test]
fn a_corpus_is_read_whatever_its_files_hold() {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("broken.yaml", "a: ["),
        ("twice.yaml", "kind: ConfigMap\nkind: Secret\n"),
        ("values.yaml", "- 1\n---\nimage: a\n"),
        (
            "list.json",
            r#"{"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Node"}]}"#,
        ),
    ] {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let folders = folders(root.path()).unwrap();
    let [folder] = &folders[..] else {
        panic!("{folders:?}");
    };
    let read: Vec<_> = folder.manifests.iter().map(|(name, _)| &**name).collect();
    assert_eq!(read, ["list.json", "list.json#2", "twice.yaml"]);
    assert_eq!(folder.manifests[2].1["kind"], "Secret");
    let [unreadable] = &folder.unreadable[..] else {
        panic!("{folder:?}");
    };
    assert!(unreadable.contains("broken.yaml: "), "{unreadable}");
}
