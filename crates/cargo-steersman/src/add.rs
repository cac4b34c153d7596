//! Driver: `cargo steersman add`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command_line::AddKindArgs;
use crate::edits::{Edited, with_call, with_definition, with_module};
use crate::error::Error;
use crate::files::{format, write};
use crate::names::{KindNames, ProgramName};
use crate::project::Project;
use crate::scaffold::{Files, kind as files_of};
use crate::screen::say;

/// Adds a kind with its controller, its test and its sample to the operator in the present folder.
///
/// Nothing is written if a file is in the way, or a source cannot be changed. A second call with the same words changes
/// nothing.
pub(crate) fn add_kind(args: &AddKindArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let folder = &project.folder;
    let program = ProgramName::new(&project.name)?;
    let group = known(args.group.as_deref(), folder, "group")?;
    let version = known(args.version.as_deref(), folder, "version")?;
    let named = (&*group, &*version, &*args.name);
    let kind = KindNames::new(named, args.plural.as_deref(), !args.cluster_scoped)?;
    let mut files = files_of(&program, &kind);
    let present: Vec<PathBuf> = files
        .keys()
        .filter(|path| folder.join(path).exists())
        .cloned()
        .collect();
    if let Some(path) = present.first().filter(|_| present.len() < files.len()) {
        let path = path.clone();
        return Err(Error::Exists { path });
    }
    if !present.is_empty() {
        // The kind was added before, and may have been changed since.
        files.clear();
    }
    let mut changed = edit(folder, "src/api.rs", |source| {
        let source = with_module(source, &kind.module, "pub ")?;
        with_definition(&source, &format!("{}::{}", kind.module, kind.kind))
    })?;
    changed.extend(edit(folder, "src/controllers.rs", |source| {
        let source = with_module(source, &kind.module, "pub ")?;
        with_call(
            &source,
            "add_all",
            &format!("{}::add", kind.module),
            "(manager)?",
        )
    })?);
    let tests = edit(folder, "tests/it/main.rs", |source| {
        with_module(source, &kind.module, "")
    })?;
    changed.extend(tests);
    for path in files.keys() {
        say(format_args!("new      {}", path.display()));
    }
    for path in changed.keys() {
        say(format_args!("changed  {}", path.display()));
    }
    if files.is_empty() && changed.is_empty() {
        say(format_args!(
            "{} is there already; nothing changed",
            kind.kind
        ));
    }
    if args.dry_run {
        return Ok(());
    }
    files.extend(changed);
    write(folder, &files)?;
    format(folder);
    Ok(())
}

/// Changes a source; empty if it stays as it is.
fn edit(folder: &Path, path: &str, change: impl FnOnce(&str) -> Edited) -> Result<Files, Error> {
    let file = folder.join(path);
    let source = fs::read_to_string(&file).map_err(Error::file(&file, "read"))?;
    let changed = change(&source).map_err(|problem| Error::Source {
        path: PathBuf::from(path),
        problem,
    })?;
    let is_changed = changed != source;
    Ok(is_changed
        .then(|| (PathBuf::from(path), changed))
        .into_iter()
        .collect())
}

/// Returns the given name, or else that of another kind of the operator.
pub(crate) fn known(
    given: Option<&str>,
    folder: &Path,
    what: &'static str,
) -> Result<String, Error> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let place = folder.join("src/api");
    let mut kinds: Vec<PathBuf> = fs::read_dir(&place)
        .map_err(Error::file(&place, "read"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    kinds.sort();
    let start = format!("{what} = \"");
    let found = kinds.iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let (_, rest) = text.split_once(&start)?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    found.ok_or_else(|| Error::Name {
        what: "the kind without",
        text: what.to_owned(),
        rule: format!("no other kind has one: add --{what}"),
    })
}
