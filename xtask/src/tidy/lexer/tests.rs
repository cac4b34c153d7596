//! Tests of the views that the lexer makes.

use super::{Source, close, line, tokens};

/// Returns the view of the code, with runs of blanks folded.
fn code(text: &str) -> String {
    Source::of(text)
        .code
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn production(text: &str) -> String {
    Source::of(text)
        .production()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_code_view_has_no_comments_and_literals() {
    let table = [
        ("a // b\nc", "a c"),
        ("a /* b /* c */ d */ e", "a e"),
        ("a /* never closed", "a"),
        (r#"a("b \" c") d"#, "a( ) d"),
        ("a(\"b // c\") d", "a( ) d"),
        (r###"a(r#"b " c"#) d"###, "a( ) d"),
        (r#"a(b"b", br"c", c"d") e"#, "a( , , ) e"),
        ("a('\\'', 'b', '\"', b'c') d", "a( , , , ) d"),
        (
            "fn f<'a>(x: &'a str) -> &'static str",
            "fn f<'a>(x: &'a str) -> &'static str",
        ),
        ("r#fn crate_r\"x\"", "r#fn crate_r"),
        ("\"never closed", ""),
        ("für // äöü\nσ 'ä' \"ö\"", "für σ"),
    ];
    for (text, left) in table {
        assert_eq!(code(text), left, "{text}");
    }
}

#[test]
fn every_view_has_the_offsets_and_lines_of_the_text() {
    let text = "a // ü\n\"x\ny\" 'z' /* ä\n */ b";
    let source = Source::of(text);
    for view in [
        &source.code,
        &source.comments,
        &source.literals,
        &source.production(),
    ] {
        assert_eq!(view.len(), text.len());
        assert_eq!(view.matches('\n').count(), text.matches('\n').count());
    }
    assert_eq!(
        source.comments.split_whitespace().collect::<Vec<_>>(),
        ["//", "ü", "/*", "ä", "*/"]
    );
    assert_eq!(
        source.literals.split_whitespace().collect::<Vec<_>>(),
        ["\"x", "y\"", "'z'"]
    );
    assert_eq!(line(text, text.find("*/").expect("the text holds it")), 4);
}

#[test]
fn the_production_view_has_no_test_items() {
    let table = [
        ("a #[cfg(test)] mod tests { x { y } } b", "a b"),
        ("a #[cfg(test)] mod tests; b", "a b"),
        ("a #[cfg(all(test, loom))] mod tests; b", "a b"),
        (
            "a #[cfg(test)] #[path = 1] pub(crate) fn f(x: [u8; 3]) -> u8 { x } b",
            "a b",
        ),
        (
            "a #[cfg(not(test))] fn f() {} b",
            "a #[cfg(not(test))] fn f() {} b",
        ),
        ("a #[cfg(test)] mod tests { never closed", "a"),
        ("a #[cfg(test)]", "a"),
        (
            "struct S { #[cfg(test)] a: u8, b: u8 } c",
            "struct S { b: u8 } c",
        ),
        ("struct S { #[cfg(test)] a: u8 } c", "struct S { } c"),
        ("#[cfg(test)] fn f<A, B>() {} c", "c"),
    ];
    for (text, left) in table {
        assert_eq!(production(text), left, "{text}");
    }
}

#[test]
fn brackets_are_matched_and_a_double_colon_is_one_token() {
    let list = tokens("use a::{b, c};");
    let texts: Vec<&str> = list.iter().map(|token| token.text).collect();
    assert_eq!(texts, ["use", "a", "::", "{", "b", ",", "c", "}", ";"]);
    assert_eq!(close(&list, 3), 8);
    assert_eq!(close(&list[..5], 3), 5);
}

#[test]
fn any_text_is_accepted() {
    for text in [
        "'", "'\\", "\"\\", "r#", "br##\"", "/*/", "b'", "#[cfg(", "}}}", "bcbr\"", "é'é'é",
    ] {
        let source = Source::of(text);
        assert_eq!(source.production().len(), text.len(), "{text}");
    }
}
