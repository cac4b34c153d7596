//! Machine: the files of a controller for a kind that exists already.

use std::path::PathBuf;

use super::template::{filled, owned};
use super::{CONTROLLER, Files};
use crate::names::{ControllerNames, ProgramName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerTarget {
    pub(crate) kind: String,
    /// The Rust type of the kind, usually named as the kind.
    pub(crate) type_name: String,
    /// The module path of the Rust type; relative to the crate for a kind of the operator.
    pub(crate) path: String,
    pub(crate) is_namespaced: bool,
    pub(crate) origin: KindOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KindOrigin {
    /// The operator defines the kind and has samples of it.
    Own,
    BuiltIn {
        object: String,
    },
    /// Another program installs the definition of the kind.
    External {
        /// The path of the definition's file, relative to the folder of the operator.
        definition: String,
        object: String,
    },
}

/// Returns the files of a controller; `domain` is the prefix of the label that the controller sets.
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
    let path_from = |root: &str| match is_built_in {
        true => target.path.clone(),
        false => format!("{root}::{}", target.path),
    };
    let namespace = if target.is_namespaced {
        "namespace"
    } else {
        "_"
    };
    let values = owned([
        ("library", library),
        ("name", &names.name),
        ("module", &names.module),
        ("prefix", &names.type_prefix),
        ("kind", &target.kind),
        ("type", &target.type_name),
        ("path", &path_from("crate")),
        ("path_in_tests", &path_from(library)),
        ("namespace", namespace),
        ("sample", object.map_or("config/samples", |_| &object_file)),
        ("definition", definition.map_or("", String::as_str)),
        ("domain", domain),
    ]);
    let is_event = target.path == "k8s_openapi::api::core::v1" && target.kind == "Event";
    let sections = [
        ("namespaced", target.is_namespaced),
        ("own", target.origin == KindOrigin::Own),
        ("event", is_event),
        ("given", object.is_some()),
        ("external", definition.is_some()),
        ("builtin", is_built_in),
        ("inside", !is_built_in),
    ];
    let mut files = filled(&CONTROLLER, &values, &sections);
    files.extend(object.map(|object| (PathBuf::from(object_file), object.clone())));
    files
}
