//! The folder from which an image of the program is built.

use std::fs;
use std::path::Path;

use super::file::PackedFile;
use super::platform::Platform;
use super::{PACKAGE, PROGRAM};
use crate::files;

const RECIPE: &str = "Containerfile";

/// Writes the folder for the given platform; other platforms stay in it.
pub(super) fn write(
    root: &Path,
    out: &Path,
    platform: &Platform,
    program: Vec<u8>,
) -> Result<(), String> {
    let folder = out.join("container");
    // An empty folder, which becomes `/tmp` of the image.
    let empty = folder.join("tmp");
    fs::create_dir_all(&empty).map_err(|error| format!("{}: {error}", empty.display()))?;
    let recipe = files::bytes(&root.join(PACKAGE).join(RECIPE))?;
    super::write(&folder, &PackedFile::data(RECIPE, recipe))?;
    let name = format!("{}/{PROGRAM}", platform.name);
    super::write(&folder, &PackedFile::program(&name, program))
}
