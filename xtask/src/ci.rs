//! Runs locally what CI runs; the list of steps lives in `.ci/run` and nowhere else.

use std::path::Path;
use std::process::Command;

/// Runs `.ci/run`, with only `steps` where any are named.
///
/// # Errors
/// Says that the script could not be started, or that it failed; the script itself has then
/// printed the step and its output.
pub(crate) fn run(root: &Path, steps: &[String]) -> Result<(), String> {
    let script = root.join(".ci/run");
    let status = Command::new(&script)
        .args(steps)
        .current_dir(root)
        .status()
        .map_err(|error| format!("{} could not be started: {error}", script.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(".ci/run ended with {status}"))
    }
}
