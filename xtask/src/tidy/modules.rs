//! The rule `modules`: a module names only modules declared above it, and every file is declared.

use std::collections::BTreeSet;

use super::lexer::Source;
use super::tree::{File, Tree, Violation};

mod paths;

use self::paths::{Names, Reference};

/// A module with a file of its own.
struct Module<'a> {
    file: &'a File,
    /// The path from the crate root, for example `["store", "index"]`.
    path: Vec<String>,
    names: Names,
}

/// Checks every package for wrong order of modules, undeclared files and `mod.rs`.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let packages: BTreeSet<&str> = tree.rust().filter_map(File::package).collect();
    let check = |package| check_package(tree, package);
    packages.into_iter().flat_map(check).collect()
}

fn check_package(tree: &Tree, package: &str) -> Vec<Violation> {
    let src = format!("{package}/src/");
    let mut found = Vec::new();
    let mut reached = BTreeSet::new();
    for file in tree.rust().filter(|file| is_root(&file.path, package)) {
        let modules = reachable(tree, file);
        reached.extend(modules.iter().map(|module| module.file.path.as_str()));
        for module in &modules {
            found.extend(order(module, &modules));
        }
    }
    for file in tree.rust().filter(|file| file.path.starts_with(&src)) {
        if file.name() == "mod.rs" {
            let remedy = "move it one level up and name it after its folder";
            found.push(Violation::new(&file.path, 0, "is a `mod.rs`", remedy));
        } else if !reached.contains(file.path.as_str()) {
            let problem = "is declared by no module";
            let remedy = "declare it with `mod`, or delete it";
            found.push(Violation::new(&file.path, 0, problem, remedy));
        }
    }
    found
}

/// Returns whether the path is a crate root: `src/lib.rs`, `src/main.rs` or `src/bin/*.rs`.
fn is_root(path: &str, package: &str) -> bool {
    let inside = path.strip_prefix(package).unwrap_or_default();
    let parts: Vec<&str> = inside.split('/').collect();
    matches!(
        parts[..],
        ["", "src", "lib.rs" | "main.rs"] | ["", "src", "bin", _]
    )
}

/// Returns the root and every file that its `mod` lines lead to, test modules included.
fn reachable<'a>(tree: &'a Tree, root: &'a File) -> Vec<Module<'a>> {
    let mut waiting = vec![(root, Vec::new())];
    let mut found: Vec<Module<'a>> = Vec::new();
    while let Some((file, path)) = waiting.pop() {
        let names = Names::of(&Source::of(&file.text));
        for child in &names.children {
            if let Some(file) = tree.get(&file_of(root, &path, child)) {
                let path = path.iter().chain([child]).cloned().collect();
                waiting.push((file, path));
            }
        }
        found.push(Module { file, path, names });
    }
    found
}

/// Returns the path of the file of the module `parent::child`.
fn file_of(root: &File, parent: &[String], child: &str) -> String {
    let folder = &root.path[..root.path.len() - root.name().len()];
    let parents: String = parent.iter().map(|part| format!("{part}/")).collect();
    format!("{folder}{parents}{child}.rs")
}

/// Finds references of a module to modules declared below it, or below one of its parents.
fn order(module: &Module<'_>, modules: &[Module<'_>]) -> Vec<Violation> {
    if module.file.is_test() {
        return Vec::new();
    }
    let mut found: Vec<Violation> = Vec::new();
    for Reference { from, to, at } in &module.names.references {
        let user: Vec<&String> = module.path.iter().chain(from).collect();
        let Some(target) = absolute(&user, to) else {
            continue;
        };
        let shared = user.iter().zip(&target).take_while(|(a, b)| a == b).count();
        let (Some(mine), Some(named)) = (user.get(shared), target.get(shared)) else {
            continue;
        };
        let parent = modules.iter().find(|other| {
            other.path.len() == shared && other.path.iter().zip(&user).all(|(a, b)| a == *b)
        });
        let Some(parent) = parent else { continue };
        let declared = &parent.names.declared;
        let position = |name: &str| declared.iter().position(|declared| declared == name);
        // A name that is not a module may be re-exported by the parent from one of its modules.
        let through = parent.names.exports.iter().find(|(name, _)| name == *named);
        let sibling = match (position(named), through) {
            (Some(_), _) => named.as_str(),
            (None, Some((_, from))) => from.as_str(),
            (None, None) => continue,
        };
        if let (Some(above), Some(below)) = (position(mine), position(sibling))
            && below > above
        {
            let parent = &parent.file.path;
            let problem = format!("`{mine}` names `{sibling}`, which {parent} declares below it");
            let remedy = "declare it above, or move the shared code to a module above both";
            let violation = module.file.violation(*at, problem, remedy);
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
    }
    found
}

/// Returns a written path as a path from the crate root, or `None` if it leaves the crate.
fn absolute<'a>(user: &[&'a String], to: &'a [String]) -> Option<Vec<&'a String>> {
    let (first, rest) = to.split_first()?;
    let mut path: Vec<&String> = match first.as_str() {
        "crate" => Vec::new(),
        "self" => user.to_vec(),
        "super" => user[..user.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    for part in rest {
        if part == "super" {
            path.pop()?;
        } else if part != "self" {
            path.push(part);
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests;
