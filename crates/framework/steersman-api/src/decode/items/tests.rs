//! Lists that were cut into objects, compared with a parser of the whole body.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

/// The metadata and the items of a list that was cut.
#[derive(Debug, PartialEq)]
struct Cut {
    metadata: Option<Bytes>,
    items: Vec<Bytes>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    items: &'a RawValue,
}

fn cut(chunks: &[&[u8]]) -> Result<Cut, NoList> {
    let mut cutter = Items::new(1000);
    let mut items = Vec::new();
    for chunk in chunks {
        let mut chunk = Bytes::copy_from_slice(chunk);
        while let Some(item) = cutter.next_item(&mut chunk)? {
            items.push(item);
        }
        assert!(chunk.is_empty());
    }
    let metadata = cutter.finish()?;
    Ok(Cut { metadata, items })
}

fn bytes(value: &RawValue) -> Bytes {
    Bytes::copy_from_slice(value.get().as_bytes())
}

/// Parses the same list with serde_json.
fn parsed(body: &[u8]) -> serde_json::Result<Cut> {
    let whole: Whole<'_> = serde_json::from_slice(body)?;
    let items: Option<Vec<&RawValue>> = serde_json::from_str(whole.items.get())?;
    let items = items.unwrap_or_default();
    Ok(Cut {
        metadata: whole.metadata.map(bytes),
        items: items.into_iter().map(bytes).collect(),
    })
}

fn split(body: &[u8], mut at: Vec<usize>) -> Vec<&[u8]> {
    at.sort_unstable();
    let mut chunks = Vec::new();
    let mut start = 0;
    for at in at {
        let at = at.min(body.len());
        chunks.push(&body[start..at]);
        start = at;
    }
    chunks.push(&body[start..]);
    chunks
}

/// Checks that a body is cut into the same items for any chunk boundaries, and into the items of serde_json.
fn check(body: &[u8], at: Vec<usize>) -> Result<(), TestCaseError> {
    let whole = cut(&[body]);
    prop_assert_eq!(&cut(&split(body, at)), &whole);
    match (parsed(body), whole) {
        (Ok(parsed), Ok(mut cut)) => {
            cut.metadata = cut
                .metadata
                .filter(|metadata| metadata != "null".as_bytes());
            prop_assert_eq!(cut, parsed);
        }
        (Ok(_), Err(problem)) => prop_assert!(false, "refused: {}", problem),
        // Only a problem inside of a value may be left to its decoder.
        (Err(problem), Ok(cut)) => {
            let mut values = cut.items.iter().chain(&cut.metadata);
            let broken = values.any(|value| serde_json::from_slice::<&RawValue>(value).is_err());
            prop_assert!(broken, "taken: {}", problem);
        }
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), r#"[\\"{}\[\],:a]{0,6}"#];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A strategy for the text of a list, with its members in any order.
fn list() -> impl Strategy<Value = String> {
    let items = prop_oneof![
        8 => prop::collection::vec(value(), 0..4).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => value(),
    ];
    let name = prop::sample::select(vec!["metadata", "kind", "apiVersion", "it\\u0065ms2", ""]);
    let member = (name, value()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let items = (items, any::<bool>(), any::<bool>()).prop_map(|(items, pretty, escaped)| {
        let name = if escaped { "it\\u0065ms" } else { "items" };
        let items = if pretty {
            serde_json::to_string_pretty(&items).unwrap()
        } else {
            items.to_string()
        };
        format!(" \"{name}\"\t:\r\n{items}")
    });
    let members = (prop::collection::vec(member, 0..3), items).prop_map(|(mut members, items)| {
        members.push(items);
        members
    });
    let members = members.prop_shuffle();
    members.prop_map(|members| format!("{{{}}}", members.join(",")))
}

fn places() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..200_usize, 0..8)
}

proptest! {
    // LIST-1
    #[test]
    fn list_1_a_list_is_cut_alike_however_it_comes(body in list(), at in places()) {
        check(body.as_bytes(), at)?;
    }

    #[test]
    fn what_was_a_list_is_refused_where_a_parser_refuses_it(
        body in list(),
        edits in prop::collection::vec((0..200_usize, prop::sample::select(&b"{}[]\",:\\ 1n\xff\0"[..]), 0..3_u8), 1..4),
        at in places(),
    ) {
        let mut body = body.into_bytes();
        for (place, byte, edit) in edits {
            let place = place.min(body.len());
            match edit {
                0 => body.insert(place, byte),
                1 => body.truncate(place),
                _ => body.iter_mut().skip(place).take(1).for_each(|there| *there = byte),
            }
        }
        check(&body, at)?;
    }

    #[test]
    fn no_bytes_make_it_panic(
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            r#"(\{|\}|\[|\]|"|,|:| |\\|a|1|"items"|"metadata"){0,30}"#.prop_map(String::into_bytes),
        ],
        at in places(),
    ) {
        check(&body, at)?;
    }
}

// LIST-1
#[test]
fn list_1_an_object_is_there_with_its_last_byte_and_nothing_is_kept_of_it() {
    let mut cutter = Items::new(1000);
    let body = br#"{"items":[{"a":"}]\""},{"b":[[]]}],"metadata":{}}"#;
    let mut came = Vec::new();
    for (at, byte) in body.iter().enumerate() {
        let mut chunk = Bytes::copy_from_slice(&[*byte]);
        while let Some(item) = cutter.next_item(&mut chunk).unwrap() {
            assert!(cutter.begun.is_empty());
            came.push((at, item));
        }
    }
    let expected = [(21, &br#"{"a":"}]\""}"#[..]), (32, br#"{"b":[[]]}"#)];
    assert_eq!(
        came,
        expected.map(|(at, item)| (at, Bytes::from_static(item)))
    );
    assert_eq!(cutter.finish(), Ok(Some(Bytes::from_static(b"{}"))));
}

#[test]
fn an_object_within_a_chunk_is_not_copied() {
    let body = Bytes::from_static(br#"{"items":[{"a":1},2]}"#);
    let mut chunk = body.clone();
    let item = Items::new(1000).next_item(&mut chunk).unwrap().unwrap();
    assert_eq!(item.as_ptr(), body[10..].as_ptr());
}

#[test]
fn a_value_past_the_bound_is_an_error_before_its_end_arrives() {
    for start in [r#"{"items":["#, r#"{"x":"#, r#"{"metadata":"#, "{"] {
        let mut cutter = Items::new(12);
        let mut next =
            |chunk: &str| cutter.next_item(&mut Bytes::copy_from_slice(chunk.as_bytes()));
        assert_eq!(next(start), Ok(None));
        assert_eq!(next("\"2345678901"), Ok(None));
        assert_eq!(next("23"), Err(NoList::TooLong { max: 12 }));
    }
}

#[test]
fn a_value_of_too_many_levels_is_an_error_before_its_end_arrives() {
    let levels = |count: usize| {
        let body = format!("{{\"items\":[{}", "[".repeat(count));
        Items::new(MAX_VALUE).next_item(&mut Bytes::from(body))
    };
    assert_eq!(levels(MAX_DEPTH), Ok(None));
    assert_eq!(levels(MAX_DEPTH + 1), Err(NoList::TooDeep));
}

#[test]
fn duplicate_members_of_a_list_are_refused() {
    for (body, name) in [
        (r#"{"items":[],"items":[]}"#, "items"),
        (r#"{"items":null,"it\u0065ms":[]}"#, "items"),
        (r#"{"metadata":{},"metadata":{},"items":[]}"#, "metadata"),
    ] {
        assert_eq!(cut(&[body.as_bytes()]), Err(NoList::Twice(name)));
    }
    let other = json!({"items": [], "kind": "List"}).to_string();
    assert!(cut(&[other.as_bytes()]).is_ok());
}
