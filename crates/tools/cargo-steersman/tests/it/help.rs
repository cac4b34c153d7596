//! Tests the help texts and the errors that a command prints before it does anything.

use crate::cargo::{fails, steersman, succeeds};

#[test]
fn the_help_of_each_command_has_examples_or_flags() {
    let here = tempfile::tempdir().unwrap();
    let help = succeeds(steersman(here.path()).arg("--help"));
    assert!(
        help.contains("Examples:\n  cargo steersman new greeter"),
        "{help}"
    );
    for command in [
        "new", "dev", "explore", "generate", "upgrade", "deploy", "undeploy", "install",
        "uninstall", "image", "doctor", "top",
    ] {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "{command}: {help}"
        );
        let own = succeeds(steersman(here.path()).args([command, "--help"]));
        assert!(own.contains("--"), "{own}");
    }
    let completions = succeeds(steersman(here.path()).args(["completions", "bash"]));
    for word in ["steersman", "explore"] {
        assert!(completions.contains(word), "{word}: {completions}");
    }
}

#[test]
fn a_folder_without_an_operator_is_named_with_the_way_out() {
    let here = tempfile::tempdir().unwrap();
    for command in ["dev", "explore", "generate", "deploy", "doctor"] {
        let error = fails(steersman(here.path()).arg(command));
        assert!(error.contains("has no Cargo.toml"), "{error}");
        assert!(error.contains("cargo steersman new NAME"), "{error}");
    }
    std::fs::write(here.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    let error = fails(steersman(here.path()).arg("generate"));
    assert!(error.contains("is no package"), "{error}");
    std::fs::write(here.path().join("Cargo.toml"), "nonsense").unwrap();
    let error = fails(steersman(here.path()).arg("generate"));
    assert!(
        error.contains("cargo metadata") || error.contains("metadata"),
        "{error}"
    );
}

#[test]
fn a_name_that_cannot_be_used_makes_no_folder() {
    let here = tempfile::tempdir().unwrap();
    for words in [
        &["new", "Greeter"][..],
        &["new", "greeter", "--kind", "ConfigMap"],
        &["new", "greeter", "--group", "example"],
        &["new", "greeter", "--version", "1"],
        &["new", "greeter", "--steersman-path", "nowhere"],
    ] {
        let error = fails(steersman(here.path()).args(words));
        assert!(error.starts_with("error: "), "{error}");
    }
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}
