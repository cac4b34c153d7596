//! The tables of Kubernetes' own types, for the embedded API server, and of the lists in them that
//! merge, for the client: written from the sources of `k8s-openapi`, and checked against them.

mod facts;
mod source;
mod table;
mod lists;
mod zeros;
mod proto;

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

/// The version of the Kubernetes API, as `k8s-openapi` names its folder.
const VERSION: &str = "v1_36";

/// Where the table is, relative to the repository.
const TABLE: &str = "crates/steersman-schema/src/types/builtin.txt";

/// Where the table of the lists that strategic merges merge is, relative to the repository.
const LISTS: &str = "crates/steersman-client/src/strategic/lists.txt";

/// Where the table of protobuf messages is, relative to the repository.
const MESSAGES: &str = "crates/steersman-schema/src/types/protobuf.txt";

/// Writes the tables, or with `check` compares them with what would be written; with `proto`, the
/// table of protobuf messages from the sources in that folder.
///
/// # Errors
/// Says that the sources are missing, that one of them reads differently than expected, or that
/// a table is not up to date.
pub(crate) fn run(root: &Path, check: bool, proto: Option<&Path>) -> Result<(), String> {
    let folder = sources(root)?;
    let types = table::write(&source::read(&folder)?)?;
    if let Some(folder) = proto {
        let messages = proto::write(&types, &proto::read(folder)?)?;
        return settle(root, check, MESSAGES, &messages);
    }
    settle(root, check, LISTS, &lists::write(&types)?)?;
    settle(root, check, TABLE, &types)
}

/// Writes one table, or compares it.
fn settle(root: &Path, check: bool, table: &str, fresh: &str) -> Result<(), String> {
    let path = root.join(table);
    if !check {
        return fs::write(&path, fresh)
            .map_err(|error| format!("{} could not be written: {error}", path.display()));
    }
    let found = fs::read_to_string(&path)
        .map_err(|error| format!("{} could not be read: {error}", path.display()))?;
    if found == fresh {
        return Ok(());
    }
    Err(format!(
        "{table} is not what its sources say: run `cargo xtask schemas` and look at the difference"
    ))
}

/// The folder of the sources, where cargo has unpacked them.
fn sources(root: &Path) -> Result<PathBuf, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--offline".to_owned()])
        .exec()
        .map_err(|error| format!("cargo metadata gave no answer: {error}"))?;
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "k8s-openapi")
        .ok_or("k8s-openapi is no dependency of the workspace any more")?;
    let folder = package.manifest_path.parent();
    let folder = folder.map(|folder| folder.join("src").join(VERSION).into_std_path_buf());
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        format!("k8s-openapi has no folder src/{VERSION}: build the workspace first")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where cargo has not unpacked the sources there is nothing to compare with.
    #[test]
    fn the_tables_of_types_are_up_to_date() {
        let root = crate::repository();
        if sources(&root).is_ok() {
            run(&root, true, None).unwrap();
        }
    }
}
