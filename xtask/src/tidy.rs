//! The repository's own rules, each a function over a tree of files in memory.
//!
//! `cargo test -p xtask` runs every rule on the real tree, and shows on small made-up trees that
//! each of them is able to fail.

mod tree;
mod lexer;
mod layers;
mod shelves;
mod modules;
mod sizes;
mod manifests;
mod hygiene;
mod cancel;
mod docs;
mod path;
mod invariants;

use std::path::Path;

use self::tree::{Tree, Violation};

/// A rule: what it finds wrong in a tree.
type Rule = fn(&Tree) -> Vec<Violation>;

/// Every rule over files, under the name its messages carry.
///
/// Crate ranks (`layers`) are checked apart, because they read `cargo metadata` and not files.
const RULES: &[(&str, Rule)] = &[
    (shelves::RULE, shelves::check),
    (modules::RULE, modules::check),
    (sizes::RULE, sizes::check),
    (manifests::RULE, manifests::check),
    (hygiene::RULE, hygiene::check),
    (cancel::RULE, cancel::check),
    (docs::RULE, docs::check),
    (path::RULE, path::check),
    (invariants::RULE, invariants::check),
];

/// Checks the repository at `root` against `rules`, or against all where none is named.
///
/// # Errors
/// Lists every violation, or says why the tree could not be read or which rule is unknown.
pub(crate) fn run(root: &Path, rules: &[String]) -> Result<(), String> {
    let known: Vec<&str> = RULES
        .iter()
        .map(|(name, _)| *name)
        .chain([layers::RULE])
        .collect();
    if let Some(unknown) = rules.iter().find(|rule| !known.contains(&rule.as_str())) {
        return Err(format!(
            "there is no rule `{unknown}`; the rules are {}",
            known.join(", ")
        ));
    }
    let wanted = |name: &str| rules.is_empty() || rules.iter().any(|rule| rule == name);
    let tree = Tree::read(root)?;
    let mut found = Vec::new();
    if wanted(layers::RULE) {
        found.extend(layers::check(&layers::packages(root)?));
    }
    for (name, rule) in RULES {
        if wanted(name) {
            found.extend(rule(&tree));
        }
    }
    report(&found)
}

/// All violations as one message, one line each.
fn report(found: &[Violation]) -> Result<(), String> {
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(format!(
        "{}\nviolations of the repository's rules: {}",
        lines.join("\n"),
        lines.len()
    ))
}

#[cfg(test)]
mod tests;
