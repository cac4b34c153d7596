//! Modules: a module names only those declared above it, and every file belongs to one.

use std::collections::BTreeSet;

use super::lexer::{Source, line};
use super::tree::{File, Tree, Violation};

mod paths;

use self::paths::{Names, Reference};

/// The name of this rule.
pub(crate) const RULE: &str = "modules";

/// One module that lives in a file.
struct Module<'a> {
    file: &'a File,
    /// From the crate root: `["store", "index"]`.
    path: Vec<String>,
    names: Names,
}

/// Checks every package: order of modules, files that no module declares, and `mod.rs`.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let packages: BTreeSet<&str> = tree.rust().filter_map(File::package).collect();
    packages
        .into_iter()
        .flat_map(|package| check_package(tree, package))
        .collect()
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
            found.push(complain(
                file,
                0,
                "is a `mod.rs`",
                "call it after its folder, one level up",
            ));
        } else if !reached.contains(file.path.as_str()) {
            found.push(complain(
                file,
                0,
                "belongs to no module",
                "declare it with `mod`, or delete it",
            ));
        }
    }
    found
}

/// `src/lib.rs`, `src/main.rs` and `src/bin/*.rs`.
fn is_root(path: &str, package: &str) -> bool {
    let Some(inside) = path
        .strip_prefix(package)
        .and_then(|rest| rest.strip_prefix("/src/"))
    else {
        return false;
    };
    let program = inside
        .strip_prefix("bin/")
        .is_some_and(|name| !name.contains('/'));
    matches!(inside, "lib.rs" | "main.rs") || program
}

/// The root and every file its `mod` lines lead to, test modules included.
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

/// Where the module `parent::child` lives.
fn file_of(root: &File, parent: &[String], child: &str) -> String {
    let folder = &root.path[..root.path.len() - root.name().len()];
    let mut path = folder.to_owned();
    for part in parent {
        path.push_str(part);
        path.push('/');
    }
    path.push_str(child);
    path.push_str(".rs");
    path
}

/// References of one module to siblings, or siblings of a parent, that stand below it.
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
        let place = |name: &str| {
            parent
                .names
                .declared
                .iter()
                .position(|declared| declared == name)
        };
        // A name that is no module may be one that the parent re-exports from a module.
        let through = parent.names.exports.iter().find(|(name, _)| name == *named);
        let sibling = match (place(named), through) {
            (Some(_), _) => named.as_str(),
            (None, Some((_, from))) => from.as_str(),
            (None, None) => continue,
        };
        if let (Some(above), Some(below)) = (place(mine), place(sibling))
            && below > above
        {
            let violation = complain(
                module.file,
                line(&module.file.text, *at),
                &format!(
                    "`{mine}` names `{sibling}`, which {} declares below it",
                    parent.file.path
                ),
                "declare it above, or move what both need to a module above both",
            );
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
    }
    found
}

/// Turns a path as written into one from the crate root; `None` for paths that leave the crate.
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

fn complain(file: &File, line: usize, problem: &str, way_out: &str) -> Violation {
    Violation {
        rule: RULE,
        path: file.path.clone(),
        line,
        problem: problem.to_owned(),
        way_out: way_out.to_owned(),
    }
}

#[cfg(test)]
mod tests;
