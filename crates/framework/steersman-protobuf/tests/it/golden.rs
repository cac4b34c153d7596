//! Compares recordings of a real kube-apiserver in JSON and protobuf: `tests/golden/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use steersman_protobuf::*;

/// A recorded object in both encodings.
struct Recorded {
    path: String,
    /// The JSON text, because the order of members in raw JSON matters for the bytes.
    json: Box<RawValue>,
    protobuf: Vec<u8>,
}

#[derive(Deserialize)]
struct RecordedText<'a> {
    path: String,
    #[serde(borrow)]
    json: &'a RawValue,
    protobuf: String,
}

impl Recorded {
    fn value(&self) -> Value {
        serde_json::from_str(self.json.get()).unwrap()
    }
}

/// Returns the folder of the recordings: `tests/golden/`, or the folder of `cargo xtask conformance --protobuf`.
fn folder() -> PathBuf {
    let named = std::env::var_os("STEERSMAN_PROTOBUF_CASES").map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"))
}

fn read(name: &str) -> Vec<Value> {
    serde_json::from_slice(&fs::read(folder().join(name)).unwrap()).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

fn objects() -> Vec<Recorded> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name == "streams.json" || !name.ends_with(".json") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let recorded: Vec<RecordedText<'_>> = serde_json::from_str(&text).unwrap();
        found.extend(recorded.into_iter().map(|one| Recorded {
            path: one.path,
            json: one.json.to_owned(),
            protobuf: STANDARD.decode(one.protobuf).unwrap(),
        }));
    }
    assert!(!found.is_empty(), "no recordings in {}", folder().display());
    found
}

/// Returns the first path at which two values differ, with both values.
fn difference(place: &str, found: Option<&Value>, wanted: Option<&Value>) -> Option<String> {
    match (found, wanted) {
        (Some(Value::Object(found)), Some(Value::Object(wanted))) => {
            let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
            names.into_iter().find_map(|name| {
                difference(
                    &format!("{place}.{name}"),
                    found.get(name),
                    wanted.get(name),
                )
            })
        }
        (Some(Value::Array(found)), Some(Value::Array(wanted))) => {
            (0..found.len().max(wanted.len())).find_map(|index| {
                difference(
                    &format!("{place}[{index}]"),
                    found.get(index),
                    wanted.get(index),
                )
            })
        }
        (found, wanted) if found == wanted => None,
        (found, wanted) => {
            let text = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            Some(format!(
                "{place}: {} in protobuf, {} in JSON",
                text(found),
                text(wanted)
            ))
        }
    }
}

/// `cargo xtask conformance --protobuf` runs this test.
#[test]
fn recorded_objects_are_equal_in_both_encodings() {
    let differences = [differences_in_json(), differences_in_bytes()].concat();
    assert!(
        differences.is_empty(),
        "{} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn differences_in_json() -> Vec<String> {
    let mut differences = Vec::new();
    for recorded in objects() {
        let (mut text, wanted) = (Vec::new(), recorded.value());
        let opened = Envelope::open(&recorded.protobuf).and_then(|envelope| {
            let findings = envelope.append_json(Keep::WHOLE, &mut text)?;
            Ok((envelope, findings))
        });
        let (envelope, findings) = match opened {
            Ok(decoded) => decoded,
            Err(why) => {
                differences.push(format!("{}: {why}", recorded.path));
                continue;
            }
        };
        let found: Value = serde_json::from_slice(&text).unwrap();
        differences.extend(difference(&recorded.path, Some(&found), Some(&wanted)));
        if let Some((message, number)) = findings.unknown.first {
            differences.push(format!(
                "{}: {message} has no field {number}",
                recorded.path
            ));
        }
        let metadata = &text[findings.metadata.unwrap()];
        let metadata: Value = serde_json::from_slice(metadata).unwrap();
        assert_eq!(Some(&metadata), found.get("metadata"));
        assert_eq!(envelope.object().unwrap(), found, "{}", recorded.path);
    }
    differences
}

fn differences_in_bytes() -> Vec<String> {
    let mut differences = Vec::new();
    for recorded in objects() {
        let Ok(envelope) = Envelope::open(&recorded.protobuf) else {
            continue;
        };
        // Unknown kinds are reported by the test of the other direction.
        let Some(message) = envelope.message() else {
            continue;
        };
        let encoded = match encode_text(message, recorded.json.get().as_bytes()) {
            Ok(encoded) => encoded,
            Err(error) => {
                differences.push(format!("{}{error}", recorded.path));
                continue;
            }
        };
        if let Some(unknown) = encoded.unknown {
            differences.push(format!(
                "{}{unknown}: the table has no such field",
                recorded.path
            ));
        }
        let found = seal(&envelope.api_version, &envelope.kind, &encoded.raw);
        if found != recorded.protobuf {
            let mut both = found.iter().zip(&recorded.protobuf);
            let at = both
                .position(|(one, other)| one != other)
                .unwrap_or(found.len());
            let around = |bytes: &[u8]| {
                let end = bytes.len().min(at + 30);
                let around = bytes.get(at.saturating_sub(30)..end).unwrap_or_default();
                String::from_utf8_lossy(around).into_owned()
            };
            let (ours, theirs) = (around(&found), around(&recorded.protobuf));
            differences.push(format!(
                "{} at byte {at}: {ours:?}, and {theirs:?}",
                recorded.path
            ));
        }
    }
    differences
}

#[test]
fn parts_are_left_out() {
    for recorded in objects() {
        let envelope = Envelope::open(&recorded.protobuf).unwrap();
        let json = |keep| {
            let mut text = Vec::new();
            envelope.append_json(keep, &mut text).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap()
        };
        let mut wanted = recorded.value();
        wanted["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        let found = json(Keep {
            managed_fields: false,
            beyond_metadata: true,
        });
        assert_eq!(found, wanted);
        wanted
            .as_object_mut()
            .unwrap()
            .retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        let found = json(Keep {
            managed_fields: false,
            beyond_metadata: false,
        });
        assert_eq!(found, wanted);
    }
}

/// Returns the recorded list and watch responses of our own recordings, in JSON and protobuf.
fn streams() -> Vec<(Value, Value)> {
    let all = read("streams.json");
    let is_protobuf = |one: &Value| {
        one["content-type"]
            .as_str()
            .unwrap()
            .starts_with(MEDIA_TYPE)
    };
    let pairs = all.iter().filter(|one| is_protobuf(one)).filter_map(|one| {
        let json = all
            .iter()
            .find(|other| other["about"] == one["about"] && !is_protobuf(other))?;
        Some((json.clone(), one.clone()))
    });
    pairs.collect()
}

/// Calls `each` with the body cut into chunks of several sizes.
fn in_chunks(body: &[u8], each: impl Fn(Vec<Bytes>)) {
    for size in [1, 3, 1000, usize::MAX] {
        let chunks = body.chunks(size.min(body.len().max(1)));
        each(chunks.map(Bytes::copy_from_slice).collect());
    }
}

#[test]
fn recorded_lists_are_cut_into_their_items() {
    let mut lists = 0;
    for (json, protobuf) in streams() {
        let (json, protobuf) = (bytes(&json["body"]), bytes(&protobuf["body"]));
        let Ok(wanted) = serde_json::from_slice::<Value>(&json) else {
            continue;
        };
        let Some(kind) = wanted["kind"]
            .as_str()
            .and_then(|kind| kind.strip_suffix("List"))
        else {
            continue;
        };
        lists += 1;
        in_chunks(&protobuf, |chunks| {
            let (mut items, mut found) = (ListItems::new(), Vec::new());
            for mut chunk in chunks {
                while let Some(item) = items.next_item(&mut chunk).unwrap() {
                    let (list_version, list_kind) = items.list_kind();
                    assert_eq!(list_kind, wanted["kind"]);
                    let message = Message::of_kind(list_version, kind).unwrap();
                    let mut text = Vec::new();
                    append_message(message, &item, &mut text).unwrap();
                    found.push(serde_json::from_slice::<Value>(&text).unwrap());
                }
            }
            let list_meta = items.finish().unwrap().unwrap();
            let mut text = Vec::new();
            append_message(
                Message::named("meta.v1.ListMeta").unwrap(),
                &list_meta,
                &mut text,
            )
            .unwrap();
            let list_meta: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(list_meta, wanted["metadata"]);
            let mut wanted = wanted["items"].as_array().unwrap().clone();
            // In JSON, metadata-only objects have their own kind.
            for item in &mut wanted {
                item.as_object_mut()
                    .unwrap()
                    .retain(|name, _| name != "apiVersion" && name != "kind");
            }
            assert_eq!(found, wanted);
        });
        let meta = wanted["metadata"].as_object().unwrap();
        let list_meta = encode(Message::named("meta.v1.ListMeta").unwrap(), meta)
            .unwrap()
            .raw;
        let api_version = wanted["apiVersion"].as_str().unwrap();
        let message = Message::of_kind(api_version, kind).unwrap();
        let encoded: Vec<Vec<u8>> = wanted["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let encoded = encode(message, item.as_object().unwrap()).unwrap();
                assert_eq!(encoded.unknown, None);
                encoded.raw
            })
            .collect();
        let found = seal_list(
            api_version,
            wanted["kind"].as_str().unwrap(),
            &list_meta,
            encoded.iter().map(Vec::as_slice),
        );
        assert!(found == protobuf, "{kind}");
    }
    assert_eq!(lists, 4);
}

#[test]
fn recorded_watches_are_cut_into_their_events() {
    let mut watches = 0;
    for (json, protobuf) in streams() {
        if !protobuf["content-type"]
            .as_str()
            .unwrap()
            .contains("stream=watch")
        {
            continue;
        }
        watches += 1;
        let (json, protobuf) = (bytes(&json["body"]), bytes(&protobuf["body"]));
        let wanted: Vec<Value> = json
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        in_chunks(&protobuf, |chunks| {
            let (mut frames, mut found, mut again) = (Frames::default(), Vec::new(), Vec::new());
            for chunk in chunks {
                frames.push(chunk);
                while let Some(content) = frames.next_frame().unwrap() {
                    let event = WatchFrame::read(&content).unwrap();
                    let envelope = Envelope::open(event.object).unwrap();
                    let kind = std::str::from_utf8(event.kind).unwrap();
                    let mut text = Vec::new();
                    envelope.append_json(Keep::WHOLE, &mut text).unwrap();
                    let encoded = encode_text(envelope.message().unwrap(), &text).unwrap();
                    let sealed = seal(&envelope.api_version, &envelope.kind, &encoded.raw);
                    again.extend(frame(kind, &sealed));
                    let object: Value = serde_json::from_slice(&text).unwrap();
                    found.push(json!({ "type": kind, "object": object }));
                }
            }
            frames.finish().unwrap();
            assert!(again == protobuf);
            assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter_mut().zip(&wanted) {
                if found["type"] == "BOOKMARK" {
                    // The two watches were recorded at different times, so their versions differ.
                    let version = &mut found["object"]["metadata"]["resourceVersion"];
                    *version = wanted["object"]["metadata"]["resourceVersion"].clone();
                }
                assert_eq!(difference("", Some(found), Some(wanted)), None);
            }
        });
    }
    assert_eq!(watches, 3);
}

#[test]
fn a_recorded_error_becomes_a_status() {
    let (json, protobuf) = streams()
        .into_iter()
        .find(|(json, _)| json["about"] == "not found")
        .unwrap();
    let json: Value = serde_json::from_slice(&bytes(&json["body"])).unwrap();
    let protobuf = bytes(&protobuf["body"]);
    assert_eq!(Envelope::open(&protobuf).unwrap().object().unwrap(), json);
    assert_eq!(
        encode_object(json.as_object().unwrap()).unwrap().unwrap(),
        protobuf
    );
}
