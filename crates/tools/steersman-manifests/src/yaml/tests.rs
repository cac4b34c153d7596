//! Tests the YAML writer: the order of keys, and that parsing returns the same value.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{document, documents};

#[test]
fn keys_stand_in_the_usual_order_and_names_alphabetically() {
    let value = json!({
        "kind": "A", "apiVersion": "v1",
        "spec": {"required": ["a"], "properties": {"type": {"type": "string", "description": "d"}, "a": {}}},
        "metadata": {"namespace": "s", "name": "web"},
    });
    let expected = "\
apiVersion: v1
kind: A
metadata:
  name: web
  namespace: s
spec:
  required: [a]
  properties:
    a: {}
    type:
      description: d
      type: string
";
    assert_eq!(document(&value), expected);
}

#[test]
fn a_long_list_takes_a_line_per_item() {
    let value = json!({"a": ["a".repeat(40), "b".repeat(40)]});
    let text = document(&value);
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn documents_are_separated() {
    let text = documents([&json!({"a": 1}), &json!({"b": "yes"})]);
    assert_eq!(text, "a: 1\n---\nb: 'yes'\n".replace('\'', quote(&text)));
}

fn quote(text: &str) -> &'static str {
    if text.contains('\'') { "'" } else { "\"" }
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        "[a-z :#{}\\[\\],&*!|>'\"%@`\\n-]{0,120}",
        Just("{{ .Values }}".to_owned()),
        Just("yes".to_owned()),
        Just("0x1".to_owned()),
        Just("~".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same_value(value in values()) {
        let text = document(&json!({"a": value}));
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        proptest::prop_assert_eq!(read, json!({"a": value}), "{}", text);
    }
}
