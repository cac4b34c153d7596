//! Property tests of field sets and of server-side apply.

mod repeated_applies;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steersman_schema::types::TypeRef;

use super::field_set::{FieldNode, FieldSet};
use super::managed_fields::{Manager, ManagerEntries, ManagerOperation};
use super::owners::apply;
use super::path_element::{Atom, PathElement};
use super::typed_value::{fields_of, validate};
use super::{OwnershipContext, cap, configuration, fields_v1, refuse_conflicts, update};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";

fn pod() -> TypeRef<'static> {
    TypeRef::built_in("v1", "Pod").unwrap()
}

fn config_map() -> TypeRef<'static> {
    TypeRef::built_in("v1", "ConfigMap").unwrap()
}

fn manager(name: &str, operation: ManagerOperation) -> Manager {
    Manager::new(name, operation, "v1", "")
}

struct World {
    ty: TypeRef<'static>,
    object: Value,
    entries: ManagerEntries,
}

impl World {
    fn new(ty: TypeRef<'static>) -> Self {
        Self {
            ty,
            object: json!({}),
            entries: ManagerEntries::default(),
        }
    }

    fn reach<T>(ty: TypeRef<'static>, work: impl FnOnce(&OwnershipContext<'_>) -> T) -> T {
        work(&OwnershipContext {
            ty,
            version: "v1",
            versions: &["v1".to_owned()],
            ignored: &["status"],
        })
    }

    fn apply(&mut self, name: &str, configuration: &Value, force: bool, time: &str) -> bool {
        let manager = manager(name, ManagerOperation::Apply);
        let mut entries = self.entries.clone();
        let states = (&self.object, configuration);
        let applied = Self::reach(self.ty, |reach| {
            apply(reach, &mut entries, &manager, states, force, time)
        });
        let Ok(applied) = applied else {
            return false;
        };
        self.object = applied.unwrap_or_else(|| self.object.clone());
        self.entries = entries;
        true
    }

    fn update(&mut self, name: &str, object: Value) {
        let manager = manager(name, ManagerOperation::Update);
        let states = (&self.object, &object);
        Self::reach(self.ty, |reach| {
            update(reach, &mut self.entries, &manager, states, NOW);
        });
        self.object = object;
    }

    fn fields(&self, name: &str) -> Value {
        let written = self.entries.clone().write();
        let mut all = as_value(written.as_deref()).into_iter();
        let found = all.find(|entry| entry["manager"] == name);
        found.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

fn as_value(managed: Option<&str>) -> Vec<Value> {
    managed.map_or_else(Vec::new, |managed| serde_json::from_str(managed).unwrap())
}

fn written(set: &FieldSet) -> String {
    let mut out = String::new();
    fields_v1::write(&mut out, set);
    out
}

// APPLY-4: an entry keeps its text.
#[test]
fn an_entry_that_a_write_does_not_touch_is_not_parsed() {
    // The path element `x:odd` has an unknown form, which a parsed and rewritten entry would lose.
    let kept = json!({"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "x:odd": {}}}});
    let mut world = World::new(config_map());
    world.object = json!({"data": {"a": "1", "b": "1"}});
    world.entries = ManagerEntries::stored(Some(&json!([kept]).to_string())).unwrap();
    world.update("u", json!({"data": {"a": "1", "b": "2"}}));
    assert_eq!(world.fields("m"), kept["fieldsV1"]);
    world.update("u", json!({"data": {"a": "2", "b": "2"}}));
    assert_eq!(world.fields("m"), Value::Null);
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]".prop_map(PathElement::Field),
        (0..3_i64).prop_map(|n| PathElement::Key(vec![("k".to_owned(), Atom(json!(n)))])),
        "[a-c]".prop_map(|text| PathElement::Value(Atom(json!(text)))),
        (0..3_u64).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(element(), 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let sets = paths.iter().map(|path| FieldSet::of_path(path));
        sets.fold(FieldSet::default(), |all, one| all.union(&one))
    })
}

/// Generates the data of a ConfigMap.
fn configuration() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", "[xy]", 0..4)
        .prop_map(|data| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))
}

proptest! {
    #[test]
    fn field_sets_obey_the_laws_of_sets(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(&a.union(&a), &a);
        prop_assert_eq!(&a.intersection(&a), &a);
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(
            a.intersection(&b.union(&c)),
            a.intersection(&b).union(&a.intersection(&c))
        );
    }

    #[test]
    fn in_place_set_operations_equal_the_pure_ones(a in set(), b in set()) {
        let mut all = a.clone();
        all.extend(b.clone());
        prop_assert_eq!(&all, &a.union(&b));
        let mut rest = a.clone();
        rest.subtract(&b);
        prop_assert_eq!(rest, a.difference(&b));
        let common = !a.intersection(&b).is_empty();
        prop_assert_eq!(fields_v1::touches(&written(&a), &b), common);
    }

    // APPLY-4: entries that stay text, and the same entries parsed, give one result.
    #[test]
    fn unparsed_entries_give_the_same_result(
        first in configuration(),
        second in configuration(),
        third in configuration(),
    ) {
        let mut world = World::new(config_map());
        world.apply("m", &first, true, NOW);
        world.update("u", second.clone());
        world.update("v", second);
        let managed = world.entries.clone().write();
        let updated = |entries: ManagerEntries| {
            let (ty, object) = (world.ty, world.object.clone());
            let mut next = World { ty, object, entries };
            next.update("u", third.clone());
            next.entries.write()
        };
        let sent = Value::Array(as_value(managed.as_deref()));
        let read = ManagerEntries::read(Some(&sent)).unwrap();
        let stored = ManagerEntries::stored(managed.as_deref()).unwrap();
        prop_assert_eq!(&read, &stored);
        prop_assert_eq!(updated(read), updated(stored));
    }

    #[test]
    fn a_written_field_set_parses_to_itself(a in set()) {
        let written = serde_json::from_str(&written(&a)).unwrap();
        prop_assert_eq!(fields_v1::read(&written), Ok(a));
    }

    // APPLY-1: the second apply changes nothing.
    #[test]
    fn applying_twice_is_applying_once(first in configuration(), other in configuration()) {
        let mut world = World::new(config_map());
        world.apply("other", &other, true, NOW);
        world.apply("m", &first, true, NOW);
        let before = (world.object.clone(), world.entries.clone());
        prop_assert!(world.apply("m", &first, false, LATER));
        prop_assert_eq!(before, (world.object, world.entries));
    }

    // APPLY-2: only a field with another owner stays.
    #[test]
    fn a_field_that_no_manager_applies_any_more_is_removed(first in configuration(), other in configuration()) {
        let mut world = World::new(config_map());
        world.apply("m", &first, true, NOW);
        world.apply("other", &other, true, NOW);
        let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        prop_assert!(world.apply("m", &nothing, false, NOW));
        let empty = Map::new();
        let left = world.object["data"].as_object().unwrap_or(&empty);
        prop_assert_eq!(left, other["data"].as_object().unwrap());
        prop_assert_eq!(world.fields("m"), Value::Null);
    }

    // APPLY-3: an update owns no other fields.
    #[test]
    fn an_update_owns_what_it_changed(first in configuration(), second in configuration()) {
        let mut world = World::new(config_map());
        world.apply("m", &first, true, NOW);
        world.update("u", second.clone());
        let owned = world.fields("u");
        for (key, value) in second["data"].as_object().unwrap() {
            let changed = first["data"].get(key) != Some(value);
            prop_assert_eq!(owned["f:data"].get(format!("f:{key}")).is_some(), changed);
        }
    }

    #[test]
    fn no_apply_document_makes_the_server_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = configuration::parse(&bytes);
    }
}

#[test]
fn list_elements_are_identified_by_keys_and_their_defaults() {
    let ports = json!({"spec": {"containers": [{"name": "a", "ports": [
        {"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}});
    let fields: Value = serde_json::from_str(&written(&fields_of(pod(), &ports))).unwrap();
    let container = &fields["f:spec"]["f:containers"]["k:{\"name\":\"a\"}"];
    let port = r#"k:{"containerPort":80,"protocol":"TCP"}"#;
    assert_eq!(
        container["f:ports"][port],
        json!({".": {}, "f:containerPort": {}})
    );
    let twice = json!({"metadata": {"finalizers": ["a", "a"]}, "spec": {"containers": [
        {"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]}});
    let mut wrong = validate(pod(), &twice);
    wrong.sort();
    assert_eq!(
        wrong,
        [
            ".metadata.finalizers: duplicate entries for key [=\"a\"]",
            ".spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=1,protocol=\"TCP\"]",
        ]
    );
}

#[test]
fn lists_keep_the_order_of_the_object_and_take_that_of_the_configuration() {
    let named = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": all}})
    };
    for (live, configured, merged) in [
        (&["a", "b"][..], &["c"][..], &["a", "b", "c"][..]),
        (&["a", "b"], &["b", "a"], &["b", "a"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a"], &["b", "a"], &["b", "a"]),
        (&[], &["a", "b"], &["a", "b"]),
    ] {
        let result = super::merge_values::merge(pod(), &named(live), &named(configured));
        assert_eq!(result, named(merged), "{live:?} with {configured:?}");
    }
}

#[test]
fn a_conflict_names_the_manager_and_the_field() {
    let mut world = World::new(config_map());
    let with = |value: &str| json!({"data": {"a": value, "b": value}});
    world.update("u", with("1"));
    let manager = manager("m", ManagerOperation::Apply);
    let mut entries = world.entries.clone();
    let states = (&world.object, &with("2"));
    let conflicts = World::reach(config_map(), |reach| {
        apply(reach, &mut entries, &manager, states, false, NOW)
    });
    assert_eq!(
        refuse_conflicts(&conflicts.unwrap_err()).message,
        "Apply failed with 2 conflicts: conflicts with \"u\" using v1:\n- .data.a\n- .data.b"
    );
    assert!(world.apply("m", &with("2"), true, NOW));
    assert_eq!(world.fields("u"), json!({"f:data": {}}));
}

#[test]
fn unknown_path_elements_are_ignored_and_malformed_ones_refused() {
    let read = |value: Value| fields_v1::read(&value);
    assert_eq!(read(json!({"q:x": {}})), Ok(FieldSet::default()));
    for broken in [
        json!([]),
        json!({"k:[]": {}}),
        json!({"v:": {}}),
        json!({"i:x": {}}),
    ] {
        assert!(read(broken.clone()).is_err(), "{broken}");
    }
    let mut set = FieldSet::default();
    set.put(PathElement::field("x"), FieldNode::default());
    assert!(set.is_empty());
}

#[test]
fn the_oldest_updates_share_an_entry() {
    let mut world = World::new(config_map());
    for at in 0..13 {
        let mut object = world.object.clone();
        object["data"][format!("k{at}")] = json!("1");
        world.update(&format!("m{at:02}"), object);
        cap(&mut world.entries);
    }
    assert_eq!(world.entries.iter().count(), 10);
    let ancient = world.fields("ancient-changes");
    assert!(ancient["f:data"].get("f:k0").is_some());
    assert!(ancient["f:data"].get("f:k12").is_none());
}

/// The name of a field in managedFields contains the key values of a list element with upstream's escapes.
#[test]
fn values_in_path_elements_have_the_escapes_of_upstream() {
    let text = "a<b>&\"\\\u{8}\n\u{2028}é";
    let escaped = r#""a\u003cb\u003e\u0026\"\\\u0008\n\u2028é""#;
    for (element, name, shown) in [
        (
            PathElement::Key(vec![
                ("n".to_owned(), Atom(json!(text))),
                ("p".to_owned(), Atom(json!(1))),
            ]),
            format!(r#"k:{{"n":{escaped},"p":1}}"#),
            "[n=\"a<b>&\\\"\\\\\\b\\n\\u2028é\",p=1]",
        ),
        (
            PathElement::Value(Atom(json!(text))),
            format!("v:{escaped}"),
            "[=\"a<b>&\\\"\\\\\\b\\n\\u2028é\"]",
        ),
        (PathElement::field("a<b"), "f:a<b".to_owned(), ".a<b"),
    ] {
        let set = FieldSet::of_path(std::slice::from_ref(&element));
        let mut written = String::new();
        fields_v1::write(&mut written, &set);
        let value: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(value, json!({name: {}}));
        assert_eq!(fields_v1::read(&value).unwrap(), set);
        assert!(fields_v1::touches(&written, &set));
        assert_eq!(element.to_string(), shown);
    }
}

#[test]
fn the_first_unknown_field_of_each_object_is_named() {
    let wrong = json!({"metadata": {"x": 1, "y": 2}, "spec": {"a": 1, "b": {"c": 1},
        "containers": [{"name": "c", "z": 1, "zz": 2}]}});
    assert_eq!(
        validate(pod(), &wrong),
        [
            ".metadata.x: field not declared in schema",
            ".spec.a: field not declared in schema",
        ]
    );
    let wrong = json!({"spec": {"containers": [{"name": "c", "z": 1, "zz": 2}], "x": 1}});
    assert_eq!(
        validate(pod(), &wrong),
        [
            ".spec.containers[name=\"c\"].z: field not declared in schema",
            ".spec.x: field not declared in schema",
        ]
    );
}

#[test]
fn a_sent_time_is_written_in_whole_seconds_and_utc() {
    let sent = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}},
        "time": "2026-01-02T05:04:05.678+02:00"}]);
    let written = ManagerEntries::read(Some(&sent)).unwrap().write().unwrap();
    assert!(
        written.contains("\"time\":\"2026-01-02T03:04:05Z\""),
        "{written}"
    );
}

/// No manager owns the order of a list, so only a comparison of the objects finds the change.
#[test]
fn an_apply_of_another_order_is_a_change() {
    let mut world = World::new(pod());
    let containers = |names: [&str; 2]| {
        let all = names.map(|name| json!({"name": name, "image": "i"}));
        json!({"spec": {"containers": all}})
    };
    assert!(world.apply("m", &containers(["a", "b"]), false, NOW));
    let other = containers(["b", "a"]);
    assert!(world.apply("m", &other, false, LATER));
    assert_eq!(world.object["spec"], other["spec"]);
    let written = world.entries.clone().write().unwrap();
    assert!(written.contains(LATER), "{written}");
}
