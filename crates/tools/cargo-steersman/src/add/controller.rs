//! Driver: `cargo steersman add controller`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::built_in;
use super::external::{self, ExternalKind};
use crate::api_kind::{self, ApiKind};
use crate::change_set::ChangeSet;
use crate::command_line::AddControllerArgs;
use crate::edits::{with_call, with_module};
use crate::error::Error;
use crate::names::{ControllerNames, ProgramName, snake, type_name};
use crate::project::Project;
use crate::scaffold::{ControllerTarget, Files, KindOrigin, controller as files_of};
use crate::screen::say;

const MODULES: &str = "src/external.rs";
/// The domain of the labels in an operator that defines no kind.
const DOMAIN: &str = "example.com";

/// Adds a controller with its test to the operator in the current folder.
///
/// Writes nothing if a new file exists already or a source cannot be changed. A second call with the same arguments
/// changes nothing.
pub(crate) fn controller(args: &AddControllerArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let program = ProgramName::new(&project.name)?;
    let known = api_kind::all(&project.folder)?;
    let mut changes = ChangeSet::of(&project);
    let (target, remark) = target(args, &project.folder, &known, &mut changes)?;
    let names = match &args.name {
        Some(name) => ControllerNames::new(name)?,
        None => ControllerNames::of_kind(&target.kind)?,
    };
    let domain = known.first().map_or(DOMAIN, |kind| &kind.group);
    let (module, name) = (&names.module, &names.name);
    if !changes.add(files_of(&program, &names, &target, domain))? {
        check_own(&changes, &names, &target)?;
    }
    declare(&mut changes, module)?;
    let nothing = format!("the controller {name} is there already; nothing changed");
    let has_object = changes.has_new(format!("tests/objects/{module}.yaml"));
    changes.finish(args.dry_run, &nothing)?;
    if let Some(problem) = remark.filter(|_| has_object) {
        say(format_args!(
            "tests/objects/{module}.yaml needs your hand, before the test can pass: {problem}"
        ));
    }
    Ok(())
}

/// Declares the module of a controller and the module of its test.
pub(crate) fn declare(changes: &mut ChangeSet, module: &str) -> Result<(), Error> {
    changes.edit("src/controllers.rs", |source| {
        let source = with_module(source, module, "pub ")?;
        with_call(&source, "add_all", &format!("{module}::add"), "(manager)?")
    })?;
    changes.edit("tests/it/main.rs", |source| with_module(source, module, ""))
}

/// Returns the kind that the arguments name, and the reason if an API server refuses the example object of the kind.
fn target(
    args: &AddControllerArgs,
    folder: &Path,
    known: &[ApiKind],
    changes: &mut ChangeSet,
) -> Result<(ControllerTarget, Option<String>), Error> {
    let wanted = match &*args.for_kind {
        [api_version, kind] => Some((&**api_version, &**kind)),
        _ => None,
    };
    if let Some(path) = &args.definition {
        return external(changes, &external::find(path, wanted)?);
    }
    let Some((api_version, kind)) = wanted else {
        let Some(name) = &args.kind else {
            return Err(Error::NoKind);
        };
        let own = known.iter().find(|own| own.kind == *name);
        let own = own.ok_or_else(|| unknown(name.clone(), folder, known, name))?;
        return Ok((own_target(own), None));
    };
    let is_own = |own: &&ApiKind| {
        own.kind == kind && api_version == format!("{}/{}", own.group, own.newest())
    };
    if let Some(own) = known.iter().find(is_own) {
        return Ok((own_target(own), None));
    }
    let present = external::present(folder)?;
    if let Some(kind) = present.iter().find(|known| known.is(api_version, kind)) {
        return external(changes, kind);
    }
    let found = built_in::find(api_version, kind)
        .ok_or_else(|| unknown(format!("{api_version} {kind}"), folder, known, kind))?;
    let target = ControllerTarget {
        origin: KindOrigin::BuiltIn {
            object: yaml(&built_in::object(&found)),
        },
        type_name: type_name(&found.kind),
        path: built_in::path(&found),
        is_namespaced: found.namespaced,
        kind: found.kind,
    };
    Ok((target, None))
}

/// Returns the error for an unknown kind. The error suggests arguments for kinds with a similar name.
fn unknown(text: String, folder: &Path, own: &[ApiKind], kind: &str) -> Error {
    let is_like = |known: &str| known.eq_ignore_ascii_case(kind);
    let own = own.iter().filter(|own| is_like(&own.kind));
    let own = own.map(|own| format!("{} for the operator's own, in {}", own.kind, own.newest()));
    let mut known: Vec<String> = own.collect();
    let option = |api_version: &str, kind: &str| format!("--for {api_version} {kind}");
    let external = external::present(folder).unwrap_or_default();
    let external = external.iter().filter(|one| is_like(&one.kind));
    known.extend(external.map(|one| option(&one.api_version(), &one.kind)));
    let built_in = built_in::kinds().into_iter();
    let built_in = built_in.filter(|one| is_like(&one.kind));
    known.extend(built_in.map(|one| option(&one.api_version(), &one.kind)));
    Error::NoWatchedKind { kind: text, known }
}

fn own_target(kind: &ApiKind) -> ControllerTarget {
    ControllerTarget {
        path: format!("api::{}", kind.module),
        is_namespaced: kind.is_namespaced,
        type_name: kind.kind.clone(),
        kind: kind.kind.clone(),
        origin: KindOrigin::Own,
    }
}

/// Adds the Rust types and the definition of an external kind. Also returns the reason if an API server refuses the
/// example object.
fn external(
    changes: &mut ChangeSet,
    kind: &ExternalKind,
) -> Result<(ControllerTarget, Option<String>), Error> {
    let (module, file) = (snake(&kind.kind), kind.file());
    let definition = yaml(&kind.definition);
    changes.add(Files::from([(PathBuf::from(&file), definition)]))?;
    let path = PathBuf::from(format!("src/external/{module}.rs"));
    if let Some(present) = changes.read(&path)?
        && !present.starts_with(&kind.header())
    {
        // The existing file has the types of another version or group of the kind.
        return Err(Error::Exists(path));
    }
    changes.add(Files::from([(path, external::source(kind, &file))]))?;
    let modules = "//! Kinds that other programs define.\n\n".to_owned();
    changes.add(Files::from([(PathBuf::from(MODULES), modules)]))?;
    changes.edit(MODULES, |source| with_module(source, &module, "pub "))?;
    changes.edit("src/lib.rs", |source| {
        with_module(source, "external", "pub ")
    })?;
    let (object, refused) = kind.example();
    let target = ControllerTarget {
        path: format!("external::{module}"),
        is_namespaced: kind.is_namespaced,
        type_name: kind.type_name(),
        kind: kind.kind.clone(),
        origin: KindOrigin::External {
            definition: file,
            object: yaml(&object),
        },
    };
    Ok((target, refused))
}

/// Refuses to add a controller if its file exists and belongs to another controller, such as that of a kind.
fn check_own(
    changes: &ChangeSet,
    names: &ControllerNames,
    target: &ControllerTarget,
) -> Result<(), Error> {
    let path = PathBuf::from(format!("src/controllers/{}.rs", names.module));
    let source = changes.read(&path)?.unwrap_or_default();
    let is_own = source.contains(&format!("name({:?})", names.name))
        && source.contains(&format!("builder::<{}>", target.type_name))
        && source.contains(&target.path);
    match is_own {
        true => Ok(()),
        false => Err(Error::OtherController(path)),
    }
}

/// Returns an object as YAML. Every JSON object can be written as YAML.
fn yaml(object: &Value) -> String {
    let text = serde_saphyr::to_string(object).unwrap_or_default();
    format!("{}\n", text.trim_end())
}
