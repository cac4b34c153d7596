//! Compares what `add` writes with golden files in `tests/golden`. `STEERSMAN_UPDATE=1` rewrites the golden files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::cargo::{fails, steersman, succeeds};

/// Applies several additions to a new operator. Each addition has a golden file.
#[test]
fn additions_are_the_golden_ones_and_happen_once() {
    let here = tempfile::tempdir().unwrap();
    let new = ["new", "greeter", "--kind", "Greeting"];
    succeeds(steersman(here.path()).args(new));
    let folder = here.path().join("greeter");
    std::fs::copy(backups(), folder.join("backups.yaml")).unwrap();
    for (name, words) in [
        (
            "kind-of-another-group",
            &["kind", "Farewell", "--group", "other.example.com"][..],
        ),
        ("webhook", &["webhook", "Greeting"]),
        ("validator", &["webhook", "Farewell", "--validating"]),
        ("version", &["version", "Greeting", "v1"]),
        (
            "controller-for-deployments",
            &["controller", "--for", "apps/v1", "Deployment"],
        ),
        (
            "second-controller",
            &["controller", "Greeting", "--name", "greeting-report"],
        ),
        (
            "controller-of-an-external-kind",
            &[
                "controller", "--definition", "backups.yaml", "--name", "copies",
            ],
        ),
        ("another-version", &["version", "Greeting", "v2"]),
    ] {
        let add = |more: &[&str]| succeeds(steersman(&folder).arg("add").args(words).args(more));
        let mut text = format!("$ cargo steersman add {}\n", words.join(" "));
        text += &add(&["--dry-run"]);
        let shown = add(&[]);
        assert!(text.contains(&shown), "{shown}");
        for path in shown
            .lines()
            .filter_map(|line| line.strip_prefix("new      "))
        {
            let content = std::fs::read_to_string(folder.join(path)).unwrap();
            write!(text, "=== {path}\n{content}").unwrap();
        }
        compare(name, &text);
        assert!(add(&[]).ends_with("; nothing changed\n"), "{words:?}");
    }
}

/// Returns the path of an external kind's definition.
pub(crate) fn backups() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions/backups.yaml")
}

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("STEERSMAN_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let same = golden == text;
    assert!(
        same,
        "{} differs: STEERSMAN_UPDATE=1 writes it",
        path.display()
    );
}

#[test]
fn a_kind_that_is_missing_or_changed_is_named_with_the_way_out() {
    let here = tempfile::tempdir().unwrap();
    let new = ["new", "greeter", "--kind", "Greeting"];
    succeeds(steersman(here.path()).args(new));
    let folder = here.path().join("greeter");
    let api = folder.join("src/api/greeting.rs");
    let before = std::fs::read_to_string(&api).unwrap();
    let refused = |words: &[&str]| fails(steersman(&folder).arg("add").args(words));
    for (words, expected) in [
        (
            &["webhook", "Hello"][..],
            "declares no kind Hello: name one of Greeting",
        ),
        (&["version", "Greeting", "1"], "a version is v1"),
        (&["version", "Greeting", "v1alpha0"], "a version is v1"),
        (&["version", "Greeting", "v0"], "a version is v1"),
        (
            &["controller", "Greeting"],
            "src/controllers/greeting.rs is another controller",
        ),
        (
            &["controller", "Greeting", "--name", "Report"],
            "the name \"Report\"",
        ),
        (
            &["controller", "--for", "batch/v2", "Job"],
            "one of a similar name is --for batch/v1 Job",
        ),
        (
            &["controller", "--for", "cert-manager.io/v1", "Certificate"],
            "--definition takes the file",
        ),
        (
            &["controller", "deployment"],
            "one of a similar name is --for apps/v1 Deployment",
        ),
        (
            &["controller", "--for", "example.com/v1", "Greeting"],
            "Greeting for the operator's own, in v1alpha1",
        ),
        (&["controller"], "such as --for apps/v1 Deployment"),
        (
            &["kind", "GreetingList"],
            "lists of Greeting have this name",
        ),
        (&["controller", "--definition", "Cargo.toml"], "Cargo.toml"),
    ] {
        let error = refused(words);
        assert!(error.contains(expected), "{error}");
    }
    let words = ["add", "version", "Greeting", "v1alpha1"];
    let shown = succeeds(steersman(&folder).args(words));
    assert_eq!(shown, "Greeting has v1alpha1 already; nothing changed\n");
    std::fs::write(
        &api,
        before.replace(
            "kind = \"Greeting\",",
            "kind = \"Greeting\", storage = true,",
        ),
    )
    .unwrap();
    let error = refused(&["version", "Greeting", "v1"]);
    assert!(
        error.contains("greeting.rs cannot be changed: line 15 has `storage`"),
        "{error}"
    );
    assert!(!folder.join("src/webhooks.rs").exists());
    // If the spec has no field `message`, the generated webhook has another example rule.
    std::fs::write(&api, before.replace("message", "text")).unwrap();
    succeeds(steersman(&folder).args(["add", "webhook", "Greeting", "--defaulting"]));
    let webhook = std::fs::read_to_string(folder.join("src/webhooks/greeting.rs")).unwrap();
    assert!(webhook.contains("metadata.labels"), "{webhook}");
    let error = refused(&["webhook", "Greeting", "--validating"]);
    assert!(
        error.contains("src/webhooks/greeting.rs cannot be changed: it has no validator"),
        "{error}"
    );
}
