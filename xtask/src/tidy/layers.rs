//! The rule `layers`: a crate depends only on crates of lower rank, and few depend on kube-client.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::tree::Violation;

/// The name of this rule.
pub(crate) const RULE: &str = "layers";

/// A package of the workspace and its dependencies, without dev-dependencies.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The name of the package.
    pub(crate) name: String,
    /// The path of its manifest, relative to the repository.
    pub(crate) manifest: String,
    /// Names of its normal and build dependencies; dev-dependencies are exempt.
    pub(crate) dependencies: Vec<String>,
}

/// A row of the rank table.
struct Row {
    name: &'static str,
    /// Crates of this workspace that it may depend on.
    may: &'static [&'static str],
    /// External crates that it must not depend on.
    never: &'static [&'static str],
}

const OBJECT: &str = "steersman-object";
const WORKQUEUE: &str = "steersman-workqueue";
const TRANSPORT: &str = "steersman-transport";
const PACK: &str = "steersman-pack";
const PROTOBUF: &str = "steersman-protobuf";
const APIMACHINERY: &str = "steersman-apimachinery";
const CEL: &str = "steersman-cel";
const SCHEMA: &str = "steersman-schema";
const BUILTINS: &str = "steersman-builtins";
const PATCH: &str = "steersman-patch";
const REGISTRY: &str = "steersman-registry";
const SIMULATOR: &str = "steersman-simulator";
const APISERVER: &str = "steersman-apiserver";
const API: &str = "steersman-api";
const TESTENV: &str = "steersman-testenv";
const SERVE: &str = "steersman-serve";
const EVENTS: &str = "steersman-events";
const LEASE: &str = "steersman-lease";
const INFORMER: &str = "steersman-informer";
const CACHE: &str = "steersman-cache";
const CLIENT: &str = "steersman-client";
const CRDS: &str = "steersman-crds";
const DERIVE: &str = "steersman-derive";
const DESIRED: &str = "steersman-desired";
const WEBHOOK: &str = "steersman-webhook";
const CONTROLLER: &str = "steersman-controller";
const MANAGER: &str = "steersman-manager";
const CLI: &str = "steersman-cli";
const MANIFESTS: &str = "steersman-manifests";
const FACADE: &str = "steersman";
const CARGO: &str = "cargo-steersman";
const HARNESS: &str = "steersman-harness";
const BENCH: &str = "steersman-bench";
const FUZZ: &str = "steersman-fuzz";
const WEBHOOK_FUZZ: &str = "steersman-webhook-fuzz";
const PROTOBUF_FUZZ: &str = "steersman-protobuf-fuzz";

/// External crates that the pure crates and machines of the API server must not depend on: connections
/// and other definitions of protocol types.
const WIRE: &[&str] = &["hyper", "kube-core", "k8s-openapi"];

/// The rank table, lowest rank first. A crate on the client side of the wire may list a pure crate of the
/// API server (text, CEL, message tables), but none that defines protocol types (decision 0024).
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
        name: TRANSPORT,
        may: &[],
        never: &[],
    },
    Row {
        name: PACK,
        may: &[],
        never: &["tokio", "kube-core", "k8s-openapi", "tracing"],
    },
    Row {
        name: DERIVE,
        may: &[],
        never: &["tokio", "kube-core", "k8s-openapi"],
    },
    Row {
        name: PROTOBUF,
        may: &[],
        never: WIRE,
    },
    Row {
        name: PROTOBUF_FUZZ,
        may: &[PROTOBUF],
        never: &[],
    },
    Row {
        name: APIMACHINERY,
        may: &[],
        never: WIRE,
    },
    Row {
        name: CEL,
        may: &[APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: SCHEMA,
        may: &[CEL, PROTOBUF, APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: BUILTINS,
        may: &[SCHEMA, CEL, APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: PATCH,
        may: &[SCHEMA, APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: REGISTRY,
        may: &[BUILTINS, PATCH, SCHEMA, CEL, PROTOBUF, APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: SIMULATOR,
        may: &[REGISTRY, SCHEMA, APIMACHINERY],
        never: WIRE,
    },
    Row {
        name: APISERVER,
        may: &[SIMULATOR, REGISTRY, SCHEMA, PROTOBUF, APIMACHINERY],
        never: &[],
    },
    Row {
        name: FUZZ,
        may: &[APISERVER, PROTOBUF],
        never: &[],
    },
    Row {
        name: API,
        may: &[TRANSPORT, OBJECT, PROTOBUF],
        never: &[],
    },
    Row {
        name: TESTENV,
        may: &[APISERVER, APIMACHINERY],
        never: &[],
    },
    Row {
        name: SERVE,
        may: &[API, OBJECT],
        never: &[],
    },
    Row {
        name: EVENTS,
        may: &[API, OBJECT],
        never: &[],
    },
    Row {
        name: LEASE,
        may: &[API, OBJECT],
        never: &[],
    },
    Row {
        name: CRDS,
        may: &[API, OBJECT],
        never: &[],
    },
    Row {
        name: INFORMER,
        may: &[API, PACK, OBJECT],
        never: &[],
    },
    Row {
        name: CACHE,
        may: &[INFORMER, API, OBJECT],
        never: &[],
    },
    Row {
        name: CLIENT,
        may: &[CACHE, CRDS, API, OBJECT],
        never: &[],
    },
    Row {
        name: DESIRED,
        may: &[CLIENT, API, OBJECT],
        never: &["tokio"],
    },
    Row {
        name: WEBHOOK,
        may: &[CLIENT, SERVE, API, OBJECT],
        never: &[],
    },
    Row {
        name: WEBHOOK_FUZZ,
        may: &[WEBHOOK, OBJECT],
        never: &[],
    },
    Row {
        name: CONTROLLER,
        may: &[CLIENT, CACHE, INFORMER, EVENTS, WORKQUEUE, OBJECT],
        never: &[],
    },
    Row {
        name: MANAGER,
        may: &[
            CONTROLLER, WEBHOOK, CLIENT, CACHE, INFORMER, EVENTS, LEASE, CRDS, SERVE, API,
            WORKQUEUE, OBJECT,
        ],
        never: &[],
    },
    Row {
        name: CLI,
        may: &[
            MANAGER, CONTROLLER, WEBHOOK, CRDS, CACHE, LEASE, SERVE, API, OBJECT,
        ],
        never: &[],
    },
    Row {
        name: MANIFESTS,
        may: &[CLI, CRDS, OBJECT, APIMACHINERY],
        never: &["tokio", "hyper", "kube-client"],
    },
    Row {
        name: FACADE,
        may: &[
            CLI, MANAGER, CONTROLLER, WEBHOOK, DESIRED, CLIENT, CACHE, INFORMER, EVENTS, LEASE,
            CRDS, SERVE, API, WORKQUEUE, DERIVE, OBJECT,
        ],
        never: &[],
    },
    Row {
        name: HARNESS,
        may: &[
            MANAGER, CONTROLLER, WEBHOOK, CLIENT, CACHE, CRDS, TESTENV, API, OBJECT,
        ],
        never: &[],
    },
    Row {
        name: CARGO,
        may: &[
            MANIFESTS,
            CLI,
            WEBHOOK,
            CRDS,
            TESTENV,
            SCHEMA,
            API,
            OBJECT,
            APIMACHINERY,
        ],
        never: &[],
    },
];

/// External crates that only the listed packages may depend on.
const WRAPPED: &[(&str, &[&str])] = &[
    // The benchmarks compare with kube-runtime, which needs a client.
    ("kube-client", &[TRANSPORT, API, TESTENV, BENCH]),
    ("kube-runtime", &[BENCH]),
    ("kube", &[]),
];

/// Crates of this workspace that an example may depend on.
const EXAMPLES: &[&str] = &[FACADE, HARNESS, TESTENV];

/// Reads the packages of the workspace from `cargo metadata`, without a network and without writing
/// the lock file.
///
/// # Errors
/// Returns the error of `cargo metadata`.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
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
            let remedy = if ours(dependency) {
                let known = allowed.is_none_or(|may| may.contains(&dependency.as_str()));
                (!known).then(|| remedy_of_ours(package, allowed.unwrap_or_default()))
            } else {
                remedy_of_external(package, dependency)
            };
            found.extend(remedy.map(|remedy| {
                let problem = format!("`{}` depends on `{dependency}`", package.name);
                Violation::new(RULE, &package.manifest, 0, problem, remedy)
            }));
        }
    }
    found
}

/// Returns the crates of this workspace that a package may depend on; `None` stands for all.
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
        .ok_or_else(|| {
            Violation::new(
                RULE,
                &package.manifest,
                0,
                format!("`{}` has no rank", package.name),
                "add a row to RANKS in xtask/src/tidy/layers.rs",
            )
        })
}

fn remedy_of_ours(package: &Package, may: &[&str]) -> String {
    if may.is_empty() {
        return format!(
            "`{}` may depend on no crate of this workspace: move the code that it needs into it",
            package.name
        );
    }
    format!(
        "it may depend only on {}: move the code that needs both to a higher crate, or the type that \
         it needs to a lower crate",
        may.join(", ")
    )
}

fn remedy_of_external(package: &Package, dependency: &str) -> Option<String> {
    let row = RANKS.iter().find(|row| row.name == package.name);
    if row.is_some_and(|row| row.never.contains(&dependency)) {
        return Some(
            "this crate must not depend on it: move the code that needs it to a higher crate"
                .to_owned(),
        );
    }
    let (_, wrappers) = WRAPPED.iter().find(|(name, _)| *name == dependency)?;
    if wrappers.contains(&package.name.as_str()) {
        return None;
    }
    Some(match wrappers {
        [] => "no crate may: depend on the part of it that is needed".to_owned(),
        _ => format!("only {} may: use its types", wrappers.join(" and ")),
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

    /// Returns the violations of a complete workspace in which `name` depends on `dependency`.
    fn violations(name: &str, dependency: &str) -> Vec<String> {
        let mut packages: Vec<Package> = RANKS
            .iter()
            .filter(|row| row.name != name)
            .map(|row| package(row.name, &[]))
            .collect();
        packages.push(package(name, &[dependency]));
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_on_a_crate_of_the_same_or_higher_rank_fails() {
        for (name, dependency) in [
            ("steersman-api", "steersman-informer"),
            ("steersman-informer", "steersman-controller"),
            ("steersman-controller", "steersman-api"),
            ("steersman-apiserver", "steersman-object"),
            ("steersman-manager", "steersman-testenv"),
            ("steersman", "steersman-apiserver"),
            ("steersman", "steersman-harness"),
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
            let said = violations(name, dependency);
            assert_eq!(said.len(), 1, "{name} -> {dependency}: {said:?}");
            assert!(
                said[0].contains(name) && said[0].contains("[layers]"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_dependency_on_a_crate_of_lower_rank_passes() {
        for (name, dependency) in [
            ("steersman-api", "kube-client"),
            ("steersman-testenv", "steersman-apiserver"),
            ("steersman-manager", "steersman-api"),
            ("website-operator", "steersman-testenv"),
            ("website-operator", "steersman-harness"),
            ("steersman-harness", "steersman-manager"),
            ("steersman-bench", "kube-runtime"),
            ("steersman-bench", "steersman-controller"),
            ("xtask", "toml"),
        ] {
            assert_eq!(
                violations(name, dependency),
                Vec::<String>::new(),
                "{name} -> {dependency}"
            );
        }
    }

    #[test]
    fn the_rank_table_is_sorted_by_rank() {
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
