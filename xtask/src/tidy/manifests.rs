//! Manifests: what the workspace decides is decided once, and every package can be published.

use toml::{Table, Value};

use super::tree::{File, Tree, Violation};

/// The name of this rule.
pub(crate) const RULE: &str = "manifests";

/// Keys of `[package]` that the workspace decides.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

/// Checks the manifest of every package.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let ours: Vec<&str> = tree
        .manifests()
        .filter_map(|(package, _)| package.strip_prefix("crates/"))
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
            return vec![complain(file, "", problem, "mend it")];
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
    let mut found = Vec::new();
    let head = manifest.get("package").and_then(Value::as_table);
    let inherits = |table: Option<&Value>| {
        table
            .and_then(|value| value.get("workspace"))
            .and_then(Value::as_bool)
            == Some(true)
    };
    for key in INHERITED {
        if !inherits(head.and_then(|head| head.get(*key))) {
            let problem = format!("decides its own `{key}`");
            found.push(complain(
                file,
                key,
                problem,
                &format!("write `{key}.workspace = true`"),
            ));
        }
    }
    if !inherits(manifest.get("lints")) {
        let problem = "leaves out the workspace's lints".to_owned();
        found.push(complain(
            file,
            "[lints]",
            problem,
            "write `[lints]` with `workspace = true`",
        ));
    }
    let description = head
        .and_then(|head| head.get("description"))
        .and_then(Value::as_str);
    if description.is_none_or(|text| text.split_whitespace().count() < 2) {
        let problem = "has no description".to_owned();
        found.push(complain(
            file,
            "description",
            problem,
            "say in one sentence what it is for",
        ));
    }
    let name = head
        .and_then(|head| head.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name != package.rsplit('/').next().unwrap_or(package) {
        let problem = format!("is named `{name}`, its folder is not");
        found.push(complain(file, "name", problem, "give both one name"));
    }
    let published = head
        .and_then(|head| head.get("publish"))
        .and_then(Value::as_bool)
        != Some(false);
    if published && !package.starts_with("crates/") {
        let problem = "would be published".to_owned();
        found.push(complain(
            file,
            "publish",
            problem,
            "write `publish = false`",
        ));
    }
    found
}

/// Every table of dependencies, those of single platforms too, with its name.
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
            let way_out = format!(
                "write `{name} = {{ path = \"…\" }}`, or publishing one of the two waits for the other"
            );
            complain(file, name, format!("dev-dependency `{name}` carries a version"), &way_out)
        });
    }
    (!from_workspace).then(|| {
        let way_out = format!(
            "move it to the root's `[workspace.dependencies]` and write `{name}.workspace = true`"
        );
        complain(
            file,
            name,
            format!("decides on `{name}` by itself"),
            &way_out,
        )
    })
}

/// The line is the first one that starts with `key`, where there is one.
fn complain(file: &File, key: &str, problem: String, way_out: &str) -> Violation {
    let line = file
        .text
        .lines()
        .position(|line| !key.is_empty() && line.starts_with(key));
    Violation {
        rule: RULE,
        path: file.path.clone(),
        line: line.map_or(0, |line| line + 1),
        problem,
        way_out: way_out.to_owned(),
    }
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

[dependencies]
serde = { workspace = true, features = [\"rc\"] }

[dev-dependencies]
steersman-y = { path = \"../steersman-y\" }

[lints]
workspace = true
";

    /// What the rule says about a good manifest in which `from` became `to`.
    fn says(from: &str, to: &str) -> Vec<String> {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let other = GOOD
            .replace("steersman-y", "steersman-z")
            .replace("steersman-x", "steersman-y");
        let files = [
            ("crates/steersman-x/Cargo.toml", text.as_str()),
            ("crates/steersman-y/Cargo.toml", &other),
        ];
        let said: Vec<String> = check(&Tree::of(&files))
            .iter()
            .map(ToString::to_string)
            .collect();
        said.into_iter()
            .filter(|line| line.contains("steersman-x/"))
            .collect()
    }

    #[test]
    fn a_good_manifest_passes() {
        assert_eq!(says("words", "words"), Vec::<String>::new());
        assert_eq!(
            says(
                "[dev-dependencies]",
                "[target.'cfg(unix)'.dev-dependencies]"
            )
            .len(),
            0
        );
    }

    #[test]
    fn each_slip_fails() {
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
            ("[package]", "[package"),
        ] {
            let said = says(from, to);
            assert_eq!(said.len(), 1, "{from} -> {to}: {said:?}");
        }
    }

    #[test]
    fn an_example_that_would_be_published_fails() {
        let text = GOOD.replace("steersman-x", "x-operator");
        let said = check(&Tree::of(&[("examples/x-operator/Cargo.toml", &text)]));
        assert!(
            said.iter()
                .any(|violation| violation.problem == "would be published"),
            "{said:?}"
        );
    }
}
