//! The demonstration, and the program that shows it.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};

use example_program::BoxError;
use example_program::command::told;
use secret_replicator::demo;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::json_lines;
use tempfile::TempDir;

#[tokio::test(start_paused = true)]
async fn every_step_of_the_demo_has_its_effect() -> Result<(), BoxError> {
    let steps = AtomicUsize::new(0);
    let count = |_: &dyn Display| {
        steps.fetch_add(1, Ordering::Relaxed);
    };
    demo::run(count, &ApiServer::new()).await?;
    assert_eq!(steps.into_inner(), 6);
    Ok(())
}

#[tokio::test]
async fn once_shows_the_demo_and_ends() {
    let said = demo_with(&[]).await;
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(said.contains("so was its last copy"), "{said}");
}

#[tokio::test]
async fn the_demo_is_told_in_the_form_of_the_log() {
    let said = json_lines(&demo_with(&["--log-format=json"]).await).unwrap();
    assert_eq!(said.len(), 6, "{said:?}");
}

/// Returns what the program prints about its demonstration.
async fn demo_with(arguments: &[&str]) -> String {
    let home = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_secret-replicator");
    let arguments = [&["--once"], arguments].concat();
    told(program, home.path(), &arguments).await.unwrap()
}
