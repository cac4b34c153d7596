//! Tests that a new operator is equal to the example `greeter`, and that it works from `new` to its generated role.

use std::path::{Path, PathBuf};

use crate::additions::backups;
use crate::cargo::{
    cargo, example_program, fails, share_dependencies, steersman, succeeds, test_with_clippy,
    workspace,
};
use crate::under_its_role::works_under_its_role;
use crate::versions::{a_first_object_has_all_fields, rename_a_field};

pub(crate) const NEW: [&str; 4] = ["new", "greeter", "--kind", "Greeting"];

#[test]
fn a_new_operator_is_the_example_of_the_workspace() {
    let here = tempfile::tempdir().unwrap();
    let made = succeeds(steersman(here.path()).args(NEW).arg("--released"));
    assert!(made.contains("cd greeter"), "{made}");
    let folder = here.path().join("greeter");
    let example = workspace().join("examples/greeter");
    let mut files = 0;
    for path in files_below(&folder) {
        let path = path.strip_prefix(&folder).unwrap();
        // The versions in the manifest of a workspace member differ from those of a new operator.
        if path == Path::new("Cargo.toml") {
            continue;
        }
        let read = |folder: &Path| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
        let same = read(&folder) == read(&example);
        assert!(
            same,
            "{} differs: copy it into examples/greeter",
            path.display()
        );
        files += 1;
    }
    assert_eq!(files, 19);
    let error = fails(steersman(here.path()).args(NEW));
    assert!(error.contains("greeter exists"), "{error}");
}

#[test]
fn a_new_operator_has_the_lock_file_that_it_needs() {
    let here = tempfile::tempdir().unwrap();
    let into = here.path().join("my folder");
    std::fs::create_dir(&into).unwrap();
    let words = ["--into", into.to_str().unwrap()];
    let made = succeeds(steersman(here.path()).args(NEW).args(words));
    let folder = into.join("greeter");
    // The printed command is quoted for a shell.
    let expected = format!("  cd '{}'\n", folder.display());
    assert!(made.contains(&expected), "{made}");
    let read = || std::fs::read_to_string(folder.join("Cargo.lock")).unwrap();
    let made = read();
    assert!(made.contains("name = \"greeter\""), "{made}");
    assert!(!made.contains("name = \"criterion\""), "{made}");
    // The packages of this platform are checked; packages of other platforms may be missing.
    let rustc = cargo(&folder, &["--version", "--verbose"]);
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let words = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let platform = ["--filter-platform", host.unwrap()];
    cargo(&folder, &[&words[..], &platform].concat());
    assert_eq!(read(), made);
}

#[test]
fn a_kind_is_added_once_and_nothing_is_overwritten() {
    let here = tempfile::tempdir().unwrap();
    let folder = here.path().join("greeter");
    succeeds(steersman(here.path()).args(NEW));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let add = |words: &[&str]| {
        let mut command = steersman(&folder);
        command.args(["add", "kind"]).args(words);
        command
    };
    let shown = succeeds(&mut add(&["Farewell", "--dry-run"]));
    let expected = [
        "new      config/samples/farewell.yaml",
        "new      src/api/farewell.rs",
        "new      src/controllers/farewell.rs",
        "new      tests/it/explore/farewell.rs",
        "new      tests/it/farewell.rs",
        "changed  src/api.rs",
        "changed  src/controllers.rs",
        "changed  tests/it/explore.rs",
        "changed  tests/it/main.rs",
    ];
    assert_eq!(shown.lines().take(9).collect::<Vec<_>>(), expected);
    assert!(shown.contains("\n+++ b/src/api.rs\n"), "{shown}");
    assert!(
        shown.contains("\n+    farewell::add(manager)?;\n"),
        "{shown}"
    );
    assert!(!folder.join("src/api/farewell.rs").exists());
    // The source of the user is not formatted by rustfmt.
    let library = read("src/lib.rs");
    std::fs::write(folder.join("src/own.rs"), "fn a(){}\n").unwrap();
    std::fs::write(folder.join("src/lib.rs"), format!("{library}mod own;\n")).unwrap();
    succeeds(&mut add(&["Farewell"]));
    assert_eq!(read("src/own.rs"), "fn a(){}\n");
    std::fs::write(folder.join("src/lib.rs"), library).unwrap();
    std::fs::remove_file(folder.join("src/own.rs")).unwrap();
    assert!(read("src/api.rs").contains(".with(farewell::Farewell::crd())"));
    assert!(read("src/controllers.rs").contains("    farewell::add(manager)?;\n    Ok(())"));
    assert!(read("tests/it/main.rs").ends_with("mod explore;\nmod farewell;\nmod greeting;\n"));
    assert!(read("config/samples/farewell.yaml").contains("example.com/v1alpha1"));
    cargo(&folder, &["fmt", "--check"]);
    // A second `add kind` changes nothing, even after a change of the kind.
    let changed = read("src/api/farewell.rs") + "// Mine.\n";
    std::fs::write(folder.join("src/api/farewell.rs"), &changed).unwrap();
    let shown = succeeds(&mut add(&["Farewell"]));
    assert_eq!(shown, "Farewell is there already; nothing changed\n");
    assert_eq!(read("src/api/farewell.rs"), changed);
    // A file of the new kind exists, so nothing is written.
    std::fs::write(folder.join("src/api/welcome.rs"), "mine").unwrap();
    let error = fails(&mut add(&["Welcome"]));
    assert!(error.contains("src/api/welcome.rs exists"), "{error}");
    assert!(!read("src/api.rs").contains("welcome"));
    // The error names a source that cannot be edited.
    std::fs::write(folder.join("src/controllers.rs"), "pub mod a;\n").unwrap();
    let error = fails(&mut add(&["Hello"]));
    assert!(
        error.contains("src/controllers.rs cannot be changed: it has no function `add_all`"),
        "{error}"
    );
    assert!(!folder.join("src/api/hello.rs").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_and_works_under_its_generated_role() {
    let here = tempfile::tempdir().unwrap();
    let folder = here.path().join("greeter");
    succeeds(steersman(here.path()).args(NEW));
    let program = example_program();
    works(&folder, &["--program", program.to_str().unwrap()]);
    works_under_its_role(&folder, &program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_operator_compiles_without_warnings_outside_of_the_workspace() {
    let here = tempfile::tempdir().unwrap();
    let folder = here.path().join("greeter");
    let sources = workspace();
    let sources = ["--steersman-path", sources.to_str().unwrap()];
    succeeds(steersman(here.path()).args(NEW).args(sources));
    share_dependencies(&folder);
    let definition = backups();
    let definition = definition.to_str().unwrap();
    let additions: [&[&str]; 6] = [
        &[
            "kind", "Farewell", "--cluster-scoped", "--group", "other.example.com",
        ],
        &["webhook", "Greeting"],
        &["version", "Greeting", "v1"],
        &["controller", "--for", "apps/v1", "Deployment"],
        &["controller", "--definition", definition],
        &["controller", "Farewell", "--name", "farewell-report"],
    ];
    for words in additions {
        succeeds(steersman(&folder).arg("add").args(words));
    }
    rename_a_field(&folder);
    // `dev` can apply the object only if it has installed the definition.
    let object = folder.join("tests/objects/backup.yaml");
    std::fs::copy(object, folder.join("config/samples/backup.yaml")).unwrap();
    cargo(&folder, &["fmt", "--check"]);
    test_with_clippy(&folder);
    works(&folder, &["--offline"]);
    let program = folder.join("target/debug/greeter");
    a_first_object_has_all_fields(&folder, &program).await;
    works_under_its_role(&folder, &program).await;
}

/// Runs an operator until its samples are ready, and then generates its manifests.
fn works(folder: &Path, build: &[&str]) {
    let shown = succeeds(steersman(folder).args(["dev", "--once"]).args(build));
    for line in [
        "greeter: patch configmaps default/greeting-sample",
        "greeting-sample is ready: ChildrenReady",
        "all samples are ready",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("refused with 403"), "{shown}");
    let generate = |words: &[&str]| {
        let mut command = steersman(folder);
        command.arg("generate").args(words).args(build);
        command
    };
    let error = fails(&mut generate(&["--check"]));
    assert!(
        error.contains("config/rbac/role.yaml is missing"),
        "{error}"
    );
    succeeds(&mut generate(&[]));
    // MANIFEST-3: the role does not depend on the observed permissions.
    let role = std::fs::read_to_string(folder.join("config/rbac/role.yaml")).unwrap();
    assert!(!role.contains("# observed"), "{role}");
    succeeds(&mut generate(&["--check"]));
    // The chart is generated on request, and on every later call.
    assert!(!folder.join("dist/chart").exists());
    succeeds(&mut generate(&["helm"]));
    let values = folder.join("dist/chart/values.yaml");
    std::fs::write(
        &values,
        "# Generated by `cargo steersman generate`\nreplicaCount: 7\n",
    )
    .unwrap();
    let error = fails(&mut generate(&["--check"]));
    assert!(
        error.contains("dist/chart/values.yaml differs from line 1 on"),
        "{error}"
    );
    let shown = succeeds(&mut generate(&[]));
    assert_eq!(shown, "changed dist/chart/values.yaml\n");
    // A file without the mark of a generated file is not overwritten.
    std::fs::write(&values, "replicaCount: 7\n").unwrap();
    let error = fails(&mut generate(&[]));
    assert!(
        error.contains("dist/chart/values.yaml does not begin with"),
        "{error}"
    );
    std::fs::remove_file(&values).unwrap();
    succeeds(&mut generate(&[]));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}
