//! Driver: `cargo steersman upgrade`.

mod merge_plan;
mod versions;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use self::merge_plan::{MergeStep, step};
use self::versions::{is_later, move_to};
use crate::api_kind;
use crate::command_line::UpgradeArgs;
use crate::comparison::difference;
use crate::error::Error;
use crate::files::{read_present, write};
use crate::names::ProgramName;
use crate::project::Project;
use crate::record::{RECORD, Record};
use crate::scaffold::{CrateSource, Files, infrastructure};
use crate::screen::say;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROPOSED: &str = ".proposed";

/// The files that an upgrade writes, and the messages that it prints.
#[derive(Debug, Default)]
struct Upgrade {
    differences: Vec<String>,
    lines: Vec<String>,
    /// The steps that are left to the user.
    notes: Vec<String>,
    files: Files,
}

/// Upgrades the operator in the current folder to the templates of this command (SCAFFOLD-1).
pub(crate) fn upgrade(args: &UpgradeArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let upgrade = plan(&project)?;
    if upgrade.files.is_empty() {
        say(format_args!(
            "nothing to do: the operator has all changes up to version {VERSION}"
        ));
    } else if !args.dry_run && !args.force && has_changes(&project.folder) {
        return Err(Error::NotCommitted(project.folder));
    }
    for text in upgrade.differences.iter().chain(&upgrade.lines) {
        say(text);
    }
    for note in &upgrade.notes {
        say(format_args!("note     {note}"));
    }
    if upgrade.files.is_empty() {
        return Ok(());
    }
    if args.dry_run {
        say("nothing was written: --dry-run");
        return Ok(());
    }
    write(&project.folder, &upgrade.files)?;
    say(format_args!(
        "upgraded to {VERSION}: build, test, and commit the result"
    ));
    Ok(())
}

fn plan(project: &Project) -> Result<Upgrade, Error> {
    let folder = &project.folder;
    let recorded = read_present(&folder.join(RECORD))?;
    let record = recorded.as_deref().map(Record::parse).transpose();
    let record = record.map_err(Error::Record)?;
    if let Some(record) = &record
        && is_later(&record.version, VERSION)
    {
        return Err(Error::LaterVersion(record.version.clone()));
    }
    let new = present_record(project, record.as_ref())?;
    let mut upgrade = Upgrade::default();
    if record.is_none() {
        upgrade.notes.push(format!(
            "there is no {RECORD}, so every file counts as changed by you"
        ));
    }
    let before = record.unwrap_or_default().files;
    for (path, text) in &new.files {
        let present = read_present(&folder.join(path))?;
        let base = before.get(path).map(String::as_str);
        let merge = |base: &str, present: &str| merged(present, base, text);
        let decided = step(base, present.as_deref(), text, merge);
        upgrade.add(path, present.as_deref().unwrap_or_default(), text, decided);
    }
    upgrade.add_manifest(folder)?;
    let text = new.text();
    if recorded.as_ref() != Some(&text) {
        let done = recorded.map_or("made", |_| "changed");
        upgrade.lines.push(format!("{done:<8} {RECORD}"));
        upgrade.files.insert(RECORD.into(), text);
    }
    Ok(upgrade)
}

/// Returns the record that `new` would write now.
fn present_record(project: &Project, record: Option<&Record>) -> Result<Record, Error> {
    let recorded = record.map(|record| (record.group.clone(), record.plural.clone()));
    let (group, plural) = recorded.unwrap_or_else(|| {
        // These names are guesses, which overwrite no file: without a record, every file counts as changed by the user.
        let kinds = api_kind::all(&project.folder).unwrap_or_default();
        let first = kinds.into_iter().next();
        first.map_or_else(Default::default, |kind| (kind.group, kind.plural))
    });
    let source = match &project.sources {
        Some(sources) => CrateSource::Path(sources.clone()),
        None => CrateSource::Version(VERSION.to_owned()),
    };
    let program = ProgramName::new(&project.name)?;
    Ok(infrastructure(&program, &group, &plural, &source))
}

impl Upgrade {
    fn add(&mut self, path: &str, present: &str, new: &str, step: MergeStep) {
        let (done, text, written) = match step {
            MergeStep::Keep => return,
            MergeStep::Make => ("made", new.to_owned(), path.to_owned()),
            MergeStep::Replace => ("changed", new.to_owned(), path.to_owned()),
            MergeStep::Merge(merged) => ("merged", merged, path.to_owned()),
            MergeStep::Propose => {
                let written = format!("{path}{PROPOSED}");
                self.notes.push(format!(
                    "{path} stays as you changed it: take over what you want of {written}, and remove that file"
                ));
                ("proposed", new.to_owned(), written)
            }
        };
        self.differences.push(difference(path, present, &text));
        self.lines.push(format!("{done:<8} {written}"));
        self.files.insert(written.into(), text);
    }

    fn add_manifest(&mut self, folder: &Path) -> Result<(), Error> {
        let path = "Cargo.toml";
        let before = read_present(&folder.join(path))?.unwrap_or_default();
        let moved = move_to(&before, VERSION).map_err(|problem| Error::Source {
            path: path.into(),
            problem,
        })?;
        self.notes.extend(moved.notes);
        if moved.text != before {
            self.add(path, &before, &moved.text, MergeStep::Replace);
            let note = "`cargo check` brings Cargo.lock up to date";
            self.notes.push(note.to_owned());
        }
        Ok(())
    }
}

fn git(folder: &Path, words: &[&str]) -> std::io::Result<Output> {
    Command::new("git")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
}

/// Returns whether a folder has uncommitted changes in git; `false` outside of a git work tree.
fn has_changes(folder: &Path) -> bool {
    let output = git(folder, &["status", "--porcelain", "--", "."]);
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

/// Merges the changes from `base` to `new` into the present text, with git. `None` if the changes conflict or git is
/// missing.
fn merged(present: &str, base: &str, new: &str) -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let texts = [("present", present), ("base", base), ("new", new)];
    let texts = texts.map(|(name, text)| (name.into(), text.to_owned()));
    write(folder.path(), &Files::from(texts)).ok()?;
    let words = ["merge-file", "--stdout", "present", "base", "new"];
    let output = git(folder.path(), &words)
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
