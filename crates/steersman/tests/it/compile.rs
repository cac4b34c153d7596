//! The compiler's messages for types that do not fit: each message of
//! `diagnostic::on_unimplemented`.
//!
//! After an intended change, `TRYBUILD=overwrite cargo test -p steersman --test it compile` writes
//! the expected texts again.

#[test]
fn types_that_do_not_fit_are_refused_with_the_remedy() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/it/compile/*.rs");
}
