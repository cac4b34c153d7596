//! Orders of modules that pass and orders that fail.

use super::{Tree, check};

/// Returns the violations of a crate with these files below `src`.
fn messages(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(String, &str)> = files
        .iter()
        .map(|(path, text)| (format!("crates/framework/steersman-x/src/{path}"), *text))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    check(&Tree::of(&files))
        .iter()
        .map(|violation| violation.of_rule("modules"))
        .collect()
}

#[test]
fn a_reference_to_a_module_below_fails() {
    for user in [
        "use crate::b::B;",
        "use crate::{b::B};",
        "use crate::{c, b::{self, B}};",
        "fn f() { crate::b::g() }",
        "use super::b::B;",
        "mod inner { use super::super::b; }",
        "mod inner { use crate::b; }",
        "pub(crate) use crate::b as bee;",
        "use crate::B;",
        "use crate::Bee;",
    ] {
        let root = "mod a; mod b; pub use b::{B, Other as Bee};";
        let said = messages(&[("lib.rs", root), ("a.rs", user), ("b.rs", "")]);
        assert_eq!(said.len(), 1, "{user}: {said:?}");
        assert!(
            said[0].contains("src/a.rs:1: [modules] `a` names `b`"),
            "{said:?}"
        );
    }
}

#[test]
fn a_reference_to_a_module_above_passes() {
    for user in [
        "use crate::a::A;",
        "use super::a::A;",
        "use crate::A;",
        "use crate::b::B;",
        "use self::inner::X; mod inner { use super::B; use crate::a; }",
        "// use crate::c;\nfn f() { log(\"crate::c\") }",
        "#[cfg(test)] mod tests { use crate::c::C; }",
        "pub(crate) fn c() {} pub(in crate::b) fn d() {}",
        "macro_rules! m { () => { $crate::c::C } }",
        "use other::c::C;",
        "use crate::unheard_of;",
    ] {
        let root = "mod a; mod b; mod c; pub use a::A; use c::C;";
        let said = messages(&[("lib.rs", root), ("a.rs", ""), ("b.rs", user), ("c.rs", "")]);
        assert_eq!(said, Vec::<String>::new(), "{user}");
    }
}

#[test]
fn modules_of_a_folder_have_an_order_of_their_own() {
    let root = ("lib.rs", "mod store; mod wire;");
    let store = (
        "store.rs",
        "mod entry; mod index; pub use self::index::Index;",
    );
    for user in [
        "use crate::store::index::I;", "use super::index;", "use crate::store::Index;",
        "use super::Index;",
    ] {
        let said = messages(&[
            root,
            store,
            ("store/entry.rs", user),
            ("store/index.rs", ""),
            ("wire.rs", ""),
        ]);
        assert_eq!(said.len(), 1, "{user}: {said:?}");
    }
    for user in [
        "use super::entry;", "use crate::store::entry::E;", "use super::X;",
    ] {
        let said = messages(&[
            root,
            store,
            ("store/entry.rs", ""),
            ("store/index.rs", user),
            ("wire.rs", ""),
        ]);
        assert_eq!(said, Vec::<String>::new(), "{user}");
    }
    // A module of a folder may not name a module declared below the folder either.
    let deep = ("store/entry.rs", "use crate::wire::W;");
    assert_eq!(
        messages(&[root, store, deep, ("store/index.rs", ""), ("wire.rs", "")]).len(),
        1
    );
}

#[test]
fn an_undeclared_file_fails() {
    let said = messages(&[("lib.rs", "mod a;"), ("a.rs", ""), ("b.rs", "")]);
    assert!(said.len() == 1 && said[0].contains("src/b.rs"), "{said:?}");
    let tests = ("a.rs", "#[cfg(test)] mod tests;");
    assert_eq!(
        messages(&[("lib.rs", "mod a;"), tests, ("a/tests.rs", "use crate::b;")]),
        Vec::<String>::new()
    );
}

#[test]
fn a_mod_rs_fails() {
    let said = messages(&[("lib.rs", "mod a;"), ("a/mod.rs", "")]);
    assert!(said.len() == 1 && said[0].contains("mod.rs"), "{said:?}");
}
