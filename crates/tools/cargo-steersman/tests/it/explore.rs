//! Tests `cargo steersman explore` with a cargo that prints its arguments instead of running tests.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::cargo::{fails, steersman, succeeds};
use crate::scaffold::NEW;

/// Makes a cargo that prints the arguments of `test`, and ends with the exit code 7 for one kind, and otherwise 0.
fn printing_cargo(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("printing-cargo");
    let real = env!("CARGO");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = test ] || exec '{real}' \"$@\"\necho \"cargo $*\"\n\
         case \"$*\" in *farewell*) exit 7;; esac\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn explore_runs_the_tests_of_all_kinds_or_of_one_and_has_the_exit_code_of_cargo() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW));
    let folder = here.path().join("greeter");
    succeeds(steersman(&folder).args(["add", "kind", "Farewell"]));
    let cargo = printing_cargo(here.path());
    let explore = |words: &[&str]| -> Command {
        let mut command = steersman(&folder);
        command.arg("explore").args(words).env("CARGO", &cargo);
        command
    };
    let all = "cargo test --package greeter --test it explore:: -- --nocapture\n";
    assert_eq!(succeeds(&mut explore(&[])), all);
    let one = "cargo test --package greeter --test it --offline --release explore::greeting:: -- --nocapture\n";
    let words = ["Greeting", "--offline", "--release"];
    assert_eq!(succeeds(&mut explore(&words)), one);
    let Output { status, stdout, .. } = explore(&["Farewell"]).output().unwrap();
    let shown = String::from_utf8(stdout).unwrap();
    assert!(shown.contains("explore::farewell::"), "{shown}");
    assert_eq!(status.code(), Some(7));

    let error = fails(&mut explore(&["Hello"]));
    assert!(error.contains("declares no kind Hello"), "{error}");
}

#[test]
fn an_operator_of_an_earlier_release_gets_the_exploration_of_a_kind_by_adding_it_again() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW));
    let folder = here.path().join("greeter");
    std::fs::remove_dir_all(folder.join("tests/it/explore")).unwrap();
    std::fs::remove_file(folder.join("tests/it/explore.rs")).unwrap();
    let main = folder.join("tests/it/main.rs");
    let text = std::fs::read_to_string(&main).unwrap();
    std::fs::write(&main, text.replace("mod explore;\n", "")).unwrap();
    for words in [&["explore"][..], &["explore", "Greeting"]] {
        let error = fails(steersman(&folder).args(words));
        assert!(error.contains("`cargo steersman add kind`"), "{error}");
    }

    let shown = succeeds(steersman(&folder).args(["add", "kind", "Greeting"]));
    let expected = "new      tests/it/explore/greeting.rs\nnew      tests/it/explore.rs\nchanged  tests/it/main.rs\n";
    assert_eq!(shown, expected);
    assert_eq!(std::fs::read_to_string(&main).unwrap(), text);
    let shown = succeeds(steersman(&folder).args(["add", "kind", "Greeting"]));
    assert_eq!(shown, "Greeting is there already; nothing changed\n");
}
