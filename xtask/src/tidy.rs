//! The repository's own rules. Each rule is a function over a tree of files in memory.
//!
//! `cargo test -p xtask` runs every rule on this repository, and each rule has unit tests on small
//! trees in which it must fail.

mod tree;
mod lexer;
mod layers;
mod roles;
mod modules;
mod sizes;
mod folders;
mod manifests;
mod hygiene;
mod cancel;
mod docs;
mod log_lines;
mod path;
mod invariants;
mod wording;
mod types;
mod banners;
mod labels;
mod glossary;

use std::path::Path;

use self::tree::{Tree, Violation};

/// Returns the violations of one rule in a tree.
type Rule = fn(&Tree) -> Vec<Violation>;

/// All rules over files, each with the name that its messages carry.
///
/// The rule `layers` is missing here because it reads the output of `cargo metadata`, too.
const RULES: &[(&str, Rule)] = &[
    (roles::RULE, roles::check),
    (modules::RULE, modules::check),
    (sizes::RULE, sizes::check),
    (folders::RULE, folders::check),
    (manifests::RULE, manifests::check),
    (hygiene::RULE, hygiene::check),
    (cancel::RULE, cancel::check),
    (docs::RULE, docs::check),
    (log_lines::RULE, log_lines::check),
    (glossary::RULE, glossary::check),
    (path::RULE, path::check),
    (invariants::RULE, invariants::check),
    (types::RULE, types::check),
    (banners::RULE, banners::check),
    (labels::RULE, labels::check),
    (wording::RULE, wording::check),
];

/// Checks the repository at `root` against the rules named in `rules`, or against all rules if
/// `rules` is empty.
///
/// # Errors
/// Lists every violation, or names the unknown rule or the folder that could not be read.
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
        found.extend(layers::check(&tree, &layers::packages(root)?));
    }
    for (name, rule) in RULES {
        if wanted(name) {
            found.extend(rule(&tree));
        }
    }
    report(&found)
}

/// Joins all violations into one message with one line per violation.
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
