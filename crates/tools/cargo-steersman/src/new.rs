//! Driver: `cargo steersman new`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::NewArgs;
use crate::error::Error;
use crate::files::{format, write_new};
use crate::names::{KindNames, ProgramName};
use crate::project::{cargo, silent};
use crate::scaffold::{CrateSource, operator};
use crate::screen::say;
use crate::shell_words::path_word;

/// The folder of the sources that this command was compiled from; `None` in a package of `cargo xtask dist`, which
/// holds no path of the machine that made it.
const OWN_SOURCES: Option<&str> = match option_env!("CARGO_STEERSMAN_PACKED") {
    Some(_) => None,
    None => Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")),
};

pub(crate) fn new(args: &NewArgs) -> Result<(), Error> {
    let program = ProgramName::new(&args.name)?;
    let kind = args.kind.clone().unwrap_or_else(|| program.kind());
    let named = (&*args.group, &*args.version, &*kind);
    let names = KindNames::new(named, args.plural.as_deref(), !args.cluster_scoped)?;
    let released = || CrateSource::Version(env!("CARGO_PKG_VERSION").to_owned());
    let source = match &args.steersman_path {
        Some(path) => sources(path)?,
        None if args.released => released(),
        None => OWN_SOURCES
            .and_then(|path| sources(Path::new(path)).ok())
            .unwrap_or_else(released),
    };
    let folder = match args.into == Path::new(".") {
        true => PathBuf::from(&args.name),
        false => args.into.join(&args.name),
    };
    let mut files = operator(&program, &names, &source);
    if let CrateSource::Path(sources) = &source
        && let Ok(lock) = std::fs::read_to_string(sources.join("Cargo.lock"))
    {
        // The lock file has the dependency versions that the framework was tested with.
        files.insert(PathBuf::from("Cargo.lock"), lock);
    }
    write_new(&folder, &files)?;
    let is_formatted = format(&folder);
    if files.contains_key(Path::new("Cargo.lock")) {
        prune_lock(&folder);
    }
    let number = files.len();
    let place = folder.display();
    let (group, version, kind) = named;
    say(format_args!(
        "made {place} with {number} files: {kind} in {group}/{version}"
    ));
    if !is_formatted {
        say("cargo fmt is not installed, so the files are not formatted");
    }
    if let CrateSource::Path(sources) = &source {
        let sources = sources.display();
        say(format_args!(
            "it depends on the sources in {sources}: `cargo steersman image` passes them to the build of the image, and \
             continuous integration needs them at the same place"
        ));
    }
    say("next:");
    say(format_args!("  cd {}", path_word(&folder)));
    say("  cargo steersman dev");
    Ok(())
}

/// Removes the packages from the lock file that the operator does not need.
///
/// Ignores a failure: the first build removes the same packages, or reports the reason of the failure.
fn prune_lock(folder: &Path) {
    let words = ["update", "--workspace", "--offline", "--quiet"];
    let _ = silent(Command::new(cargo()).args(words).current_dir(folder));
}

fn sources(folder: &Path) -> Result<CrateSource, Error> {
    let manifest = folder.join("crates/framework/steersman/Cargo.toml");
    let found = folder.canonicalize().ok();
    let found = found.filter(|_| manifest.is_file());
    let missing = || Error::NoSources(folder.to_owned());
    found.map(CrateSource::Path).ok_or_else(missing)
}
