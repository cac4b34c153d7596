//! Tests of shard selectors: the hash, the normalised text, and the error messages.

use super::*;

fn refusal(text: &str) -> String {
    let status = ShardSelector::parse(text).unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (500, ""), "{text}");
    let why = status.message.strip_prefix("invalid shard selector: ");
    why.unwrap().to_owned()
}

const LOWER: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const UPPER: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

#[test]
fn the_hash_is_that_of_the_specification() {
    // The test vectors of the FNV specification.
    assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn every_object_falls_in_exactly_one_half() {
    let lower = ShardSelector::parse(LOWER).unwrap();
    let upper = ShardSelector::parse(UPPER).unwrap();
    let both = ShardSelector::parse(&format!("{LOWER}||{UPPER}")).unwrap();
    let mut count = 0;
    for n in 0..200 {
        let uid = format!("{n}-4000-8000-0000");
        let matches = |selector: &ShardSelector| selector.matches(&uid, "default");
        assert_ne!(matches(&lower), matches(&upper), "{n}");
        assert!(matches(&both));
        count += usize::from(matches(&lower));
    }
    assert!((50..150).contains(&count), "{count}");
}

#[test]
fn the_text_of_a_shard_selector_is_normalised() {
    let spaced = "  shardRange(object . metadata.uid ,\"0x0000000000000000\",'0x8000000000000000')";
    assert_eq!(ShardSelector::parse(spaced).unwrap().text(), LOWER);
    let both = format!("(({LOWER})) || ({UPPER} || {LOWER})");
    let text = ShardSelector::parse(&both).unwrap().text();
    assert_eq!(text, format!("{LOWER} || {UPPER} || {LOWER}"));
}

#[test]
fn malformed_bounds_are_refused() {
    for (bound, why) in [
        ("''", "hexStart must have '0x' prefix, got \"\""),
        ("'0x'", "hexStart: hex value is required after '0x'"),
        (
            "'0x000000000000000000'",
            "hexStart: hex value too long (18 chars, max 17): \"000000000000000000\"",
        ),
        (
            "'0xABCDEFABCDEFABCD'",
            "hexStart: invalid hex character \"A\" in \"0xABCDEFABCDEFABCD\"",
        ),
        ("1", "hexStart must be a string literal, got int64"),
        ("2u", "hexStart must be a string literal, got uint64"),
        ("-0.5", "hexStart must be a string literal, got float64"),
        (
            "null",
            "hexStart must be a string literal, got structpb.NullValue",
        ),
        ("b'0x'", "hexStart must be a string literal, got []uint8"),
        (
            "hex(0)",
            "hexStart must be a string literal (e.g. '0xff'), got expression kind 1",
        ),
        (
            "{'a': 1}",
            "hexStart must be a string literal (e.g. '0xff'), got expression kind 6",
        ),
    ] {
        let text = format!("shardRange(object.metadata.uid, {bound}, '0xffffffffffffffff')");
        assert_eq!(refusal(&text), why, "{bound}");
    }
}

#[test]
fn an_expression_that_is_no_shard_range_is_named() {
    for (text, why) in [
        (
            "'a'",
            "unexpected expression kind 5; expected shardRange() call or || operator",
        ),
        (
            "[a]",
            "unexpected expression kind 4; expected shardRange() call or || operator",
        ),
        (
            "a.b",
            "unexpected expression kind 7; expected shardRange() call or || operator",
        ),
        (
            "a.B{c: 1}",
            "unexpected expression kind 8; expected shardRange() call or || operator",
        ),
        (
            "!a",
            "unsupported function \"!_\"; only shardRange() and || are allowed",
        ),
        (
            "a ? b : c",
            "unsupported function \"_?_:_\"; only shardRange() and || are allowed",
        ),
        (
            "a > '0'",
            "unsupported function \"_>_\"; only shardRange() and || are allowed",
        ),
        (
            "1 in [1]",
            "unsupported function \"@in\"; only shardRange() and || are allowed",
        ),
        (
            "shardRange('a', '0', '0')",
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        ),
        (
            "namespace",
            "CEL parse error: reserved identifier: namespace",
        ),
    ] {
        assert_eq!(refusal(text), why, "{text}");
    }
    let mixed = format!("{LOWER} || nope()");
    assert!(refusal(&mixed).starts_with("unsupported function \"nope\""));
}

#[test]
fn syntax_errors_are_worded_as_cel_go() {
    for (text, why) in [
        (
            "a(",
            "mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        (
            "a ||",
            "mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("a b", "extraneous input 'b' expecting <EOF>"),
        ("a b c", "mismatched input 'b' expecting <EOF>"),
        ("(a", "missing ')' at '<EOF>'"),
        ("a $", "token recognition error at: '$'"),
        ("a | b", "token recognition error at: '| '"),
        ("'a", "token recognition error at: ''a'"),
    ] {
        assert_eq!(
            refusal(text),
            format!("CEL parse error: Syntax error: {why}"),
            "{text}"
        );
    }
}

// SRV-3: a nested expression overflows no stack.
#[test]
fn the_depth_of_expressions_is_bounded() {
    for deep in [
        "(".repeat(50_000),
        "!".repeat(50_000),
        "[".repeat(50_000),
        "a||".repeat(50_000),
    ] {
        refusal(&deep);
    }
    let dots = format!("a{}", ".b".repeat(50_000));
    refusal(&dots);
}
