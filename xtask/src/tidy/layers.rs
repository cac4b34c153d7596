//! Crate ranks: a crate names only crates of lower ranks, and only few may name the wire.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::tree::Violation;

/// The name of this rule.
pub(crate) const RULE: &str = "layers";

/// A package of the workspace and what it depends on outside its tests.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder's manifest, relative to the repository.
    pub(crate) manifest: String,
    /// Packages it depends on, normally or to build; dev-dependencies are exempt.
    pub(crate) dependencies: Vec<String>,
}

/// One row of the rank table.
struct Row {
    name: &'static str,
    /// Crates of ours it may name.
    may: &'static [&'static str],
    /// Other people's crates it must never know.
    never: &'static [&'static str],
}

const OBJECT: &str = "steersman-object";
const WORKQUEUE: &str = "steersman-workqueue";
const TEXT: &str = "steersman-text";
const CEL: &str = "steersman-cel";
const SCHEMA: &str = "steersman-schema";
const KINDS: &str = "steersman-kinds";
const PATCH: &str = "steersman-patch";
const REGISTRY: &str = "steersman-registry";
const PLAYER: &str = "steersman-player";
const APISERVER: &str = "steersman-apiserver";
const API: &str = "steersman-api";
const TESTENV: &str = "steersman-testenv";
const INFORMER: &str = "steersman-informer";
const CACHE: &str = "steersman-cache";
const CLIENT: &str = "steersman-client";
const CONTROLLER: &str = "steersman-controller";
const MANAGER: &str = "steersman-manager";
const FACADE: &str = "steersman";
const BENCH: &str = "steersman-bench";
const FUZZ: &str = "steersman-fuzz";

/// What the machines of the API server do without: runtimes, connections, and other people's types of the wire.
const WIRE: &[&str] = &["hyper", "kube-core", "k8s-openapi"];

/// The rank table, lowest rank first.
const RANKS: &[Row] = &[
    Row {
        name: OBJECT,
        may: &[],
        never: &["tokio", "tokio-util", "futures", "tracing"],
    },
    Row {
        name: WORKQUEUE,
        may: &[],
        never: &["kube-core", "k8s-openapi"],
    },
    Row {
        name: TEXT,
        may: &[],
        never: WIRE,
    },
    Row {
        name: CEL,
        may: &[TEXT],
        never: WIRE,
    },
    Row {
        name: SCHEMA,
        may: &[CEL, TEXT],
        never: WIRE,
    },
    Row {
        name: KINDS,
        may: &[SCHEMA, CEL, TEXT],
        never: WIRE,
    },
    Row {
        name: PATCH,
        may: &[SCHEMA, TEXT],
        never: WIRE,
    },
    Row {
        name: REGISTRY,
        may: &[KINDS, PATCH, SCHEMA, CEL, TEXT],
        never: WIRE,
    },
    Row {
        name: PLAYER,
        may: &[REGISTRY, SCHEMA, TEXT],
        never: WIRE,
    },
    Row {
        name: APISERVER,
        may: &[PLAYER, REGISTRY, SCHEMA, TEXT],
        never: &[],
    },
    Row {
        name: FUZZ,
        may: &[APISERVER],
        never: &[],
    },
    Row {
        name: API,
        may: &[OBJECT],
        never: &[],
    },
    Row {
        name: TESTENV,
        may: &[APISERVER],
        never: &[],
    },
    Row {
        name: INFORMER,
        may: &[API, OBJECT],
        never: &[],
    },
    Row {
        name: CACHE,
        may: &[INFORMER, API, OBJECT],
        never: &[],
    },
    Row {
        name: CLIENT,
        may: &[CACHE, API, OBJECT],
        never: &[],
    },
    Row {
        name: CONTROLLER,
        may: &[CLIENT, CACHE, INFORMER, WORKQUEUE, OBJECT],
        never: &[],
    },
    Row {
        name: MANAGER,
        may: &[CONTROLLER, CLIENT, CACHE, INFORMER, API, WORKQUEUE, OBJECT],
        never: &[],
    },
    Row {
        name: FACADE,
        may: &[
            MANAGER, CONTROLLER, CLIENT, CACHE, INFORMER, API, WORKQUEUE, OBJECT,
        ],
        never: &[],
    },
];

/// Crates of other people that only the named packages may depend on.
const WRAPPED: &[(&str, &[&str])] = &[
    // The benchmarks use it as a user of kube-runtime would.
    ("kube-client", &[API, TESTENV, BENCH]),
    ("kube-runtime", &[BENCH]),
    ("kube", &[]),
];

/// What an example may name of ours.
const EXAMPLES: &[&str] = &[FACADE, TESTENV];

/// Reads the workspace's packages, without a network and without touching the lock file.
///
/// # Errors
/// Says why cargo did not answer.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .map_err(|error| format!("cargo metadata gave no answer: {error}"))?;
    let packages = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| Package {
            name: package.name.to_string(),
            manifest: package
                .manifest_path
                .strip_prefix(&metadata.workspace_root)
                .unwrap_or(&package.manifest_path)
                .to_string(),
            dependencies: package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.clone())
                .collect(),
        });
    Ok(packages.collect())
}

/// Checks every package against the rank table.
pub(crate) fn check(packages: &[Package]) -> Vec<Violation> {
    let ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut found = Vec::new();
    for package in packages {
        let allowed = match allowed(package) {
            Ok(allowed) => allowed,
            Err(violation) => {
                found.push(violation);
                continue;
            }
        };
        for dependency in &package.dependencies {
            let complaint = if ours(dependency) {
                let known = allowed.is_none_or(|may| may.contains(&dependency.as_str()));
                (!known).then(|| ours_complaint(package, allowed.unwrap_or_default()))
            } else {
                theirs_complaint(package, dependency)
            };
            found.extend(complaint.map(|way_out| Violation {
                rule: RULE,
                path: package.manifest.clone(),
                line: 0,
                problem: format!("`{}` depends on `{dependency}`", package.name),
                way_out,
            }));
        }
    }
    found
}

/// What of ours a package may name; `None` is everything.
fn allowed(package: &Package) -> Result<Option<&'static [&'static str]>, Violation> {
    if package.name == BENCH {
        return Ok(None);
    }
    if package.manifest.starts_with("examples/") {
        return Ok(Some(EXAMPLES));
    }
    if package.name == "xtask" {
        return Ok(Some(&[]));
    }
    RANKS
        .iter()
        .find(|row| row.name == package.name)
        .map(|row| Some(row.may))
        .ok_or_else(|| Violation {
            rule: RULE,
            path: package.manifest.clone(),
            line: 0,
            problem: format!("`{}` has no rank", package.name),
            way_out: "give it a row in RANKS of xtask/src/tidy/layers.rs".to_owned(),
        })
}

fn ours_complaint(package: &Package, may: &[&str]) -> String {
    if may.is_empty() {
        return format!(
            "`{}` names no crate of ours: move what it needs into it",
            package.name
        );
    }
    format!(
        "its rank lets it name only {}: move the line to a crate above both, or the word it needs \
         to one below both",
        may.join(", ")
    )
}

fn theirs_complaint(package: &Package, dependency: &str) -> Option<String> {
    let row = RANKS.iter().find(|row| row.name == package.name);
    if row.is_some_and(|row| row.never.contains(&dependency)) {
        return Some("this crate must never know it: move what needs it one rank up".to_owned());
    }
    let (_, wrappers) = WRAPPED.iter().find(|(name, _)| *name == dependency)?;
    if wrappers.contains(&package.name.as_str()) {
        return None;
    }
    Some(match wrappers {
        [] => "nobody does here: depend on the part that is needed".to_owned(),
        _ => format!("only {} may: go through it", wrappers.join(" and ")),
    })
}

#[cfg(test)]
mod tests {
    use super::{Package, RANKS, check};

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let folder = if name.ends_with("-operator") {
            "examples"
        } else {
            "crates"
        };
        Package {
            name: name.to_owned(),
            manifest: format!("{folder}/{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// What the rule says when `name` depends on `dependency`, in a workspace with every crate.
    fn says(name: &str, dependency: &str) -> Vec<String> {
        let mut packages: Vec<Package> = RANKS
            .iter()
            .filter(|row| row.name != name)
            .map(|row| package(row.name, &[]))
            .collect();
        packages.push(package(name, &[dependency]));
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependencies_upwards_or_sideways_fail() {
        for (name, dependency) in [
            ("steersman-api", "steersman-informer"),
            ("steersman-informer", "steersman-controller"),
            ("steersman-controller", "steersman-api"),
            ("steersman-apiserver", "steersman-object"),
            ("steersman-manager", "steersman-testenv"),
            ("steersman", "steersman-apiserver"),
            ("steersman-testenv", "steersman-api"),
            ("xtask", "steersman-object"),
            ("website-operator", "steersman-cache"),
            ("steersman-cache", "kube-client"),
            ("steersman", "kube-client"),
            ("website-operator", "kube-client"),
            ("steersman-informer", "kube-runtime"),
            ("website-operator", "kube"),
            ("steersman-object", "tokio"),
            ("steersman-workqueue", "k8s-openapi"),
            ("steersman-unheard-of", "serde"),
        ] {
            let said = says(name, dependency);
            assert_eq!(said.len(), 1, "{name} -> {dependency}: {said:?}");
            assert!(
                said[0].contains(name) && said[0].contains("[layers]"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn dependencies_downwards_pass() {
        for (name, dependency) in [
            ("steersman-api", "kube-client"),
            ("steersman-testenv", "steersman-apiserver"),
            ("steersman-manager", "steersman-api"),
            ("website-operator", "steersman-testenv"),
            ("steersman-bench", "kube-runtime"),
            ("steersman-bench", "steersman-controller"),
            ("xtask", "toml"),
        ] {
            assert_eq!(
                says(name, dependency),
                Vec::<String>::new(),
                "{name} -> {dependency}"
            );
        }
    }

    #[test]
    fn the_table_lists_lower_ranks_first() {
        for (index, row) in RANKS.iter().enumerate() {
            for name in row.may {
                assert!(
                    RANKS[..index].iter().any(|below| below.name == *name),
                    "{}",
                    row.name
                );
            }
        }
    }
}
