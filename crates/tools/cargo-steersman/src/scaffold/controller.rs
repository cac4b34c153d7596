//! Machine: the files of a controller of a kind that the operator has already, or that it does not define.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Files;
use super::template::{filled, with_sections};
use crate::names::{ControllerNames, ProgramName};

/// The kind that a controller reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerTarget {
    /// The kind, such as `Greeting`.
    pub(crate) kind: String,
    /// The name of its type in Rust, which is mostly the kind.
    pub(crate) type_name: String,
    /// The module of its type; for a type of the operator below the crate.
    pub(crate) path: String,
    /// Whether its objects are in namespaces.
    pub(crate) is_namespaced: bool,
    /// Where the kind comes from.
    pub(crate) origin: KindOrigin,
}

/// Where a kind comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KindOrigin {
    /// The operator defines the kind, and has samples of it.
    Own,
    /// Kubernetes has the kind.
    BuiltIn {
        /// A valid object as YAML, for the test.
        object: String,
    },
    /// Another program installs the definition of the kind.
    External {
        /// The path of the file of the definition, below the folder of the operator.
        definition: String,
        /// A valid object as YAML, for the test.
        object: String,
    },
}

/// The files of a controller.
const CONTROLLER: [(&str, &str); 2] = [
    (
        "src/controllers/{{module}}.rs",
        include_str!("../../templates/controller/controller.rs.tmpl"),
    ),
    (
        "tests/it/{{module}}.rs",
        include_str!("../../templates/controller/test.rs.tmpl"),
    ),
];

/// Returns the files of a controller; `domain` is the prefix of its label.
pub(crate) fn controller(
    program: &ProgramName,
    names: &ControllerNames,
    target: &ControllerTarget,
    domain: &str,
) -> Files {
    let library = &program.library;
    let object_file = format!("tests/objects/{}.yaml", names.module);
    let (object, definition) = match &target.origin {
        KindOrigin::Own => (None, None),
        KindOrigin::BuiltIn { object } => (Some(object), None),
        KindOrigin::External { object, definition } => (Some(object), Some(definition)),
    };
    let is_built_in = matches!(target.origin, KindOrigin::BuiltIn { .. });
    let (path, path_in_tests) = match is_built_in {
        true => (target.path.clone(), target.path.clone()),
        false => (
            format!("crate::{}", target.path),
            format!("{library}::{}", target.path),
        ),
    };
    let sample = match object {
        Some(_) => object_file.clone(),
        None => "config/samples".to_owned(),
    };
    let namespace = match target.is_namespaced {
        true => "namespace",
        false => "_",
    };
    let values = BTreeMap::from([
        ("library", library.clone()),
        ("name", names.name.clone()),
        ("module", names.module.clone()),
        ("prefix", names.type_prefix.clone()),
        ("kind", target.kind.clone()),
        ("type", target.type_name.clone()),
        ("path", path),
        ("path_in_tests", path_in_tests),
        ("namespace", namespace.to_owned()),
        ("sample", sample),
        ("definition", definition.cloned().unwrap_or_default()),
        ("domain", domain.to_owned()),
    ]);
    let sections = [
        ("namespaced", target.is_namespaced),
        ("own", target.origin == KindOrigin::Own),
        (
            "event",
            target.path == "k8s_openapi::api::core::v1" && target.kind == "Event",
        ),
        ("given", object.is_some()),
        ("external", definition.is_some()),
        ("builtin", is_built_in),
        ("inside", !is_built_in),
    ];
    let templates = CONTROLLER.map(|(path, text)| (path, with_sections(text, &sections)));
    let templates = templates.each_ref().map(|(path, text)| (*path, &**text));
    let mut files = filled(&templates, &values);
    if let Some(object) = object {
        files.insert(PathBuf::from(object_file), object.clone());
    }
    files
}
