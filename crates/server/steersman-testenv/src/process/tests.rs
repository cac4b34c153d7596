//! Programs that behave well and badly, in the form of shell scripts.
#![cfg(unix)]

use std::future::ready;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tempfile::TempDir;

use super::*;

/// Writes a shell script as a program.
fn program(folder: &TempDir, script: &str) -> PathBuf {
    let path = folder.path().join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn start(folder: &TempDir, script: &str) -> Process {
    let log = folder.path().join("log");
    Process::start(&program(folder, script), &[], &log, false).unwrap()
}

/// Waits until a program has written a file, and returns the content.
async fn written(path: PathBuf) -> String {
    crate::eventually("the file", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        ready(if text.ends_with('\n') {
            Ok(text.trim().to_owned())
        } else {
            Err(text)
        })
    })
    .await
    .unwrap()
}

/// Returns whether a process with this id runs; a zombie does not.
fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output();
    let stat = String::from_utf8(output.unwrap().stdout).unwrap();
    !stat.trim().is_empty() && !stat.starts_with('Z')
}

async fn gone(pid: &str) {
    crate::eventually("the end of the process", || {
        ready(if runs(pid) {
            Err(pid.to_owned())
        } else {
            Ok(())
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_ready_program_ends_after_the_termination_signal() {
    let folder = TempDir::new().unwrap();
    let up = folder.path().join("up");
    let script = format!(
        "trap 'echo bye; exit 0' TERM; echo ready > {}; while :; do sleep 0.05; done",
        up.display()
    );
    let mut process = start(&folder, &script);
    let look = || {
        ready(if up.exists() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        })
    };
    process.ready(Duration::from_secs(30), look).await.unwrap();
    assert!(process.stop(Duration::from_secs(30)).await);
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("bye"), "{log}");
}

#[tokio::test]
async fn the_error_of_a_program_that_is_never_ready_contains_its_log() {
    let folder = TempDir::new().unwrap();
    let mut process = start(&folder, "echo waiting for etcd; sleep 1000");
    written(folder.path().join("log")).await;
    let not_yet = || ready(Err("503 etcd failed".to_owned()));
    let error = process.ready(Duration::ZERO, not_yet).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "program was not ready after 0ns (last answer: 503 etcd failed); \
         its log ends with:\n    waiting for etcd"
    );
}

#[tokio::test]
async fn the_error_of_a_program_that_exits_contains_its_status_and_log() {
    let folder = TempDir::new().unwrap();
    let mut process = start(
        &folder,
        "for i in $(seq 30); do echo line $i; done; echo 'unknown flag: --x' >&2; exit 3",
    );
    let never = || ready(Err("none".to_owned()));
    let error = process
        .ready(Duration::from_secs(60), never)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("program ended before it was ready (exit status: 3); its log ends with:"),
        "{text}"
    );
    assert!(text.ends_with("\n    unknown flag: --x"), "{text}");
    assert_eq!(
        text.lines().count(),
        1 + TAIL,
        "no more than the tail: {text}"
    );
}

// ENV-1.
#[tokio::test]
async fn env_1_a_program_that_ignores_the_signal_is_killed_with_its_children() {
    let folder = TempDir::new().unwrap();
    let child = folder.path().join("child");
    let script = format!(
        "trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > {}; while :; do sleep 0.05; done",
        child.display()
    );
    let process = start(&folder, &script);
    let (own, child) = (process.child.id().to_string(), written(child).await);
    assert!(runs(&own) && runs(&child));
    assert!(!process.stop(Duration::ZERO).await);
    gone(&own).await;
    gone(&child).await;
}

// ENV-1.
#[tokio::test]
async fn env_1_a_panic_leaves_no_program_behind() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder, "sleep 1000");
    let own = process.child.id().to_string();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _process = process;
        panic!("the test failed");
    }));
    assert!(panic.is_err());
    gone(&own).await;
}

// ENV-1.
#[tokio::test]
async fn env_1_the_program_ends_with_a_process_that_runs_no_destructors() {
    let folder = TempDir::new().unwrap();
    let mut process = start(&folder, "sleep 1000");
    let own = process.child.id().to_string();
    // The guard observes only the end of the pipe.
    drop(process.guard.0.as_mut().unwrap().stdin.take());
    crate::eventually("the end of the program", || {
        let ended = process.ended();
        ready(ended.map(|_| ()).ok_or_else(|| own.clone()))
    })
    .await
    .unwrap();
}

#[test]
fn the_error_of_a_missing_program_names_its_path() {
    let log = Path::new("/nowhere/log");
    let error = Process::start(Path::new("/nowhere/etcd"), &[], log, false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("there is no /nowhere/etcd: set KUBEBUILDER_ASSETS"),
        "{text}"
    );
}
