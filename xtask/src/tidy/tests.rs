//! Runs every rule on this repository.

use std::collections::BTreeSet;

use super::{Tree, run};

/// Runs the named rule on the files of this repository and panics with its violations.
fn on_this_repository(name: &str) {
    if let Err(found) = run(&crate::repository(), &[name.to_owned()]) {
        panic!("{found}");
    }
}

#[test]
fn crates_depend_only_on_crates_of_lower_rank_and_of_their_building() {
    on_this_repository("layers");
}

#[test]
fn the_aliases_test_every_crate_of_their_building() {
    let tree = Tree::read(&crate::repository()).expect("the repository can be read");
    let aliases = tree.get(".cargo/config.toml").expect("the aliases exist");
    let aliases: toml::Table = aliases.text.parse().expect("the aliases are TOML");
    for building in ["framework", "server", "tools"] {
        let words = aliases["alias"][format!("test-{building}").as_str()].as_array();
        let words = words.expect("the alias is a list").iter();
        let tested: BTreeSet<&str> = words.filter_map(toml::Value::as_str).skip(1).collect();
        let folder = format!("crates/{building}/");
        let packages = tree.manifests().map(|(package, _)| package);
        let crates = packages.filter_map(|package| package.strip_prefix(&*folder));
        assert_eq!(tested, crates.chain(["-p"]).collect(), "{building}");
    }
}

#[test]
fn every_file_states_its_role_and_keeps_to_it() {
    on_this_repository("roles");
}

#[test]
fn every_module_names_only_modules_declared_above_it() {
    on_this_repository("modules");
}

#[test]
fn no_file_is_longer_than_500_lines() {
    on_this_repository("sizes");
}

#[test]
fn no_folder_holds_more_than_25_files() {
    on_this_repository("folders");
}

#[test]
fn every_manifest_is_complete() {
    on_this_repository("manifests");
}

#[test]
fn no_label_of_a_metric_holds_the_name_of_an_object() {
    on_this_repository("labels");
}

#[test]
fn no_test_is_ignored_and_no_work_is_postponed() {
    on_this_repository("hygiene");
}

#[test]
fn every_public_async_function_documents_cancel_safety() {
    on_this_repository("cancel");
}

#[test]
fn documents_name_only_files_and_tests_that_exist() {
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
fn every_glossary_word_is_a_name_in_the_code() {
    on_this_repository("glossary");
}

#[test]
fn every_quoted_log_line_is_one_that_the_code_logs() {
    on_this_repository("log_lines");
}

#[test]
fn no_crate_declares_two_types_of_one_name() {
    on_this_repository("types");
}

#[test]
fn every_banner_names_the_item_behind_it() {
    on_this_repository("banners");
}

#[test]
fn finished_crates_hold_no_refused_word() {
    on_this_repository("wording");
}

#[test]
fn an_unknown_rule_is_an_error_that_lists_the_known_rules() {
    let error = run(&crate::repository(), &["role".to_owned()]).expect_err("there is no such rule");
    assert!(
        error.contains("`role`") && error.contains("roles"),
        "{error}"
    );
}
