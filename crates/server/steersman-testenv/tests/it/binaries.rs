//! Environments with programs that are not real servers, in the form of shell scripts.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use steersman_testenv::{Assets, Backend, Error, TestEnv};
use tempfile::TempDir;

fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

async fn refused(folder: &TempDir, within: Duration) -> Error {
    let assets = Assets::in_folder(folder.path());
    let builder = TestEnv::builder()
        .backend(Backend::Binaries(assets))
        .start_within(within);
    builder.start().await.unwrap_err()
}

#[tokio::test]
async fn the_error_of_a_folder_without_binaries_names_the_missing_one() {
    let folder = TempDir::new().unwrap();
    let text = refused(&folder, Duration::from_secs(60)).await.to_string();
    assert!(
        text.starts_with("there is no ") && text.contains("/etcd: set"),
        "{text}"
    );
}

#[tokio::test]
async fn an_etcd_that_exits_is_retried_and_then_reported_with_its_log() {
    let folder = TempDir::new().unwrap();
    let tries = folder.path().join("tries");
    let script = format!(
        "echo once >> {}; echo 'bind: address in use'; exit 1",
        tries.display()
    );
    program(folder.path(), "etcd", &script);
    let text = refused(&folder, Duration::from_secs(60)).await.to_string();
    assert!(
        text.starts_with("etcd ended before it was ready (exit status: 1)"),
        "{text}"
    );
    assert!(text.ends_with("bind: address in use"), "{text}");
    assert_eq!(std::fs::read_to_string(tries).unwrap().lines().count(), 3);
}

#[tokio::test]
async fn a_silent_etcd_is_reported_and_killed() {
    let folder = TempDir::new().unwrap();
    program(folder.path(), "etcd", "exec sleep 1000");
    let error = refused(&folder, Duration::from_millis(1)).await;
    let text = error.to_string();
    assert!(text.starts_with("etcd was not ready after 1ms"), "{text}");
    assert!(text.ends_with("it logged nothing"), "{text}");
}
