//! The repository's own rules. Each rule is a function over a tree of files in memory.
//!
//! `cargo test -p xtask` runs every rule on this repository, and each rule has unit tests on small
//! trees in which it must fail.

mod lexer;
mod tree;
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
mod types;
mod path;
mod invariants;
mod wording;
mod banners;
mod labels;
mod glossary;

use std::path::Path;

use self::tree::{Tree, Violation};

type Rule = fn(&Tree) -> Vec<Violation>;

/// All rules over files, each with the name that its messages carry. The rule [`LAYERS`] is missing, because it reads
/// the output of `cargo metadata`, too.
const RULES: &[(&str, Rule)] = &[
    ("roles", roles::check),
    ("modules", modules::check),
    ("sizes", sizes::check),
    ("folders", folders::check),
    ("manifests", manifests::check),
    ("hygiene", hygiene::check),
    ("cancel", cancel::check),
    ("docs", docs::check),
    ("log_lines", log_lines::check),
    ("glossary", glossary::check),
    ("path", path::check),
    ("invariants", invariants::check),
    ("types", types::check),
    ("banners", banners::check),
    ("labels", labels::check),
    ("wording", wording::check),
];

const LAYERS: &str = "layers";

/// Checks the repository at `root` against the rules named in `rules`, or against all rules if `rules` is empty. The
/// error lists every violation.
pub(crate) fn run(root: &Path, rules: &[String]) -> Result<(), String> {
    let names = RULES.iter().map(|(name, _)| *name);
    let known: Vec<&str> = names.chain([LAYERS]).collect();
    if let Some(unknown) = rules.iter().find(|rule| !known.contains(&rule.as_str())) {
        return Err(format!(
            "there is no rule `{unknown}`; the rules are {}",
            known.join(", ")
        ));
    }
    let wanted = |name: &str| rules.is_empty() || rules.iter().any(|rule| rule == name);
    let tree = Tree::read(root)?;
    let mut found = Vec::new();
    if wanted(LAYERS) {
        let violations = layers::check(&tree, &layers::packages(root)?);
        found.extend(violations.iter().map(|one| one.of_rule(LAYERS)));
    }
    for (name, rule) in RULES.iter().filter(|(name, _)| wanted(name)) {
        found.extend(rule(&tree).iter().map(|one| one.of_rule(name)));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nviolations of the repository's rules: {}",
        found.join("\n"),
        found.len()
    ))
}

#[cfg(test)]
mod tests;
