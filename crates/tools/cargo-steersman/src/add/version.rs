//! Driver: `cargo steersman add version`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steersman_testenv::apiserver::manifests;

use crate::add::kind::CRD_IMPORT;
use crate::add::version_edits::with_version;
use crate::add::webhook::{WEBHOOKS, register};
use crate::api_kind::{self, ApiKind};
use crate::change_set::ChangeSet;
use crate::command_line::AddVersionArgs;
use crate::edits::{
    Edited, calls, with_argument_instead, with_function, with_import, with_link, with_module,
    without_import,
};
use crate::error::Error;
use crate::names::{self, ProgramName, VERSION_RULE, is_version, version_age};
use crate::project::Project;
use crate::scaffold::{Files, version_test};

/// Adds a version to a kind of the operator in the current folder, and adds the conversion of the kind to the webhooks.
pub(crate) fn version(args: &AddVersionArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let program = ProgramName::new(&project.name)?;
    let kind = api_kind::find(&project.folder, &args.kind)?;
    let version = &args.version;
    check(&kind, version)?;
    let nothing = format!("{} has {version} already; nothing changed", kind.kind);
    let mut changes = ChangeSet::of(&project);
    if kind.versions.contains(version) && !kind.is_versioned {
        return changes.finish(args.dry_run, &nothing);
    }
    changes.edit(kind.path(), |source| with_version(source, &kind, version))?;
    changes.edit("src/api.rs", |source| converted(source, &kind))?;
    register(&mut changes, &program)?;
    changes.edit(WEBHOOKS, |source| {
        let source = with_import(source, "crate::api")?;
        with_link(&source, "add_all", ".conversions(api::conversions())")
    })?;
    let sample = sample(&project.folder, &kind, version)?;
    // The test converts the sample of the former version.
    if !sample.is_empty() {
        let test = format!("{}_versions", kind.module);
        changes.add(version_test(&program, &kind, kind.newest()))?;
        changes.edit("tests/it/main.rs", |source| with_module(source, &test, ""))?;
    }
    changes.add(sample)?;
    changes.finish(args.dry_run, &nothing)
}

/// Refuses a version with an invalid name, and a version that is not newer than all versions of the kind.
fn check(kind: &ApiKind, version: &str) -> Result<(), Error> {
    names::check(is_version(version), "the version", version, VERSION_RULE)?;
    let is_known = kind.versions.iter().any(|known| known == version);
    let is_newer = version_age(version) > version_age(kind.newest());
    let rule = format!(
        "{} has the newer version {}: the fields of an older one are written by hand, in the history of each field",
        kind.kind,
        kind.newest()
    );
    names::check(is_known || is_newer, "the version", version, &rule)
}

/// Makes a source use the definition with all versions of the kind, and the conversions between these versions.
fn converted(source: &str, kind: &ApiKind) -> Edited {
    let (module, name) = (&kind.module, &kind.kind);
    let mut source = source.to_owned();
    if !calls(&source, "crds", &format!("{module}::crd"))? {
        let former = format!("{module}::{name}::crd()");
        let new = format!("{module}::crd()");
        source = with_argument_instead(&source, "crds", "with", (&former, &new))?;
        if calls(&source, "crds", &format!("{module}::{name}::crd"))? {
            return Err(format!(
                "its `definitions` uses `{former}` in another call than `.with({former})`: write `{new}` there"
            ));
        }
    }
    if !source.contains("::crd()") {
        source = without_import(&source, CRD_IMPORT)?;
    }
    let merge = format!(".merge({module}::conversions())");
    let text = format!(
        "/// Returns the conversions between the versions of the kinds.\n\
         pub fn conversions() -> Conversions {{\n    Conversions::new(){merge}\n}}\n"
    );
    let source = with_function(&source, "conversions", &text)?;
    let source = with_link(&source, "conversions", &merge)?;
    with_import(&source, "steersman::webhook::Conversions")
}

/// Returns the sample of the new version: the existing samples of the kind, with other object names.
fn sample(folder: &Path, kind: &ApiKind, version: &str) -> Result<Files, Error> {
    let samples = folder.join("config/samples");
    if !samples.exists() {
        return Ok(Files::new());
    }
    let api_version = |version: &str| json!(format!("{}/{version}", kind.group));
    let objects: Vec<Value> = manifests::read(samples)?
        .into_iter()
        .map(|one| one.object)
        .collect();
    let of = |wanted: &str| {
        let mut found = objects.iter().filter(|object| {
            object["kind"] == kind.kind.as_str() && object["apiVersion"] == api_version(wanted)
        });
        found.next().cloned()
    };
    let mut former = kind.versions.iter().rev().filter(|known| *known != version);
    let former = former.find_map(|known| Some((known, of(known)?)));
    let (Some((former, mut object)), None) = (former, of(version)) else {
        return Ok(Files::new());
    };
    object["apiVersion"] = api_version(version);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let stem = name.strip_suffix(&format!("-{former}")).unwrap_or(name);
    object["metadata"]["name"] = json!(format!("{stem}-{version}"));
    let text = serde_saphyr::to_string(&object).unwrap_or_default();
    let path = PathBuf::from(format!("config/samples/{}_{version}.yaml", kind.module));
    Ok(Files::from([(path, text)]))
}
