//! Machine: the files of a new operator, of a new kind, and of its webhooks.

mod template;
mod controller;

use std::collections::BTreeMap;
use std::path::PathBuf;

use self::template::{Values, filled, owned};
use crate::api_kind::ApiKind;
use crate::names::{KindNames, ProgramName};
use crate::record::{RECORD, Record};
use crate::shell_words::path_word;

pub(crate) use self::controller::{ControllerTarget, KindOrigin, controller};

/// File contents by path, relative to the folder of the crate.
pub(crate) type Files = BTreeMap<PathBuf, String>;

/// The source of the framework's crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CrateSource {
    Path(PathBuf),
    /// The crates of this version in the crate registry.
    Version(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebhookParts {
    pub(crate) defaulting: bool,
    pub(crate) validating: bool,
}

/// The path of a generated file, and the text of its template in the folder `templates`.
macro_rules! template {
    ($path:literal, $name:literal) => {
        (
            $path,
            include_str!(concat!("../templates/", $name, ".tmpl")),
        )
    };
}

/// The file that explores a kind.
const EXPLORATION: (&str, &str) = template!("tests/it/explore/{{module}}.rs", "kind/explore.rs");

/// The list of the modules that explore the kinds of a crate.
const EXPLORATIONS: (&str, &str) = template!("tests/it/explore.rs", "crate/explore.rs");

/// The files of a new crate: the path and the template of each.
const CRATE: [(&str, &str); 14] = [
    template!("Cargo.toml", "crate/Cargo.toml"),
    template!("src/main.rs", "crate/main.rs"),
    template!("src/lib.rs", "crate/lib.rs"),
    template!("src/api.rs", "crate/api.rs"),
    template!("src/controllers.rs", "crate/controllers.rs"),
    template!("tests/it/main.rs", "crate/tests.rs"),
    EXPLORATIONS,
    template!("Dockerfile", "crate/Dockerfile"),
    template!(".dockerignore", "crate/dockerignore"),
    template!(".gitignore", "crate/gitignore"),
    template!(".github/workflows/ci.yml", "crate/ci.yml"),
    template!("README.md", "crate/README.md"),
    template!("AGENTS.md", "crate/AGENTS.md"),
    template!("rbac.observed.yaml", "crate/rbac.observed.yaml"),
];

/// The files of a new kind. `{{module}}` in a path stands for the module of the kind.
const KIND: [(&str, &str); 4] = [
    template!("src/api/{{module}}.rs", "kind/api.rs"),
    template!("src/controllers/{{module}}.rs", "kind/controller.rs"),
    template!("tests/it/{{module}}.rs", "kind/test.rs"),
    template!("config/samples/{{module}}.yaml", "kind/sample.yaml"),
];

/// The files that upgrades change. They are alike in all operators.
const INFRASTRUCTURE: [&str; 6] = [
    ".dockerignore", ".github/workflows/ci.yml", ".gitignore", "AGENTS.md", "Dockerfile",
    "README.md",
];

const WEBHOOKS: [(&str, &str); 1] = [template!("src/webhooks.rs", "webhook/webhooks.rs")];

const VERSION_TEST: [(&str, &str); 1] = [template!(
    "tests/it/{{module}}_versions.rs",
    "version/test.rs"
)];

const WEBHOOK: [(&str, &str); 2] = [
    template!("src/webhooks/{{module}}.rs", "webhook/webhook.rs"),
    template!("tests/it/{{module}}_webhook.rs", "webhook/test.rs"),
];

/// The files of a controller for a kind that exists already.
const CONTROLLER: [(&str, &str); 2] = [
    template!("src/controllers/{{module}}.rs", "controller/controller.rs"),
    template!("tests/it/{{module}}.rs", "controller/test.rs"),
];

pub(crate) fn operator(program: &ProgramName, kind: &KindNames, source: &CrateSource) -> Files {
    let mut values = values(program, kind);
    values.extend(source.places());
    let framework = source.dependency("steersman", ", features = [\"cli\"]");
    let harness = source.dependency("steersman-harness", "");
    values.extend([("steersman", framework), ("harness", harness)]);
    let mut files = filled(&CRATE, &values, &source.sections());
    files.extend(filled(&KIND, &values, &scope(kind.is_namespaced)));
    files.extend(exploration(program, kind));
    let record = infrastructure(program, &kind.group, &kind.plural, source);
    files.insert(RECORD.into(), record.text());
    files
}

/// Returns the files that an upgrade changes, which are the files of the record.
pub(crate) fn infrastructure(
    program: &ProgramName,
    group: &str,
    plural: &str,
    source: &CrateSource,
) -> Record {
    let mut values = source.places();
    values.extend(owned([
        ("program", &program.program),
        ("group", group),
        ("plural", plural),
    ]));
    let mut templates = CRATE.to_vec();
    templates.retain(|(path, _)| INFRASTRUCTURE.contains(path));
    let files = filled(&templates, &values, &source.sections()).into_iter();
    let files = files.map(|(path, text)| (path.to_string_lossy().replace('\\', "/"), text));
    Record {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        group: group.to_owned(),
        plural: plural.to_owned(),
        files: files.collect(),
    }
}

/// Returns the file that explores a kind.
pub(crate) fn exploration(program: &ProgramName, kind: &KindNames) -> Files {
    let sections = scope(kind.is_namespaced);
    filled(&[EXPLORATION], &values(program, kind), &sections)
}

/// Returns the list of explorations, for a crate without one: with the one of this kind.
pub(crate) fn explorations(program: &ProgramName, kind: &KindNames) -> Files {
    filled(&[EXPLORATIONS], &values(program, kind), &[])
}

pub(crate) fn kind(program: &ProgramName, kind: &KindNames) -> Files {
    let sections = scope(kind.is_namespaced);
    filled(&KIND, &values(program, kind), &sections)
}

fn values(program: &ProgramName, kind: &KindNames) -> Values {
    let sample = format!("{}-sample", kind.module.replace('_', "-"));
    owned([
        ("program", &program.program),
        ("library", &program.library),
        ("group", &kind.group),
        ("version", &kind.version),
        ("kind", &kind.kind),
        ("plural", &kind.plural),
        ("module", &kind.module),
        ("sample", &sample),
    ])
}

/// Returns the file of the module `webhooks`, without a webhook.
pub(crate) fn webhooks() -> Files {
    filled(&WEBHOOKS, &Values::new(), &[])
}

pub(crate) fn webhook(program: &ProgramName, kind: &ApiKind, parts: WebhookParts) -> Files {
    let done = match (parts.defaulting, parts.validating) {
        (true, true) => "completed_and_checked",
        (true, false) => "completed",
        (false, _) => "checked",
    };
    let values = owned([
        ("program", &program.program),
        ("library", &program.library),
        ("kind", &kind.kind),
        ("module", &kind.module),
        ("done", done),
    ]);
    let sections = [
        ("defaulting", parts.defaulting),
        ("validating", parts.validating),
        ("message", kind.has_message),
        ("other", !kind.has_message),
        ("namespaced", kind.is_namespaced),
    ];
    filled(&WEBHOOK, &values, &sections)
}

/// Returns a test that converts objects of the former version of a kind.
pub(crate) fn version_test(program: &ProgramName, kind: &ApiKind, former: &str) -> Files {
    let values = owned([
        ("library", &program.library),
        ("kind", &kind.kind),
        ("module", &kind.module),
        ("former", former),
    ]);
    filled(&VERSION_TEST, &values, &scope(kind.is_namespaced))
}

/// Returns which template sections are on for the scope of a kind.
fn scope(is_namespaced: bool) -> [(&'static str, bool); 2] {
    [("namespaced", is_namespaced), ("cluster", !is_namespaced)]
}

impl CrateSource {
    /// Returns which template sections are on: those about the framework's sources in a local folder.
    fn sections(&self) -> [(&'static str, bool); 1] {
        [("sources", matches!(self, Self::Path(_)))]
    }

    /// Returns template values with which the image and continuous integration get the framework's crates.
    fn places(&self) -> Values {
        let Self::Path(folder) = self else {
            return owned([("ci_install", "cargo install cargo-steersman --locked")]);
        };
        let text = folder.to_string_lossy();
        let word = path_word(folder);
        let command = path_word(&folder.join("crates/tools/cargo-steersman"));
        let install = format!("cargo install --path {command} --locked --profile tools");
        // The crates inherit only from the workspace manifest, so the image needs no other file of the workspace.
        let files = serde_json::json!(["Cargo.toml", "Cargo.lock", format!("{text}/")]);
        let crates = serde_json::json!(["crates", format!("{text}/crates")]);
        Values::from([
            ("ci_install", quoted(&install)),
            ("sources_check", quoted(&format!("test -d {word}"))),
            ("sources_files", files.to_string()),
            ("sources_crates", crates.to_string()),
            ("sources_path", text.into_owned()),
            ("sources_word", word),
        ])
    }

    /// Returns the line of `Cargo.toml` for a framework crate; `more` follows its version or path.
    fn dependency(&self, name: &str, more: &str) -> String {
        let place = match self {
            Self::Path(folder) => {
                let building = match name {
                    "steersman-harness" => "crates/tools",
                    "steersman-testenv" => "crates/server",
                    _ => "crates/framework",
                };
                let folder = folder.join(building).join(name);
                format!("path = {}", quoted(&folder.to_string_lossy()))
            }
            Self::Version(version) => format!("version = \"{version}\""),
        };
        format!("{name} = {{ {place}{more} }}")
    }
}

/// Returns a text as a TOML basic string. JSON escapes are valid in TOML.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn names() -> (ProgramName, KindNames) {
        let kind = KindNames::new(("example.com", "v1", "Greeting"), None, true);
        (ProgramName::new("greeter").unwrap(), kind.unwrap())
    }

    #[test]
    fn every_placeholder_is_filled() {
        let (program, kind) = names();
        for is_namespaced in [true, false] {
            let kind = KindNames {
                is_namespaced,
                ..kind.clone()
            };
            let sources = [
                CrateSource::Version("0.1".to_owned()),
                CrateSource::Path("/src/steersman".into()),
            ];
            for (path, content) in sources
                .iter()
                .flat_map(|source| operator(&program, &kind, source))
            {
                let text = format!("{}\n{content}", path.display());
                assert!(!text.contains("{{") && !text.contains("}}"), "{text}");
            }
        }
    }

    #[test]
    fn a_crate_that_depends_on_sources_has_them_everywhere() {
        let (program, kind) = names();
        let source = CrateSource::Path("/src/it's \"here\"".into());
        let files = operator(&program, &kind, &source);
        assert!(files[Path::new("src/main.rs")].lines().count() <= 40);
        let manifest = &files[Path::new("Cargo.toml")];
        let line = r#"steersman = { path = "/src/it's \"here\"/crates/framework/steersman", features = ["cli"] }"#;
        assert!(manifest.contains(line), "{manifest}");
        // The image and continuous integration have the framework's sources at the same path.
        let word = r#"'/src/it'\''s "here"'"#;
        let image = &files[Path::new("Dockerfile")];
        let context = format!("# docker build --build-context steersman={word} .\n");
        assert!(image.contains(&context), "{image}");
        let copy = r#"COPY --from=steersman ["crates","/src/it's \"here\"/crates"]"#;
        assert!(image.contains(copy), "{image}");
        let checks = &files[Path::new(".github/workflows/ci.yml")];
        let checks: serde_json::Value = serde_saphyr::from_str(checks).unwrap();
        let steps = checks["jobs"]["check"]["steps"].as_array().unwrap();
        assert_eq!(steps[1]["run"], format!("test -d {word}"));
        let install = r#"cargo install --path '/src/it'\''s "here"/crates/tools/cargo-steersman' --locked --profile tools"#;
        assert!(steps.iter().any(|step| step["run"] == install), "{checks}");
        // With released crates, neither the image nor continuous integration has extra steps.
        let released = CrateSource::Version("0.1".to_owned());
        let files = operator(&program, &kind, &released);
        for path in ["Dockerfile", ".github/workflows/ci.yml", "README.md"] {
            assert!(
                !files[Path::new(path)].contains("Steersman's sources"),
                "{path}"
            );
        }
    }
}
