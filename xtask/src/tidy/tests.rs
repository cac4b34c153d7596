//! Every rule on the real repository, and what the command says about itself.

use super::{RULES, Tree, layers, report, run, shelves};

/// Runs the rule of that name on the files of this repository.
fn on_this_repository(name: &str) {
    let tree = Tree::read(&crate::repository()).expect("the repository can be read");
    let (_, rule) = RULES
        .iter()
        .find(|(rule, _)| *rule == name)
        .expect("the rule exists");
    if let Err(found) = report(&rule(&tree)) {
        panic!("{found}");
    }
}

#[test]
fn the_crates_keep_their_ranks() {
    let packages = layers::packages(&crate::repository()).expect("cargo metadata answers");
    if let Err(found) = report(&layers::check(&packages)) {
        panic!("{found}");
    }
}

#[test]
fn every_file_keeps_its_shelf() {
    on_this_repository("shelves");
}

#[test]
fn every_module_names_only_those_above_it() {
    on_this_repository("modules");
}

#[test]
fn every_file_keeps_its_size() {
    on_this_repository("sizes");
}

#[test]
fn every_manifest_is_tidy() {
    on_this_repository("manifests");
}

#[test]
fn nothing_is_silenced_or_left_for_later() {
    on_this_repository("hygiene");
}

#[test]
fn every_public_future_says_what_dropping_it_does() {
    on_this_repository("cancel");
}

#[test]
fn the_documents_name_what_exists() {
    on_this_repository("docs");
}

#[test]
fn the_drawn_path_of_an_event_exists() {
    on_this_repository("path");
}

#[test]
fn every_invariant_is_cited_and_tested() {
    on_this_repository("invariants");
}

#[test]
fn an_unknown_rule_is_named_with_the_known_ones() {
    let error = run(&crate::repository(), &["shelfs".to_owned()]).expect_err("no such rule");
    assert!(
        error.contains("`shelfs`") && error.contains(shelves::RULE),
        "{error}"
    );
}
