//! Lives seeded worlds, more of them than the tests do.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// The test that does it, and the variable by which it is told.
const TEST: &str = "seeds::every_world_ends_with_each_store_and_each_onlooker_equal_to_the_server";
const SEEDS: &str = "STEERSMAN_SEEDS";

/// Lives the worlds of these seeds.
///
/// # Errors
/// Says that cargo could not be started, or that a seed fails; the test has printed why by then.
pub(crate) fn run(root: &Path, seeds: &Range<u64>) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "--quiet", "-p", "steersman-informer"])
        .args(["--test", "it", "--", "--exact", "--nocapture", TEST])
        .env(SEEDS, format!("{}..{}", seeds.start, seeds.end))
        .current_dir(root);
    let status = command
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a seed fails".to_owned())
    }
}
