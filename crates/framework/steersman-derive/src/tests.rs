//! Tests the error message for each wrong use of the attribute `versioned`.

use proc_macro2::TokenStream;

use crate::expand::expand;

/// Returns the error messages for a module with these arguments and this content.
fn messages(arguments: &str, content: &str) -> Vec<String> {
    let module: TokenStream = format!("pub mod site {{ {content} }}").parse().unwrap();
    match expand(arguments.parse().unwrap(), module) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
    }
}

/// Returns the error message for a struct with these fields and three versions.
fn message_of_fields(fields: &str) -> String {
    let content = format!("struct Tls {{ {fields} }}");
    let found = messages("v1alpha1, v1beta1, v1", &content);
    assert_eq!(found.len(), 1, "{fields}: {found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn each_wrong_argument_is_named_with_the_way_out() {
    for (arguments, expected) in [
        ("", "the module has no versions: list them, oldest first"),
        ("tests", "the module has no versions"),
        (
            "v1, v1beta1",
            "`v1beta1` is older than `v1`: list the versions oldest first",
        ),
        ("v1, v1", "`v1` is listed twice: remove one of the two"),
        (
            "v1, v2, hub = v3",
            "`v3` is not a version of this module: write one of `v1`, `v2`",
        ),
        (
            "v1, stored = v2",
            "`v2` is not a version of this module: write one of `v1`",
        ),
        (
            "v1, version_2",
            "`version_2` is neither a version, such as `v1` or `v1beta1`, nor one of the arguments",
        ),
        (
            "v1, crates(kube = x)",
            "`kube` is no crate of the generated code: write `steersman` or `harness`",
        ),
    ] {
        let found = messages(arguments, "");
        assert_eq!(found.len(), 1, "{arguments}: {found:?}");
        assert!(found[0].contains(expected), "{arguments}: {found:?}");
    }
    assert_eq!(
        messages("v1alpha1(served = false), v1, hub = v1, tests = 10", ""),
        [""; 0]
    );
}

#[test]
fn each_contradiction_in_a_history_is_named_with_the_way_out() {
    for (fields, expected) in [
        (
            "#[versioned(added(v2))] a: u8",
            "`v2` is not a version of this module: write one of `v1alpha1`, `v1beta1`, `v1`, or add it",
        ),
        (
            "#[versioned(added(v1alpha1))] a: u8",
            "`v1alpha1` is the first version: a field or variant without `added` exists from there",
        ),
        (
            "#[versioned(removed(v1alpha1))] a: u8",
            "delete the field or variant, because no version has it",
        ),
        (
            "#[versioned(added(v1), added(v1))] a: u8",
            "`a` is added twice: remove one of the two entries",
        ),
        (
            "#[versioned(removed(v1))] #[versioned(removed(v1beta1))] a: u8",
            "`a` is removed twice",
        ),
        (
            "#[versioned(added(v1), removed(v1beta1))] a: u8",
            "`a` is removed in `v1beta1`, but added only in `v1`",
        ),
        (
            "#[versioned(added(v1), renamed(v1beta1, from = b))] a: u8",
            "`a` is renamed in `v1beta1`, but added only in `v1`",
        ),
        (
            "#[versioned(renamed(v1alpha1, from = b))] a: u8",
            "`a` is renamed in `v1alpha1`, the first version",
        ),
    ] {
        let found = message_of_fields(fields);
        assert!(found.contains(expected), "{fields}: {found}");
    }
}

#[test]
fn each_incomplete_entry_is_named_with_the_way_out() {
    for (fields, expected) in [
        (
            "#[versioned(renamed(v1))] a: u8",
            "the former name is missing: write `renamed(v1, from = former_name)`",
        ),
        (
            "#[versioned(renamed(v1, from = b), renamed(v1, from = c))] a: u8",
            "`a` is renamed in one version twice",
        ),
        (
            "#[versioned(removed(v1beta1), renamed(v1, from = b))] a: u8",
            "`a` is renamed in `v1`, but removed in `v1beta1`",
        ),
        (
            "#[versioned(changed(v1, from = u16))] a: u8",
            "a changed type needs the former type and a function for each direction",
        ),
        (
            "#[versioned(changed(v1, from = u16, up = x))] a: u8",
            "`up` is no part of `changed`, which has `from`, `upgrade` and `downgrade`",
        ),
        (
            "#[versioned(added(v1, instead = A))] a: u8",
            "`instead` is no part of `added`, which has `default`",
        ),
        (
            "#[versioned(added)] a: u8",
            "the version is missing: write `added(v1)`",
        ),
        ("#[versioned] a: u8", "the history is missing"),
        (
            "#[versioned(since(v1))] a: u8",
            "`since` is no entry for a field: write one of `added`, `removed`",
        ),
        (
            "#[versioned(deprecated(v1), deprecated(v1beta1))] a: u8",
            "`a` is deprecated twice",
        ),
        (
            "#[versioned(only(v1))] a: u8",
            "`only` names versions and the attributes",
        ),
        (
            "#[versioned(only(serde(default)))] a: u8",
            "`only` names versions and the attributes",
        ),
        ("#[cfg(unix)] a: u8", "`a` cannot depend on `cfg`"),
        (
            "a: u8, #[versioned(renamed(v1, from = a))] b: u8",
            "`a` is the name of two fields or variants in `v1alpha1`",
        ),
    ] {
        let found = message_of_fields(fields);
        assert!(found.contains(expected), "{fields}: {found}");
    }
}

#[test]
fn each_wrong_type_is_named_with_the_way_out() {
    for (content, expected) in [
        (
            "struct A<T>(T);",
            "`A` is generic, and a versioned type cannot be",
        ),
        (
            "#[versioned(added(v1))] struct A;",
            "`added` is no entry for a type: write one of `only`",
        ),
        (
            "struct A(#[versioned(added(v1))] u8);",
            "`added` is no entry for a field without a name",
        ),
        (
            "enum A { #[versioned(changed(v1, from = u8))] B }",
            "`changed` is no entry for a variant",
        ),
        (
            "enum A { B, #[versioned(added(v1))] C }",
            "`v1beta1` has no `C`, and nothing says which variant it shows: write `added(v1, instead = Variant)`",
        ),
        (
            "enum A { B, #[versioned(removed(v1, instead = D))] C }",
            "`v1` has no variant `D` that it can show instead of `C`",
        ),
        (
            "enum A { B(u8), #[versioned(removed(v1, instead = B))] C }",
            "`B` has fields: write the whole value, such as `v1::A::B(…)`",
        ),
        (
            "enum A { B, #[versioned(added(v1, default = B))] C }",
            "`default` is no part of `added`, which has `instead`",
        ),
        (
            "#[kube(group = \"a.b\", kind = \"A\", version = \"v1\")] struct S;",
            "remove `version` from `#[kube(…)]`",
        ),
        (
            "#[kube(group = \"a.b\", kind = \"A\", storage = true)] struct S;",
            "remove `storage`, and write `stored = …`",
        ),
        (
            "#[kube(group = \"a.b\")] struct S;",
            "`S` has no kind: write `kind = \"…\"`",
        ),
        (
            "#[kube(group = \"a.b\", kind = \"A\")] struct S; impl S {}",
            "`S` is another type in each version: write `impl v1::S`",
        ),
        (
            "#[kube(group = \"a.b\", kind = \"A\")] struct S; impl A {}",
            "write `impl v1::A`",
        ),
    ] {
        let found = messages("v1alpha1, v1beta1, v1", content);
        assert_eq!(found.len(), 1, "{content}: {found:?}");
        assert!(found[0].contains(expected), "{content}: {found:?}");
    }
    let alone = expand("v1".parse().unwrap(), "struct A;".parse().unwrap()).unwrap_err();
    assert!(alone.to_string().contains("stands on a module"), "{alone}");
    let outside = expand("v1".parse().unwrap(), "mod a;".parse().unwrap()).unwrap_err();
    assert!(
        outside.to_string().contains("the types are missing"),
        "{outside}"
    );
}

#[test]
fn all_contradictions_are_reported_at_once() {
    let content =
        "struct A { #[versioned(added(v1))] a: u8, #[versioned(added(v9))] b: u8 } struct B<T>(T);";
    assert_eq!(messages("v1, v2", content).len(), 3);
}
