//! The demonstration, and the program that shows it.

use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::Command;

#[tokio::test]
async fn once_shows_the_demo_and_ends() {
    let home = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_external-database"));
    command
        .arg("--once")
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let (said, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}{log}");
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(said.contains("and the database with it"), "{said}");
}
