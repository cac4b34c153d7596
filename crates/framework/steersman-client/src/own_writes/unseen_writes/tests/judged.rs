//! Writes that leave the selectors, deletes of objects that the cache never saw, and the reads that must see them.

use super::*;

/// A delete of an object that the caller had read at the version `at` (empty: unknown) and that the cache did not hold.
/// The answer was a Status, so it has no version.
fn deleted_at(name: &str, uid: &str, at: &str) -> NotedWrite {
    NotedWrite::Deleted {
        key: key(name),
        uid: uid.to_owned(),
        at: Some(ResourceVersion::new(at)).filter(ResourceVersion::is_exact),
        was_stored: false,
        is_final: false,
    }
}

/// RYOW-9: the events of the object may still arrive. So the delete stays remembered until the informer has passed the
/// version at which the caller knew the object.
#[test]
fn a_delete_of_an_unseen_object_stays_noted_until_its_version_has_passed() {
    let writes = noted([deleted_at("a", "u1", "10")]);
    assert_eq!(looked(&writes, "9", None), SHOWN, "nothing to wait for");
    for version in ["8", "10", "12"] {
        let late = Some(("u1", version, false));
        assert_eq!(looked(&writes, "9", late), NOT_YET, "{version}");
    }
    assert_eq!(looked(&writes, "10", Some(("u1", "10", false))), NOT_YET);
    assert_eq!(looked(&writes, "10", Some(("u1", "11", true))), SEEN);
    assert_eq!(looked(&writes, "10", None), SEEN);
    // A stored object with another uid and a version before 10 existed before the deleted object.
    assert_eq!(looked(&writes, "7", Some(("u0", "7", false))), NOT_YET);
    assert_eq!(looked(&writes, "9", Some(("u2", "12", false))), SEEN);
    // The late answer to an earlier write of the object does not make reads wait for this write.
    let writes = noted([deleted_at("a", "u1", "10"), stored("a", "u1", "9")]);
    assert_eq!(looked(&writes, "9", None), SHOWN);
}

/// RYOW-9: if no version of the deleted object is known, the server is asked, because no state of the informer tells
/// that the object cannot arrive any more.
#[test]
fn a_delete_without_any_version_becomes_a_question() {
    let writes = noted([deleted_at("a", "u1", "")]);
    assert_eq!(asks(&writes, Read::Object(&key("a"))), [named("a")]);
    // That the object was absent at version 5 does not tell when the object that was deleted later arrives.
    let writes = noted([absent("a", "5"), deleted_at("a", "u1", "")]);
    assert_eq!(asks(&writes, Read::List(None)), [named("a")]);
    let writes = noted([stored("a", "u1", "10"), deleted_at("a", "u1", "")]);
    assert_eq!(asks(&writes, Read::List(None)), [], "it was written here");
    let writes = noted([deleted("a", "u1")]);
    assert_eq!(asks(&writes, Read::List(None)), [], "the cache held it");
}

/// RYOW-8: if it is unknown whether the cache selects a written object, the server is asked, until a later write of the
/// object has a known result. A write without a version stays unknown even then.
#[test]
fn an_unjudged_write_is_a_question_until_a_later_write_is_noted() {
    let unjudged = |version: &str| NotedWrite::Unconfirmed {
        key: key("a"),
        version: ResourceVersion::new(version),
    };
    let version = |writes: &UnseenWrites| {
        let questions = writes.questions(Some(ME), &gvk(), Read::Object(&key("a")));
        assert_eq!((questions.len(), writes.len()), (1, 1));
        questions[0].version.as_ref().map(|v| v.as_str().to_owned())
    };
    let writes = noted([unjudged("10"), unjudged("12"), unjudged("11")]);
    assert_eq!(version(&writes).as_deref(), Some("12"));
    let unknown = NotedWrite::Unknown(named("a"));
    assert_eq!(version(&noted([unknown.clone(), unjudged("10")])), None);
    assert_eq!(version(&noted([unjudged("10"), unknown.clone()])), None);
    for later in [stored("a", "u1", "11"), absent("a", "11")] {
        let writes = noted([unjudged("10"), later.clone()]);
        assert_eq!(asks(&writes, Read::List(None)), [], "{later:?}");
        assert_eq!(writes.len(), 1);
        let writes = noted([unknown.clone(), later]);
        assert_eq!(asks(&writes, Read::List(None)), [named("a")]);
    }
    assert_eq!(noted([unjudged("abc")]).len(), 0);
}

/// RYOW-11: a read waits only for the writes of its own request key (writer), kind and object.
#[test]
fn a_read_owes_by_writer_kind_and_object() {
    // A read asks the filter first, as the write tracker does.
    let owes = |writes: &UnseenWrites, reader, kind: &Gvk, read: Read<'_>| {
        writes.filter.may_owe(reader, read.name()) && writes.owes(reader, kind, read)
    };
    let mut writes = noted([stored("a", "u1", "5")]);
    for number in 0..1000 {
        let name = format!("o{number}");
        writes.handle_write(
            WriterHash(1000 + number),
            &gvk(),
            stored(&name, "u", "6"),
            now(),
        );
    }
    let secrets = Gvk::new("", "v1", "Secret");
    let (a, b, o7) = (key("a"), key("b"), key("o7"));
    assert!(owes(&writes, Some(ME), &gvk(), Read::Object(&a)));
    assert!(owes(&writes, Some(ME), &gvk(), Read::List(None)));
    assert!(owes(&writes, None, &gvk(), Read::Object(&o7)));
    for (reader, kind, read) in [
        (Some(ME), &gvk(), Read::Object(&b)),
        (Some(ME), &gvk(), Read::Object(&o7)),
        (Some(OTHER), &gvk(), Read::Object(&a)),
        (Some(OTHER), &gvk(), Read::List(None)),
        (Some(ME), &secrets, Read::Object(&a)),
        (None, &gvk(), Read::Object(&b)),
        (None, &gvk(), Read::List(Some("kube-system"))),
    ] {
        assert!(!owes(&writes, reader, kind, read), "{reader:?} {read:?}");
    }
    writes.handle_write(ME, &gvk(), NotedWrite::Unknown(generated("made-")), now());
    let made = key("made-1");
    assert!(owes(&writes, Some(ME), &gvk(), Read::Object(&made)));
    let all = writes.owed(None, &gvk(), Read::List(None));
    for note in &all {
        writes.handle_seen(&gvk(), note);
    }
    assert!(!owes(&writes, Some(ME), &gvk(), Read::Object(&a)));
    let questions = writes.questions(None, &gvk(), Read::List(None));
    writes.handle_answer(&gvk(), &questions[0]);
    assert!(writes.of.is_empty() && writes.len() == 0);
    assert_eq!(writes.len(), 0);
}
