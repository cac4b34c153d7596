//! Machine: a folder of generated files, with its kustomization.

use serde_json::json;

use crate::files::{FROM_PROGRAM, Files, header};
use crate::yaml;

/// The files of one folder of `config`, in the order of its kustomization.
pub(crate) struct Folder {
    path: String,
    files: Files,
    names: Vec<String>,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            path: format!("config/{name}"),
            files: Files::new(),
            names: Vec::new(),
        }
    }

    /// Adds a file. `from` is its source for the first line, and `text` follows that line.
    pub(crate) fn add(&mut self, name: &str, from: &str, text: &str) {
        let path = format!("{}/{name}", self.path);
        self.files.insert(path, header(from) + text);
        self.names.push(name.to_owned());
    }

    /// Returns the files and their kustomization; nothing for an empty folder.
    pub(crate) fn finish(mut self) -> Files {
        if !self.names.is_empty() {
            let path = format!("{}/kustomization.yaml", self.path);
            self.files.insert(path, kustomization(&self.names));
        }
        self.files
    }
}

pub(crate) fn kustomization(resources: &[String]) -> String {
    let value = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
    });
    let resources = resources.iter().map(|resource| format!("- {resource}\n"));
    let resources: String = resources.collect();
    header(FROM_PROGRAM) + &yaml::document(&value) + "resources:\n" + &resources
}
