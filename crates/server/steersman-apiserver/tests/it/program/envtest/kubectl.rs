//! Tests of the program called `kubectl`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use super::programs::Programs;

fn script(folder: &Path, text: &str) {
    let path = folder.join("kubectl");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn the_kubectl_on_the_path_takes_over() {
    let (programs, copies, real) = (Programs::new(), Programs::new(), TempDir::new().unwrap());
    script(real.path(), "echo \"$$ ran $*\"; exit 7");
    let folders = [programs.folder(), copies.folder(), real.path()];
    let mut command = programs.command("kubectl", &["get".to_owned(), "a b".to_owned()]);
    command.env("PATH", std::env::join_paths(folders).unwrap());
    command.stdout(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().unwrap();
    let output = child.wait_with_output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, format!("{id} ran get a b\n"));
    assert_eq!(output.status.code(), Some(7));
}

#[tokio::test]
async fn without_another_kubectl_the_error_says_so() {
    let (programs, copies) = (Programs::new(), Programs::new());
    let folders = [programs.folder(), copies.folder()];
    let mut command = programs.command("kubectl", &[]);
    command.env("PATH", std::env::join_paths(folders).unwrap());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "kubectl: no kubectl was found on the PATH except this program itself; install kubectl, or put its \
         folder on the PATH\n"
    );
}
