//! Driver: runs a program for a test.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// Returns a command that starts a program as a user without settings does: in an empty home directory, and with no
/// other variable.
pub fn command(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a program to its end, and returns what it prints.
///
/// # Errors
///
/// What the program prints and logs, if it ends with an error.
pub async fn told(program: &str, home: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = command(program, home).args(arguments).output().await;
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(said + &String::from_utf8_lossy(&output.stderr)),
    }
}
