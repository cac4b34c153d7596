//! The rule `layers`: a crate depends only on crates of lower rank and of its building, and few depend on kube-client.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

use super::lexer::line;
use super::tree::{File, Tree, Violation};

const PAGE: &str = "docs/architecture.md";

const TABLE: &str = "| rank | crate | may depend on |";

/// A package of the workspace and its dependencies, without dev-dependencies.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The path of its manifest, relative to the repository.
    pub(crate) manifest: String,
    /// Names of its normal and build dependencies; dev-dependencies are exempt.
    pub(crate) dependencies: Vec<String>,
}

#[derive(Debug, Clone)]
struct Row {
    name: String,
    /// The rank; packages without a rank are above all others.
    rank: u8,
    /// The packages of this workspace that it may depend on; `None` stands for all.
    may: Option<Vec<String>>,
    line: usize,
}

/// External crates that packages must not depend on.
const NEVER: &[(&[&str], &[&str])] = &[
    (
        &["steersman-object"],
        &["tokio", "tokio-util", "futures", "tracing"],
    ),
    (&["steersman-workqueue"], &["kube-core", "k8s-openapi"]),
    (
        &["steersman-pack"],
        &["tokio", "tracing", "kube-core", "k8s-openapi"],
    ),
    (
        &["steersman-derive"],
        &["tokio", "kube-core", "k8s-openapi"],
    ),
    (&["steersman-desired"], &["tokio"]),
    (&["steersman-manifests"], &["tokio", "hyper", "kube-client"]),
    // The pure crates and machines of the API server have no connections and no other definitions of protocol types.
    (
        &[
            "steersman-protobuf", "steersman-apimachinery", "steersman-cel", "steersman-schema",
            "steersman-store", "steersman-auth", "steersman-tables", "steersman-openapi",
            "steersman-builtins", "steersman-patch", "steersman-registry", "steersman-simulator",
            "steersman-explore",
        ],
        &["hyper", "kube-core", "k8s-openapi"],
    ),
];

/// External crates that only the listed packages may depend on.
const WRAPPED: &[(&str, &[&str])] = &[
    // The benchmarks compare with kube-runtime, which needs a client.
    (
        "kube-client",
        &[
            "steersman-transport", "steersman-api", "steersman-testenv", "steersman-bench",
        ],
    ),
    ("kube-runtime", &["steersman-bench"]),
    ("kube", &[]),
];

/// Packages of this workspace that an example without a row may depend on.
const EXAMPLES: &[&str] = &[
    "example-program", "steersman", "steersman-harness", "steersman-testenv",
];

/// The crate of the framework that operators depend on.
const FACADE: &str = "steersman";

/// The only crate of the framework that crates of the server may depend on.
const SHARED: &str = "steersman-protobuf";

/// Reads the packages of the workspace from `cargo metadata`, without a network and without writing the lock file.
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

/// Checks the table of ranks, and every package against it.
pub(crate) fn check(tree: &Tree, packages: &[Package]) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "does not exist", "write it")];
    };
    let rows = rows(page);
    let mut found = check_rows(&rows, packages);
    for package in packages {
        found.extend(check_package(package, &rows, packages));
    }
    found
}

fn rows(page: &File) -> Vec<Row> {
    let Some(start) = page.text.find(TABLE) else {
        return Vec::new();
    };
    let first = line(&page.text, start);
    let table = page.text[start..].lines().enumerate();
    let table = table.take_while(|(_, text)| text.starts_with('|')).skip(2);
    let row = |(at, text): (usize, &str)| {
        let mut cells = text.split('|').skip(1).map(str::trim);
        let (rank, name, may) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Row {
            name: name.trim_matches('`').to_owned(),
            rank: rank.parse().unwrap_or(u8::MAX),
            may: may_depend_on(may),
            line: first + at,
        })
    };
    table.filter_map(row).collect()
}

/// Returns the names of packages in a cell such as "cache, object, and `kube-client`"; those in backticks are no
/// packages of this workspace. The facade has its whole name.
fn may_depend_on(cell: &str) -> Option<Vec<String>> {
    let names = match cell {
        "all of them" => return None,
        "no crate of this workspace" => "",
        names => names,
    };
    let names = names.split(", ").filter(|name| !name.is_empty());
    let ours = names.filter(|name| !name.ends_with('`'));
    let name = |name: &str| match name {
        FACADE => name.to_owned(),
        name => format!("steersman-{name}"),
    };
    Some(ours.map(name).collect())
}

/// Checks that a row names only packages of lower rank on which its package depends.
fn check_rows(rows: &[Row], packages: &[Package]) -> Vec<Violation> {
    let mut found = Vec::new();
    for row in rows {
        let mut complain = |problem: String, remedy: &str| {
            let problem = format!("`{}` {problem}", row.name);
            found.push(Violation::new(PAGE, row.line, problem, remedy));
        };
        let Some(package) = packages.iter().find(|package| package.name == row.name) else {
            complain("is no package".to_owned(), "remove the row");
            continue;
        };
        if rows.iter().filter(|other| other.name == row.name).count() > 1 {
            complain("has two ranks".to_owned(), "remove one row");
        }
        for name in row.may.iter().flatten() {
            if !package.dependencies.contains(name) {
                let problem = format!("may depend on `{name}`, on which it does not depend");
                complain(problem, "remove the name");
            }
            let rank = rows.iter().find(|other| other.name == *name);
            if rank.is_some_and(|other| other.rank >= row.rank) {
                let problem = format!("may depend on `{name}`, which has no lower rank");
                let remedy = "give each crate a rank above those of its dependencies";
                complain(problem, remedy);
            }
        }
    }
    found
}

fn check_package(package: &Package, rows: &[Row], packages: &[Package]) -> Vec<Violation> {
    let complain =
        |problem: String, remedy: String| Violation::new(&package.manifest, 0, problem, remedy);
    let Some(allowed) = allowed(package, rows) else {
        let problem = format!("`{}` has no rank", package.name);
        let remedy = format!("add a row to the table of ranks in {PAGE}");
        return vec![complain(problem, remedy)];
    };
    let dependencies = package.dependencies.iter().filter_map(|dependency| {
        let ours = packages.iter().find(|package| package.name == *dependency);
        let remedy = match ours {
            Some(ours) => remedy_of_ours(package, ours, allowed.as_deref()),
            None => remedy_of_external(package, dependency),
        };
        let problem = format!("`{}` depends on `{dependency}`", package.name);
        Some(complain(problem, remedy?))
    });
    dependencies.collect()
}

/// Returns the packages of this workspace that a package may depend on, where the inner `None` stands for all; `None` if
/// the package has no rank.
fn allowed(package: &Package, rows: &[Row]) -> Option<Option<Vec<String>>> {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    match rows.iter().find(|row| row.name == package.name) {
        Some(row) => Some(row.may.clone()),
        None if package.manifest.starts_with("examples/") => Some(names(EXAMPLES)),
        None if package.name == "xtask" => Some(names(&[])),
        None => None,
    }
}

/// Returns the folder below `crates` that holds a package: `framework`, `server` or `tools`.
fn building(package: &Package) -> Option<&str> {
    let path = package.manifest.strip_prefix("crates/")?;
    path.split('/').next()
}

fn remedy_of_ours(package: &Package, other: &Package, may: Option<&[String]>) -> Option<String> {
    let is_near = match (building(package), building(other)) {
        (Some("framework"), building) => building == Some("framework"),
        (Some("server"), building) => building == Some("server") || other.name == SHARED,
        _ => true,
    };
    if !is_near {
        return Some(format!(
            "crates of the framework depend only on each other, crates of the server only on each other and `{SHARED}`: \
             move the code that it needs"
        ));
    }
    let may = may?;
    if may.contains(&other.name) {
        return None;
    }
    if may.is_empty() {
        return Some(format!(
            "`{}` may depend on no crate of this workspace: move the code that it needs into it",
            package.name
        ));
    }
    Some(format!(
        "it may depend only on {}: move the code that needs both to a higher crate, or the type that \
         it needs to a lower crate",
        may.join(", ")
    ))
}

fn remedy_of_external(package: &Package, dependency: &str) -> Option<String> {
    let name = package.name.as_str();
    let never = NEVER.iter().find(|(packages, _)| packages.contains(&name));
    if never.is_some_and(|(_, never)| never.contains(&dependency)) {
        return Some(
            "this crate must not depend on it: move the code that needs it to a higher crate"
                .to_owned(),
        );
    }
    let (_, wrappers) = WRAPPED.iter().find(|(name, _)| *name == dependency)?;
    if wrappers.contains(&name) {
        return None;
    }
    Some(match wrappers {
        [] => "no crate may: depend on the part of it that is needed".to_owned(),
        _ => format!("only {} may: use its types", wrappers.join(" and ")),
    })
}

#[cfg(test)]
mod tests {
    use super::{Package, Tree, check};

    const PAGE: &str = "\n
| rank | crate | may depend on | must not know |
|--:|---|---|---|
| 0 | `steersman-object` | no crate of this workspace | time |
| 0 | `steersman-protobuf` | no crate of this workspace | time |
| 1 | `steersman-api` | object, protobuf, and `kube-client` | stores |
| 2 | `steersman-cache` | api, object | queues |
| 0 | `steersman-apimachinery` | no crate of this workspace | time |
| 1 | `steersman-apiserver` | protobuf, apimachinery | api |
| 2 | `steersman-testenv` | apiserver | api |
| 3 | `steersman-harness` | cache, testenv | |
| - | `steersman-bench` | all of them | |
";

    /// Returns a package with a name such as `framework/cache` and the dependencies of its row.
    fn package(path: &str) -> Package {
        let (folder, name) = path.split_once('/').unwrap();
        let folder = match folder {
            "examples" => "examples".to_owned(),
            folder => format!("crates/{folder}"),
        };
        let row = PAGE
            .lines()
            .find(|row| row.contains(&format!("| `{name}` |")));
        let may = row.and_then(|row| row.split('|').nth(3)).map(str::trim);
        let may = may.and_then(super::may_depend_on);
        Package {
            name: name.to_owned(),
            manifest: format!("{folder}/{name}/Cargo.toml"),
            dependencies: may.unwrap_or_default(),
        }
    }

    fn workspace() -> Vec<Package> {
        let paths = [
            "framework/steersman-object",
            "framework/steersman-protobuf",
            "framework/steersman-api",
            "framework/steersman-cache",
            "server/steersman-apimachinery",
            "server/steersman-apiserver",
            "server/steersman-testenv",
            "tools/steersman-harness",
            "tools/steersman-bench",
            "examples/website-operator",
        ];
        paths.map(package).into()
    }

    fn messages(page: &str, packages: &[Package]) -> Vec<String> {
        let tree = Tree::of(&[(super::PAGE, page)]);
        let found = check(&tree, packages);
        found
            .iter()
            .map(|violation| violation.of_rule("layers"))
            .collect()
    }

    /// Returns the violations of a workspace in which `name` depends on `dependency`, too.
    fn violations(name: &str, dependency: &str) -> Vec<String> {
        let mut packages = workspace();
        if !packages.iter().any(|package| package.name == name) {
            packages.push(package(&format!("tools/{name}")));
        }
        let package = packages.iter_mut().find(|package| package.name == name);
        let dependencies = &mut package.unwrap().dependencies;
        dependencies.push(dependency.to_owned());
        messages(PAGE, &packages)
    }

    #[test]
    fn a_dependency_that_is_not_in_the_row_fails() {
        for (name, dependency) in [
            ("steersman-api", "steersman-cache"),
            ("steersman-harness", "steersman-api"),
            ("steersman-testenv", "steersman-apimachinery"),
            ("website-operator", "steersman-cache"),
            ("xtask", "steersman-object"),
            ("steersman-cache", "kube-client"),
            ("website-operator", "kube-client"),
            ("steersman-cache", "kube-runtime"),
            ("website-operator", "kube"),
            ("steersman-object", "tokio"),
            ("steersman-apimachinery", "k8s-openapi"),
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
    fn a_dependency_that_is_in_the_row_passes() {
        assert_eq!(messages(PAGE, &workspace()), Vec::<String>::new());
        for (name, dependency) in [
            ("steersman-api", "kube-client"),
            ("website-operator", "steersman-testenv"),
            ("website-operator", "steersman-harness"),
            ("steersman-bench", "kube-runtime"),
            ("steersman-bench", "steersman-apiserver"),
            ("xtask", "toml"),
        ] {
            let said = violations(name, dependency);
            assert_eq!(said, Vec::<String>::new(), "{name} -> {dependency}");
        }
    }

    #[test]
    fn a_dependency_on_another_building_fails_even_if_a_row_has_it() {
        for (row, dependency) in [
            ("| 2 | `steersman-cache` | api, object", "apimachinery"),
            ("| 2 | `steersman-testenv` | apiserver", "object"),
        ] {
            let page = PAGE.replace(row, &format!("{row}, {dependency}"));
            let mut packages = workspace();
            let name = row.split('`').nth(1).unwrap();
            let package = packages.iter_mut().find(|package| package.name == name);
            let dependencies = &mut package.unwrap().dependencies;
            dependencies.push(format!("steersman-{dependency}"));
            let said = messages(&page, &packages);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains("of the framework depend only"), "{said:?}");
        }
    }

    #[test]
    fn a_rank_is_above_those_of_the_dependencies() {
        for rank in ["1", "0"] {
            let page = PAGE.replace(
                "| 2 | `steersman-cache`",
                &format!("| {rank} | `steersman-cache`"),
            );
            let said = messages(&page, &workspace());
            assert!(said[0].contains("has no lower rank"), "{said:?}");
        }
    }

    #[test]
    fn a_row_names_one_package_and_only_its_dependencies() {
        for (old, new, problem) in [
            (
                "| api, object |", "| api, object, protobuf |", "does not depend",
            ),
            ("`steersman-bench`", "`steersman-benches`", "is no package"),
            (
                "\n| - |",
                "\n| 1 | `steersman-api` | object, protobuf |\n| - |",
                "two ranks",
            ),
        ] {
            let said = messages(&PAGE.replacen(old, new, 1), &workspace());
            assert!(said.iter().any(|said| said.contains(problem)), "{said:?}");
        }
        assert_eq!(check(&Tree::default(), &[]).len(), 1);
    }
}
