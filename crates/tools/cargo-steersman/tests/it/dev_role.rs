//! Tests `dev`: the operator has the permissions of its generated role, and ends with `dev`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use steersman_testenv::eventually;

use crate::cargo::{example_program, steersman, succeeds};
use crate::real::RunningDev;
use crate::scaffold::NEW;

/// Makes a copy of the example program with a description in which the controller owns no kind.
fn without_owned_kinds(folder: &Path) -> PathBuf {
    let example = example_program();
    let described = succeeds(Command::new(&example).arg("describe"));
    let mut description: Value = serde_json::from_str(&described).unwrap();
    let controller = description["controllers"][0].as_object_mut().unwrap();
    controller.remove("owned").unwrap();
    let text = folder.join("description.json");
    std::fs::write(&text, description.to_string()).unwrap();
    let lines = format!(
        "if [ \"$1\" = describe ]; then exec cat '{}'; fi\nexec '{}' \"$@\"\n",
        text.display(),
        example.display()
    );
    script(folder, &lines)
}

/// Writes an executable shell script.
fn script(folder: &Path, lines: &str) -> PathBuf {
    let program = folder.join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{lines}")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

// MANIFEST-3: the implied rules suffice, and `doctor` names each rule that is missing.
#[tokio::test]
async fn a_write_that_no_declaration_implies_is_refused_in_dev() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW));
    let folder = here.path().join("greeter");
    // The observed permissions would allow the write.
    std::fs::remove_file(folder.join("rbac.observed.yaml")).unwrap();
    let dev = || {
        let mut command = steersman(&folder);
        command.arg("dev");
        command
    };
    let mut running = RunningDev::of(dev(), &without_owned_kinds(&folder));
    running
        .read_until("greeter: patch configmaps default/greeting-sample: refused with 403")
        .await;
    let account = folder.join("target/steersman/operator.kubeconfig");
    assert!(account.exists());
    running.interrupt().await;
    assert!(!account.exists());

    let mut running = RunningDev::of(dev(), &example_program());
    running.read_until("greeting-sample is ready: ").await;
    running.interrupt().await;
}

#[tokio::test]
async fn a_killed_dev_leaves_no_operator_behind() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW));
    let folder = here.path().join("greeter");
    let ended = folder.join("ended");
    let program = script(
        &folder,
        &format!(
            "'{example}' \"$@\"\nif [ \"$1\" != describe ]; then touch '{ended}'; fi\n",
            example = example_program().display(),
            ended = ended.display()
        ),
    );
    let mut command = steersman(&folder);
    command.arg("dev");
    let mut running = RunningDev::of(command, &program);
    running.read_until("greeting-sample is ready: ").await;
    assert!(!ended.exists());
    running.kill().await;
    eventually("the operator ends", || async {
        ended.exists().then_some(()).ok_or("it runs".to_owned())
    })
    .await
    .unwrap();
}
