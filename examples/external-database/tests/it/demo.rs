//! The demonstration, and the program that shows it.

use example_program::command::told;
use steersman_testenv::json_lines;
use tempfile::TempDir;

#[tokio::test]
async fn once_shows_the_demo_and_ends() {
    let said = demo_with(&[]).await;
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(said.contains("and the database with it"), "{said}");
}

#[tokio::test]
async fn the_demo_is_told_in_the_form_of_the_log() {
    let said = json_lines(&demo_with(&["--log-format=json"]).await).unwrap();
    assert_eq!(said.len(), 6, "{said:?}");
}

/// Returns what the program prints about its demonstration.
async fn demo_with(arguments: &[&str]) -> String {
    let home = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_external-database");
    let arguments = [&["--once"], arguments].concat();
    told(program, home.path(), &arguments).await.unwrap()
}
