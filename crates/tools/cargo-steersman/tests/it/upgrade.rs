//! Tests that `upgrade` brings an operator of an earlier version up to date and keeps the changes of the user.

use std::path::Path;
use std::process::Command;

use crate::cargo::{fails, steersman, succeeds};
use crate::scaffold::NEW;

const RECORD: &str = ".steersman.toml";

fn read(folder: &Path, path: &str) -> String {
    std::fs::read_to_string(folder.join(path)).unwrap()
}

/// Replaces a text in a file.
fn change(folder: &Path, path: &str, from: &str, to: &str) {
    let before = read(folder, path);
    assert!(before.contains(from), "{path}: {from}");
    std::fs::write(folder.join(path), before.replace(from, to)).unwrap();
}

fn git(folder: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    let config = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    succeeds(command.args(config).args(words).current_dir(folder));
}

/// Turns a new operator into one that an earlier version generated and its user has changed.
fn become_earlier_and_changed(folder: &Path) {
    let version = version();
    // The earlier version generated other texts.
    for (path, from, to) in [
        ("Dockerfile", "USER 65532:65532", "USER 1000:1000"),
        ("README.md", "## Deploy\n", "## Deployment\n"),
        (".github/workflows/ci.yml", "ubuntu-latest", "ubuntu-old"),
        ("AGENTS.md", "Rules:\n", "The rules:\n"),
    ] {
        change(folder, path, from, to);
        change(folder, RECORD, from, to);
    }
    change(folder, RECORD, &version, "version = \"0.0.9\"");
    change(
        folder,
        "Cargo.toml",
        &format!("steersman = {{ {version}"),
        "steersman = { version = \"0.0.9\"",
    );
    // The user has changed some files, one of them in a line that the template changed, and deleted one.
    change(folder, "README.md", "# greeter\n", "# The greeter\n");
    change(
        folder, ".github/workflows/ci.yml", "ubuntu-old", "my-machine",
    );
    change(folder, ".gitignore", "/target\n", "/target\n/mine\n");
    change(
        folder, "Cargo.toml", "[dependencies]\n", "[dependencies] # Mine.\n",
    );
    std::fs::remove_file(folder.join("AGENTS.md")).unwrap();
}

/// Returns the version of this command as it appears in a manifest.
fn version() -> String {
    format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))
}

// SCAFFOLD-1: an upgrade loses no change of the user.
#[test]
fn an_upgrade_keeps_what_the_user_changed_and_does_nothing_a_second_time() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW).arg("--released"));
    let folder = &*here.path().join("greeter");
    let upgrade = |words: &[&str]| {
        let mut command = steersman(folder);
        command.arg("upgrade").args(words);
        command
    };
    let new = |path: &str| (path.to_owned(), read(folder, path));
    let generated = [
        "Dockerfile", "README.md", ".github/workflows/ci.yml", RECORD,
    ]
    .map(new);
    let nothing = format!(
        "has all changes up to version {}\n",
        env!("CARGO_PKG_VERSION")
    );
    let said = succeeds(&mut upgrade(&[]));
    assert!(said.ends_with(&nothing), "{said}");

    become_earlier_and_changed(folder);
    git(folder, &["init", "--quiet"]);
    let error = fails(&mut upgrade(&[]));
    assert!(error.contains("changes that are not committed"), "{error}");
    let shown = succeeds(&mut upgrade(&["--dry-run"]));
    for line in [
        "-USER 1000:1000\n+USER 65532:65532\n",
        "-## Deployment\n+## Deploy\n",
        "-    runs-on: my-machine\n+    runs-on: ubuntu-latest\n",
        "\nchanged  Dockerfile\n",
        "\nmerged   README.md\n",
        "\nproposed .github/workflows/ci.yml.proposed\n",
        "\nchanged  Cargo.toml\n",
        "\nnothing was written: --dry-run\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(
        !shown.contains("AGENTS.md") && !shown.contains("gitignore"),
        "{shown}"
    );
    assert!(read(folder, "Dockerfile").contains("USER 1000:1000"));

    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "--message", "earlier"]);
    let mine = read(folder, ".github/workflows/ci.yml");
    succeeds(&mut upgrade(&[]));
    let [dockerfile, readme, checks, record] = generated.map(|(_, text)| text);
    assert_eq!(read(folder, "Dockerfile"), dockerfile);
    assert_eq!(
        read(folder, "README.md"),
        readme.replace("# greeter\n", "# The greeter\n")
    );
    assert_eq!(read(folder, ".github/workflows/ci.yml"), mine);
    assert_eq!(read(folder, ".github/workflows/ci.yml.proposed"), checks);
    assert_eq!(read(folder, ".gitignore"), "/target\n/mine\n");
    assert!(!folder.join("AGENTS.md").exists());
    assert_eq!(read(folder, RECORD), record);
    let manifest = read(folder, "Cargo.toml");
    assert!(manifest.contains("[dependencies] # Mine.\n"), "{manifest}");
    assert!(
        manifest.contains(&format!("steersman = {{ {}", version())),
        "{manifest}"
    );

    // A second upgrade writes nothing, so uncommitted changes do not matter.
    let said = succeeds(&mut upgrade(&[]));
    assert!(said.ends_with(&nothing), "{said}");
}

#[test]
fn an_operator_without_a_record_keeps_every_file() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW).arg("--released"));
    let folder = &*here.path().join("greeter");
    let upgrade = || {
        let mut command = steersman(folder);
        command.arg("upgrade");
        command
    };
    let record = read(folder, RECORD);
    change(folder, RECORD, "version = \"", "version = \"99");
    let error = fails(&mut upgrade());
    assert!(error.contains("install that version"), "{error}");
    std::fs::write(folder.join(RECORD), "<<<<<<< HEAD\n").unwrap();
    let error = fails(&mut upgrade());
    assert!(
        error.contains("take the file from an earlier commit"),
        "{error}"
    );

    std::fs::remove_file(folder.join(RECORD)).unwrap();
    std::fs::remove_file(folder.join(".dockerignore")).unwrap();
    change(folder, "Dockerfile", "65532:65532", "1000:1000");
    let mine = read(folder, "Dockerfile");
    let said = succeeds(&mut upgrade());
    assert!(
        said.contains("every file counts as changed by you"),
        "{said}"
    );
    assert_eq!(read(folder, "Dockerfile"), mine);
    assert!(read(folder, "Dockerfile.proposed").contains("65532:65532"));
    assert!(folder.join(".dockerignore").exists());
    // The upgrade has read the names of the kind from its source.
    assert_eq!(read(folder, RECORD), record);
    let said = succeeds(&mut upgrade());
    assert!(said.starts_with("nothing to do: "), "{said}");
}
