//! Tests of the parsing and matching of selectors.

use serde_json::json;

use super::*;

fn selects(selector: &str, labels: &Value) -> bool {
    LabelSelector::parse(selector)
        .unwrap()
        .matches(&json!({"metadata": {"labels": labels}}))
}

#[test]
fn label_selectors_match() {
    let dev = json!({"env": "dev", "n": "5"});
    for yes in [
        "", "env=dev", "env==dev", "env!=prod", "tier!=x", "env in (dev,prod)", "env", "!tier",
        "env notin (prod)", "tier notin (a)", "n>4", "n<6", "env=dev,n=5", " env = dev ",
    ] {
        assert!(selects(yes, &dev), "{yes}");
    }
    for no in [
        "env=prod", "env!=dev", "env in ()", "!env", "tier", "n>5", "env>1", "env=dev,n=6",
    ] {
        assert!(!selects(no, &dev), "{no}");
    }
    assert!(selects("tier=", &json!({"tier": ""})));
    for set in [
        "tier in (x,,y)", "tier in (,x)", "tier in (x,)", "tier in (,)",
    ] {
        assert!(selects(set, &json!({"tier": ""})), "{set}");
    }
}

#[test]
fn label_selectors_are_refused_in_the_servers_words() {
    for (selector, message) in [
        (
            "env in dev",
            "unable to parse requirement: found 'dev' expected: '('",
        ),
        (
            "=dev",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        (
            "env===dev",
            "unable to parse requirement: found '=', expected: identifier",
        ),
        (
            "bad!key=1",
            "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "env=bad value!",
            "found 'value', expected: ',' or 'end of string'",
        ),
        (
            ",",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "env in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "env in (a",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "env in (,",
            "unable to parse requirement: found '', expected: ',', or identifier",
        ),
        (
            "a/b/c=1",
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
        (
            "env in (b,-,a)",
            "unable to parse requirement: values[0][env]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "n>two",
            "unable to parse requirement: values[0]: Invalid value: \"two\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        let refused = LabelSelector::parse(selector).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (400, message));
    }
}

#[test]
fn field_selectors_parse_and_unescape() {
    let parsed = FieldSelector::parse("metadata.name=a,status.phase!=Running,x==b\\,c").unwrap();
    let terms: Vec<_> = parsed
        .terms()
        .iter()
        .map(|t| (t.label.as_str(), t.value.as_str(), t.equal))
        .collect();
    assert_eq!(
        terms,
        [
            ("metadata.name", "a", true),
            ("status.phase", "Running", false),
            ("x", "b,c", true)
        ]
    );
    let refused = FieldSelector::parse("metadata.name>a").unwrap_err();
    assert_eq!(
        refused.message,
        "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"
    );
    for (selector, message) in [
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "a=b\\x",
            "invalid field selector: invalid escape sequence: \\x",
        ),
        (
            "a=b\\",
            "invalid field selector: invalid escape sequence: \\",
        ),
    ] {
        let refused = FieldSelector::parse(selector).unwrap_err();
        assert_eq!(refused.message, message);
    }
}
