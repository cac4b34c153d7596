//! Writes and checks the tables of Kubernetes' own types for the embedded API server, and of the lists
//! that strategic merge patches merge for the client, from the sources of `k8s-openapi`. The messages of
//! protobuf and the descriptions come from Go's sources.

mod facts;
mod source;
mod table;
mod lists;
mod go_types;
mod messages;
mod descriptions;

use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

use self::go_types::GoTypes;
use crate::files;

/// The version of the Kubernetes API, which is the name of a folder of `k8s-openapi`.
const VERSION: &str = "v1_36";

const TABLE: &str = "crates/server/steersman-schema/src/types/builtin.txt";

const LISTS: &str = "crates/framework/steersman-client/src/patch/strategic/lists.txt";

const MESSAGES: &str = "crates/framework/steersman-protobuf/src/messages.txt";

const DESCRIPTIONS: &str = "crates/server/steersman-schema/src/types/descriptions/descriptions.gz";

/// Writes the tables of types and lists, or with `go` the table of protobuf messages and the descriptions from
/// the Go sources in that folder. With `check` the tables are compared and nothing is written.
pub(crate) fn run(root: &Path, check: bool, go: Option<&Path>) -> Result<(), String> {
    let folder = sources(root)?;
    let structs = source::read(&folder)?;
    let types = table::write(&structs)?;
    if let Some(folder) = go {
        let go = GoTypes::read(folder)?;
        let packed = descriptions::write(&types, &structs, &go)?;
        write_or_compare(root, check, DESCRIPTIONS, &packed)?;
        let messages = messages::write(&types, &go)?;
        return write_or_compare(root, check, MESSAGES, messages.as_bytes());
    }
    if check {
        let packed = files::bytes(&root.join(DESCRIPTIONS))?;
        descriptions::check(&packed, &types, &structs)?;
    }
    write_or_compare(root, check, LISTS, lists::write(&types)?.as_bytes())?;
    write_or_compare(root, check, TABLE, types.as_bytes())
}

fn write_or_compare(root: &Path, check: bool, table: &str, fresh: &[u8]) -> Result<(), String> {
    let path = root.join(table);
    if !check {
        return files::write(&path, fresh);
    }
    if files::bytes(&path)? == fresh {
        return Ok(());
    }
    Err(format!(
        "{table} is out of date: run `cargo xtask schemas` and review the difference"
    ))
}

/// Returns the folder into which cargo has unpacked the sources of `k8s-openapi`.
fn sources(root: &Path) -> Result<PathBuf, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--offline".to_owned()])
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "k8s-openapi")
        .ok_or("the workspace does not depend on k8s-openapi")?;
    let folder = package.manifest_path.parent();
    let folder = folder.map(|folder| folder.join("src").join(VERSION).into_std_path_buf());
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        format!("k8s-openapi has no folder src/{VERSION}: build the workspace first")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes without a comparison if cargo has not unpacked the sources.
    #[test]
    fn the_tables_of_types_are_up_to_date() {
        let root = crate::repository();
        if sources(&root).is_ok() {
            run(&root, true, None).unwrap();
        }
    }
}
