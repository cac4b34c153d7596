//! The rule `manifests`: packages inherit the workspace's settings and are ready to be published.

use toml::{Table, Value};

use super::tree::{File, Tree, Violation, crate_name};

/// Keys of `[package]` that every package inherits from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let ours: Vec<&str> = tree
        .manifests()
        .filter_map(|(package, _)| crate_name(package))
        .collect();
    tree.manifests()
        .flat_map(|(package, file)| check_file(package, file, &ours))
        .collect()
}

fn check_file(package: &str, file: &File, ours: &[&str]) -> Vec<Violation> {
    let manifest: Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            let problem = format!("is no TOML: {}", error.to_string().replace('\n', " "));
            return vec![complain(file, "", problem, "fix the syntax")];
        }
    };
    let mut found = head(package, file, &manifest);
    for (table, entries) in dependency_tables(&manifest) {
        for (name, value) in entries {
            let is_ours = ours.contains(&name.as_str());
            let is_test = table.ends_with("dev-dependencies");
            found.extend(dependency(file, name, value, is_ours && is_test));
        }
    }
    found
}

fn head(package: &str, file: &File, manifest: &Table) -> Vec<Violation> {
    let empty = Table::new();
    let head = manifest.get("package").and_then(Value::as_table);
    let head = head.unwrap_or(&empty);
    let inherits = |value: Option<&Value>| {
        let workspace = value.and_then(|value| value.get("workspace"));
        workspace.and_then(Value::as_bool) == Some(true)
    };
    let text = |key: &str| head.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    // Adds a violation at the key unless the condition holds.
    let mut require = |holds: bool, key: &str, problem: &str, remedy: &str| {
        if !holds {
            found.push(complain(file, key, problem.to_owned(), remedy));
        }
    };
    for key in INHERITED {
        require(
            inherits(head.get(*key)),
            key,
            &format!("does not inherit `{key}` from the workspace"),
            &format!("write `{key}.workspace = true`"),
        );
    }
    require(
        inherits(manifest.get("lints")),
        "[lints]",
        "does not inherit the workspace's lints",
        "write `[lints]` with `workspace = true`",
    );
    require(
        text("description").split_whitespace().count() > 1,
        "description",
        "has no description",
        "describe the package in one sentence",
    );
    let folder = package.rsplit('/').next().unwrap_or(package);
    require(
        text("name") == folder,
        "name",
        &format!(
            "has the name `{}`, which is not the name of its folder",
            text("name")
        ),
        "give package and folder the same name",
    );
    let published = head.get("publish").and_then(Value::as_bool) != Some(false);
    require(
        !published || package.starts_with("crates/"),
        "publish",
        "would be published",
        "write `publish = false`",
    );
    if published {
        registry(&mut require, folder, head);
        found.extend(documentation(file, manifest));
    }
    found
}

/// Checks the fields that a registry shows of a published package.
fn registry(require: &mut impl FnMut(bool, &str, &str, &str), folder: &str, head: &Table) {
    let address = format!("https://docs.rs/{folder}");
    require(
        head.get("documentation").and_then(Value::as_str) == Some(&address),
        "documentation",
        "does not link to its documentation",
        &format!("write `documentation = \"{address}\"`"),
    );
    require(
        head.contains_key("readme"),
        "readme",
        "has no readme",
        "write `readme.workspace = true`, or name a page of the package",
    );
    let words = |key: &str| -> Vec<&str> {
        let list = head.get(key).and_then(Value::as_array);
        let list = list.map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).collect()
    };
    let keywords = words("keywords");
    let is_keyword = |word: &&str| {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "-_+".contains(char);
        (1..=20).contains(&word.len())
            && word.starts_with(|char: char| char.is_ascii_alphanumeric())
            && word.chars().all(is_part)
    };
    require(
        (1..=5).contains(&keywords.len()) && keywords.iter().all(is_keyword),
        "keywords",
        "has no valid `keywords`",
        "list one to five keywords of at most 20 ASCII characters each",
    );
    require(
        (1..=5).contains(&words("categories").len()),
        "categories",
        "has no valid `categories`",
        "list one to five categories of the registry",
    );
}

/// Checks that docs.rs can build the documentation: a package that depends on `k8s-openapi` selects
/// a version of the Kubernetes API there.
fn documentation(file: &File, manifest: &Table) -> Option<Violation> {
    const KEY: &str = "[package.metadata.docs.rs]";
    let build = ["package", "metadata", "docs", "rs"]
        .iter()
        .try_fold(manifest, |table, key| table.get(*key)?.as_table());
    let Some(build) = build else {
        let problem = format!("has no section `{KEY}`");
        return Some(complain(file, "", problem, "state how docs.rs builds it"));
    };
    let dependencies = manifest.get("dependencies");
    let depends = dependencies.is_some_and(|table| table.get("k8s-openapi").is_some());
    let features = build.get("features").and_then(Value::as_array);
    let selects = features.into_iter().flatten().any(|feature| {
        let name = feature.as_str();
        name.is_some_and(|name| name.starts_with("k8s-openapi/v"))
    });
    (depends && !selects).then(|| {
        let problem = "selects no version of the Kubernetes API for docs.rs".to_owned();
        let remedy = "write `features = [\"k8s-openapi/v1_36\"]`";
        complain(file, KEY, problem, remedy)
    })
}

/// Returns every table of dependencies with its name, those of single platforms included.
fn dependency_tables(manifest: &Table) -> Vec<(&str, &Table)> {
    const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platforms = platforms
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    [manifest]
        .into_iter()
        .chain(platforms)
        .flat_map(|table| {
            TABLES
                .iter()
                .filter_map(|name| Some((*name, table.get(*name)?.as_table()?)))
        })
        .collect()
}

fn dependency(file: &File, name: &str, value: &Value, is_ours_in_tests: bool) -> Option<Violation> {
    let from_workspace = value.get("workspace").and_then(Value::as_bool) == Some(true);
    if is_ours_in_tests {
        let has_version = from_workspace || value.is_str() || value.get("version").is_some();
        return has_version.then(|| {
            let remedy = format!(
                "write `{name} = {{ path = \"…\" }}`, because with a version each of the two crates could only be published after the other"
            );
            complain(file, name, format!("dev-dependency `{name}` carries a version"), &remedy)
        });
    }
    (!from_workspace).then(|| {
        let remedy = format!(
            "move it to the root's `[workspace.dependencies]` and write `{name}.workspace = true`"
        );
        let problem = format!("sets the version of `{name}` itself");
        complain(file, name, problem, &remedy)
    })
}

/// Makes a violation at the first line that starts with `key`, or for the whole file without one.
fn complain(file: &File, key: &str, problem: String, remedy: &str) -> Violation {
    let line = file
        .text
        .lines()
        .position(|line| !key.is_empty() && line.starts_with(key));
    Violation::new(&file.path, line.map_or(0, |line| line + 1), problem, remedy)
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    const GOOD: &str = "\
[package]
name = \"steersman-x\"
description = \"Keeps the words.\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
documentation = \"https://docs.rs/steersman-x\"
readme.workspace = true
keywords = [\"kubernetes\", \"words\"]
categories = [\"asynchronous\"]

[package.metadata.docs.rs]
features = [\"k8s-openapi/v1_36\"]

[dependencies]
serde = { workspace = true, features = [\"rc\"] }
k8s-openapi.workspace = true

[dev-dependencies]
steersman-y = { path = \"../steersman-y\" }

[lints]
workspace = true
";

    /// Returns the violations in a complete manifest in which `from` is replaced by `to`.
    fn violations(from: &str, to: &str) -> Vec<String> {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let other = GOOD
            .replace("steersman-y", "steersman-z")
            .replace("steersman-x", "steersman-y");
        let files = [
            ("crates/framework/steersman-x/Cargo.toml", text.as_str()),
            ("crates/framework/steersman-y/Cargo.toml", &other),
        ];
        let said: Vec<String> = check(&Tree::of(&files))
            .iter()
            .map(|violation| violation.of_rule("manifests"))
            .collect();
        said.into_iter()
            .filter(|line| line.contains("steersman-x/"))
            .collect()
    }

    #[test]
    fn a_complete_manifest_passes() {
        assert_eq!(violations("words", "words"), Vec::<String>::new());
        assert_eq!(
            violations(
                "[dev-dependencies]",
                "[target.'cfg(unix)'.dev-dependencies]"
            )
            .len(),
            0
        );
    }

    #[test]
    fn each_missing_or_wrong_field_fails() {
        for (from, to) in [
            ("version.workspace = true", "version = \"0.1.0\""),
            ("edition.workspace = true", "edition = \"2024\""),
            ("rust-version.workspace = true\n", ""),
            ("license.workspace = true", "license = \"MIT\""),
            ("description = \"Keeps the words.\"\n", ""),
            ("Keeps the words.", "stub"),
            ("name = \"steersman-x\"", "name = \"steersman-w\""),
            ("[lints]\nworkspace = true\n", ""),
            ("serde = { workspace = true", "serde = { version = \"1\""),
            (
                "[dependencies]",
                "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n[dependencies]",
            ),
            ("{ path = \"../steersman-y\" }", "{ workspace = true }"),
            (
                "path = \"../steersman-y\"",
                "path = \"../steersman-y\", version = \"0.1.0\"",
            ),
            ("https://docs.rs/steersman-x", "https://docs.rs/steersman-w"),
            ("readme.workspace = true\n", ""),
            ("keywords = [\"kubernetes\", \"words\"]\n", ""),
            ("\"words\"]", "\"two words\"]"),
            ("\"asynchronous\"", ""),
            (
                "[package.metadata.docs.rs]\nfeatures = [\"k8s-openapi/v1_36\"]\n",
                "",
            ),
            ("features = [\"k8s-openapi/v1_36\"]\n", ""),
            ("[package]", "[package"),
        ] {
            let said = violations(from, to);
            assert_eq!(said.len(), 1, "{from} -> {to}: {said:?}");
        }
    }

    #[test]
    fn an_example_without_publish_false_fails() {
        let text = GOOD.replace("steersman-x", "x-operator");
        let said = check(&Tree::of(&[("examples/x-operator/Cargo.toml", &text)]));
        assert!(
            said.iter()
                .any(|violation| violation.problem == "would be published"),
            "{said:?}"
        );
    }
}
