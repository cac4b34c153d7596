//! Driver: `cargo steersman new`.

use std::path::{Path, PathBuf};

use crate::command_line::NewArgs;
use crate::error::Error;
use crate::files::{format, write_new};
use crate::names::{KindNames, ProgramName};
use crate::scaffold::{Source, operator};
use crate::screen::say;

/// The folder that this command was built from.
const OWN_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Makes a new operator.
pub(crate) fn new(args: &NewArgs) -> Result<(), Error> {
    let program = ProgramName::new(&args.name)?;
    let kind = args.kind.clone().unwrap_or_else(|| program.kind());
    let named = (&*args.group, &*args.version, &*kind);
    let kind = KindNames::new(named, args.plural.as_deref(), !args.cluster_scoped)?;
    let source = match &args.steersman_path {
        Some(path) => sources(path)?,
        None => sources(Path::new(OWN_SOURCES))
            .unwrap_or_else(|_| Source::Version(env!("CARGO_PKG_VERSION").to_owned())),
    };
    let folder = match args.into == Path::new(".") {
        true => PathBuf::from(&args.name),
        false => args.into.join(&args.name),
    };
    let mut files = operator(&program, &kind, &source);
    if let Source::Path(sources) = &source
        && let Ok(lock) = std::fs::read_to_string(sources.join("Cargo.lock"))
    {
        // The versions that the framework was tested with. Cargo removes what the operator does not need.
        files.insert(PathBuf::from("Cargo.lock"), lock);
    }
    write_new(&folder, &files)?;
    let is_formatted = format(&folder);
    let number = files.len();
    let place = folder.display();
    say(format_args!(
        "made {place} with {number} files: {kind} in {group}/{version}",
        kind = kind.kind,
        group = kind.group,
        version = kind.version
    ));
    if !is_formatted {
        say("cargo fmt is not installed, so the files are not formatted");
    }
    if let Source::Path(sources) = &source {
        let sources = sources.display();
        say(format_args!(
            "it depends on the sources in {sources}: its image and its continuous integration need released crates"
        ));
    }
    say("next:");
    say(format_args!("  cd {place}"));
    say("  cargo steersman dev");
    Ok(())
}

/// Returns the sources in a folder.
fn sources(folder: &Path) -> Result<Source, Error> {
    let there = folder
        .join("crates")
        .join("steersman")
        .join("Cargo.toml")
        .is_file();
    let found = folder.canonicalize().ok().filter(|_| there);
    let missing = || Error::NoSources {
        path: folder.to_owned(),
    };
    found.map(Source::Path).ok_or_else(missing)
}
