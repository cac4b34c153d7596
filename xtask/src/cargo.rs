//! Calls of cargo from a chore that cargo runs.

use std::path::Path;
use std::process::Command;

/// Returns a call of cargo without the variables that the running cargo set for this program: the build script of
/// `ring` depends on them, and every crate above it would be compiled again.
pub(crate) fn command(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}
