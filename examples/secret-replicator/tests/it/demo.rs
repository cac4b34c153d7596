//! The demonstration, and the program that shows it.

use std::process::Stdio;

use secret_replicator::{BoxError, demo};
use steersman_testenv::apiserver::ApiServer;
use tempfile::TempDir;
use tokio::process::Command;

#[tokio::test(start_paused = true)]
async fn every_step_of_the_demo_has_its_effect() -> Result<(), BoxError> {
    let mut out = Vec::new();
    demo::run(&mut out, &ApiServer::new()).await?;
    assert_eq!(String::from_utf8(out)?.lines().count(), 6);
    Ok(())
}

#[tokio::test]
async fn once_shows_the_demo_and_ends() {
    let home = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_secret-replicator"));
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
    assert!(said.contains("so was its last copy"), "{said}");
}
