//! The Python wheel with the program, in the binary distribution format of packaging.python.org (version 1.0).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::file::{PackedFile, Packing};
use super::hash::sha256_record;
use super::platform::Platform;
use super::zip::zip;
use super::{PACKAGE, PROGRAM};
use crate::files;

/// The name of the Python package, and the name of the distribution in file names.
const MODULE: &str = "steersman_apiserver";
/// The notice of the descriptions that the program holds.
const NOTICE: &str = "crates/server/steersman-schema/src/types/descriptions/NOTICE";

/// The file `pyproject.toml`, as far as a wheel needs it.
#[derive(Debug, Deserialize)]
struct Pyproject {
    project: Project,
}

/// The table `[project]`. An unknown key is an error, because the wheel would lack it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Project {
    name: String,
    /// Names the version, which is that of the workspace.
    dynamic: Vec<String>,
    description: String,
    readme: String,
    requires_python: String,
    license: String,
    keywords: Vec<String>,
    classifiers: Vec<String>,
    scripts: BTreeMap<String, String>,
    entry_points: BTreeMap<String, BTreeMap<String, String>>,
}

pub(super) fn wheel(
    root: &Path,
    platform: &Platform,
    program: &[u8],
    packing: &Packing,
) -> Result<PackedFile, String> {
    let folder = root.join(PACKAGE).join("python");
    let path = folder.join("pyproject.toml");
    let parsed = toml::from_str::<Pyproject>(&files::text(&path)?);
    let project = parsed
        .map_err(|error| format!("{}: {error}", path.display()))?
        .project;
    if project.dynamic != ["version"] {
        return Err(format!(
            "{}: the version is that of the workspace; write `dynamic = [\"version\"]`",
            path.display()
        ));
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut files = modules(&folder.join(MODULE))?;
    let name = format!("{MODULE}/bin/{PROGRAM}");
    files.push(PackedFile::program(&name, program.to_vec()));
    let about = format!("{MODULE}-{version}.dist-info");
    let readme = files::text(&folder.join(&project.readme))?;
    let licence = files::bytes(&root.join("LICENSE"))?;
    let notice = files::bytes(&root.join(NOTICE))?;
    for (name, content) in [
        ("licenses/LICENSE", licence),
        ("licenses/NOTICE", notice),
        ("METADATA", metadata(&project, version, &readme).into()),
        ("WHEEL", head(platform).into()),
        ("entry_points.txt", entry_points(&project).into()),
    ] {
        files.push(PackedFile::data(&format!("{about}/{name}"), content));
    }
    let record = record(&files, &format!("{about}/RECORD"));
    files.push(record);
    let name = format!("{MODULE}-{version}-py3-none-{}.whl", platform.wheel_tag);
    Ok(PackedFile::data(&name, zip(&files, packing)?))
}

/// Reads the modules of the package and its mark that types are declared, in the order of their names.
fn modules(folder: &Path) -> Result<Vec<PackedFile>, String> {
    let mut names = files::names(folder)?;
    names.retain(|name| name.ends_with(".py") || name == "py.typed");
    let read = |name: String| {
        let bytes = files::bytes(&folder.join(&name))?;
        Ok(PackedFile::data(&format!("{MODULE}/{name}"), bytes))
    };
    names.into_iter().map(read).collect()
}

fn metadata(project: &Project, version: &str, readme: &str) -> String {
    let mut text = format!(
        "Metadata-Version: 2.4\nName: {}\nVersion: {version}\nSummary: {}\nKeywords: {}\nLicense-Expression: {}\n\
         License-File: LICENSE\nLicense-File: NOTICE\nRequires-Python: {}\n",
        project.name,
        project.description,
        project.keywords.join(","),
        project.license,
        project.requires_python,
    );
    for classifier in &project.classifiers {
        text.push_str(&format!("Classifier: {classifier}\n"));
    }
    text.push_str("Description-Content-Type: text/markdown\n\n");
    text.push_str(readme);
    text
}

fn head(platform: &Platform) -> String {
    let mut text =
        "Wheel-Version: 1.0\nGenerator: steersman-xtask\nRoot-Is-Purelib: false\n".to_owned();
    // The name of the file has all tags in one; this file has one line per tag.
    for tag in platform.wheel_tag.split('.') {
        text.push_str(&format!("Tag: py3-none-{tag}\n"));
    }
    text
}

fn entry_points(project: &Project) -> String {
    let mut text = "[console_scripts]\n".to_owned();
    for (name, function) in &project.scripts {
        text.push_str(&format!("{name} = {function}\n"));
    }
    for (group, entries) in &project.entry_points {
        text.push_str(&format!("\n[{group}]\n"));
        for (name, object) in entries {
            text.push_str(&format!("{name} = {object}\n"));
        }
    }
    text
}

/// Returns the list of all files with their hashes, as CSV. Its own line has no hash.
fn record(files: &[PackedFile], name: &str) -> PackedFile {
    let mut text = String::new();
    for file in files {
        let (hash, size) = (sha256_record(&file.bytes), file.bytes.len());
        text.push_str(&format!("{},{hash},{size}\n", file.name));
    }
    text.push_str(&format!("{name},,\n"));
    PackedFile::data(name, text)
}
