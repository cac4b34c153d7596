//! Driver: `cargo steersman add kind`.

use super::controller::declare;
use crate::api_kind::{self, ApiKind};
use crate::change_set::ChangeSet;
use crate::command_line::AddKindArgs;
use crate::edits::{with_import, with_link, with_module};
use crate::error::Error;
use crate::names::{KindNames, ProgramName, check};
use crate::project::{EXPLORATIONS, Project};
use crate::scaffold::{exploration, explorations, kind as files_of};

/// Adds a kind with its controller, its test and its sample to the operator in the current folder.
///
/// Writes nothing if a new file exists already or a source cannot be changed. A second call with the same arguments
/// changes nothing.
pub(crate) fn kind(args: &AddKindArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let program = ProgramName::new(&project.name)?;
    let known = api_kind::all(&project.folder)?;
    let group = given_or_known(args.group.as_deref(), &known, "group", |kind| &kind.group)?;
    let version = given_or_known(args.version.as_deref(), &known, "version", ApiKind::newest)?;
    let named = (&*group, &*version, &*args.name);
    let kind = KindNames::new(named, args.plural.as_deref(), !args.cluster_scoped)?;
    let is_list = |known: &ApiKind| format!("{}List", known.kind) == args.name;
    if let Some(other) = known.iter().find(|known| is_list(known)) {
        let rule = format!("lists of {} have this name", other.kind);
        check(false, "the kind", &args.name, &rule)?;
    }
    let mut changes = ChangeSet::of(&project);
    changes.add(files_of(&program, &kind))?;
    let module = &kind.module;
    let is_versioned = known
        .iter()
        .any(|known| known.module == *module && known.is_versioned);
    changes.edit("src/api.rs", |source| {
        let source = with_module(source, module, "pub ")?;
        if is_versioned {
            // `add version` has replaced the definition in `crds`, so nothing is to be added.
            return Ok(source);
        }
        let link = format!(".with({module}::{}::crd())", kind.kind);
        let defined = with_link(&source, "crds", &link)?;
        with_import(&defined, CRD_IMPORT)
    })?;
    declare(&mut changes, module)?;
    explore(&mut changes, &project, &program, &kind)?;
    let nothing = format!("{} is there already; nothing changed", kind.kind);
    changes.finish(args.dry_run, &nothing)
}

/// Adds the exploration of the kind. An operator of an earlier release has no list of explorations yet; a second `add kind`
/// of its kinds adds theirs.
fn explore(
    changes: &mut ChangeSet,
    project: &Project,
    program: &ProgramName,
    kind: &KindNames,
) -> Result<(), Error> {
    changes.add(exploration(program, kind))?;
    if project.folder.join(EXPLORATIONS).exists() {
        return changes.edit(EXPLORATIONS, |source| with_module(source, &kind.module, ""));
    }
    changes.add(explorations(program, kind))?;
    changes.edit("tests/it/main.rs", |source| {
        with_module(source, "explore", "")
    })
}

/// The import that a source needs to call `crd` of a kind.
pub(crate) const CRD_IMPORT: &str = "steersman::kube_core::CustomResourceExt as _";

/// Returns the given name, or else the name that another kind of the operator has.
fn given_or_known(
    given: Option<&str>,
    known: &[ApiKind],
    what: &'static str,
    of: impl Fn(&ApiKind) -> &str,
) -> Result<String, Error> {
    let name = given.or_else(|| known.first().map(of));
    name.map(str::to_owned).ok_or_else(|| Error::Name {
        what: "the kind without",
        text: what.to_owned(),
        rule: format!("no other kind has one: add --{what}"),
    })
}
