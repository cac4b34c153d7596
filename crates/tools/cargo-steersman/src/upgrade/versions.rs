//! Machine: changes the versions of the framework's crates in a manifest, and no other character.

use semver::{Comparator, Op, Version};
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::record::first_line;

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The text of a manifest with changed dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedManifest {
    pub(crate) text: String,
    /// The steps that are left to the user, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// Sets the version of each dependency on `steersman` and `steersman-…`. Keeps a dependency by path or from a
/// repository, and a later version.
pub(crate) fn move_to(manifest: &str, version: &str) -> Result<MovedManifest, String> {
    let mut document: DocumentMut = manifest.parse().map_err(|problem| first_line(&problem))?;
    let mut notes = Vec::new();
    move_tables(document.as_table_mut(), version, &mut notes);
    let targets = document.get_mut("target").and_then(Item::as_table_like_mut);
    for (_, target) in targets.into_iter().flat_map(TableLike::iter_mut) {
        if let Some(target) = target.as_table_like_mut() {
            move_tables(target, version, &mut notes);
        }
    }
    Ok(MovedManifest {
        text: document.to_string(),
        notes,
    })
}

/// Returns whether `version` is later than `other`; `false` if either is not a version.
pub(crate) fn is_later(version: &str, other: &str) -> bool {
    matches!((parse(version), parse(other)), (Some(a), Some(b)) if a > b)
}

fn move_tables(parent: &mut dyn TableLike, version: &str, notes: &mut Vec<String>) {
    for table in TABLES {
        let table = parent.get_mut(table).and_then(Item::as_table_like_mut);
        for (key, dependency) in table.into_iter().flat_map(TableLike::iter_mut) {
            let package = dependency.get("package").and_then(Item::as_str);
            let name = package.unwrap_or(key.get()).to_owned();
            if name == "steersman" || name.starts_with("steersman-") {
                notes.extend(move_dependency(&name, dependency, version));
            }
        }
    }
}

/// Changes one dependency. Returns a note if the user has to change it.
fn move_dependency(name: &str, dependency: &mut Item, version: &str) -> Option<String> {
    let is_inherited = dependency.get("workspace").and_then(Item::as_bool) == Some(true);
    if is_inherited {
        return Some(format!(
            "{name} has the version of the workspace: set it to {version} there"
        ));
    }
    let requirement = match dependency.is_str() {
        true => dependency.as_value_mut(),
        false => dependency.get_mut("version").and_then(Item::as_value_mut),
    };
    let requirement = requirement?;
    let text = requirement.as_str()?.trim().to_owned();
    let digits = text.trim_start_matches(['=', '^', '~', ' ']);
    let operator = &text[..text.len() - digits.len()];
    if parse(digits).is_none() {
        return Some(format!(
            "{name} has the version {text:?}: see whether it includes {version}"
        ));
    }
    if is_later(version, digits) {
        let decor = requirement.decor().clone();
        *requirement = Value::from(format!("{operator}{version}"));
        *requirement.decor_mut() = decor;
    }
    None
}

/// Returns a version in which minor and patch default to 0.
fn parse(version: &str) -> Option<Version> {
    let parsed = Comparator::parse(version).ok();
    // A requirement without an operator parses as a caret requirement.
    let parsed = parsed.filter(|parsed| parsed.op == Op::Caret)?;
    let [minor, patch] = [parsed.minor, parsed.patch].map(Option::unwrap_or_default);
    Some(Version {
        pre: parsed.pre,
        ..Version::new(parsed.major, minor, patch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_versions_of_the_framework_change() {
        let manifest = r#"# Mine.
[package]
name = "greeter"   # steersman = "0.1.0"
version = "0.1.0"

[dependencies]
serde = { version = "0.1" }
steersman = { version = "0.1.0", features = ["cli"] } # The framework.
api = { package = "steersman-api", version = "=0.1" }
steersman-apimachinery = "0.1.3"
steersman-builtins = { path = "../kinds" }
steersman-cel = "9.0.0"

[dev-dependencies.steersman-harness]
version  =  '0.1.0'
[target.'cfg(unix)'.dependencies]
steersman-lease = "~0.1"
"#;
        let moved = move_to(manifest, "0.2.1").unwrap();
        let expected = manifest
            .replace(
                r#"steersman = { version = "0.1.0""#,
                r#"steersman = { version = "0.2.1""#,
            )
            .replace("=0.1\"", "=0.2.1\"")
            .replace("\"0.1.3\"", "\"0.2.1\"")
            .replace("'0.1.0'", "\"0.2.1\"")
            .replace("~0.1", "~0.2.1");
        assert_eq!(moved.text, expected);
        assert_eq!(moved.notes, [""; 0]);
        // A second call changes nothing.
        assert_eq!(move_to(&expected, "0.2.1").unwrap().text, expected);
    }

    #[test]
    fn what_the_command_cannot_move_is_told() {
        let manifest =
            "[dependencies]\nsteersman.workspace = true\nsteersman-api = \">=0.1, <0.3\"\n";
        let moved = move_to(manifest, "0.2.0").unwrap();
        assert_eq!(moved.text, manifest);
        let expected = [
            "steersman has the version of the workspace: set it to 0.2.0 there",
            "steersman-api has the version \">=0.1, <0.3\": see whether it includes 0.2.0",
        ];
        assert_eq!(moved.notes, expected);
        assert!(move_to("[", "1.0.0").is_err());
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_later("0.10.0", "0.9.9") && is_later("1.0.0", "0.1"));
        assert!(is_later("0.2.0", "0.2.0-rc.1") && !is_later("0.2.0", "1.*"));
        assert!(!is_later("0.1.0", "0.1") && !is_later("x", "0.1.0") && !is_later("0.1.0", "*"));
    }
}
