//! Which writes a read has to see, as tables.

use super::*;

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

const ME: Writer = Writer(1);
const OTHER: Writer = Writer(2);

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn stored(name: &str, uid: &str, version: &str) -> Written {
    Written::Stored {
        key: key(name),
        uid: uid.to_owned(),
        version: ResourceVersion::new(version),
    }
}

fn deleted(name: &str, uid: &str) -> Written {
    Written::Deleted {
        key: key(name),
        uid: uid.to_owned(),
    }
}

fn noted(written: impl IntoIterator<Item = Written>) -> OwnWrites {
    let mut writes = OwnWrites::default();
    for written in written {
        writes.note(ME, &gvk(), written, now());
    }
    writes
}

/// The notes that a read of `name` waits for.
fn owed(writes: &mut OwnWrites, name: &str) -> Vec<Note> {
    writes
        .owed(Some(ME), &gvk(), Read::Object(&key(name)))
        .notes
}

/// Whether a read asks the server.
fn asks(writes: &mut OwnWrites, read: Read<'_>) -> bool {
    let owed = writes.owed(Some(ME), &gvk(), read);
    !owed.unknown.is_empty()
}

/// Whether an informer that has applied `applied`, and stores this (uid, version, deleting), has seen
/// the one note of `a`.
fn seen(writes: &mut OwnWrites, applied: &str, has: Option<(&str, &str, bool)>) -> bool {
    let applied = ResourceVersion::new(applied);
    let version = has.map(|(_, version, _)| ResourceVersion::new(version));
    let stored = has
        .zip(version.as_ref())
        .map(|((uid, _, is_deleting), version)| Stored {
            uid,
            version,
            is_deleting,
        });
    let notes = owed(writes, "a");
    assert_eq!(notes.len(), 1);
    let look = Look {
        applied: &applied,
        stored,
    };
    notes[0].is_seen(look)
}

/// RYOW-1: one's own writes and no others, of the kind and namespace that is read.
#[test]
fn a_read_owes_what_its_own_key_wrote_there() {
    let mut writes = noted([stored("a", "u1", "5")]);
    writes.note(OTHER, &gvk(), stored("b", "u2", "6"), now());

    assert_eq!(owed(&mut writes, "a").len(), 1);
    assert_eq!(owed(&mut writes, "b").len(), 0);
    let list = |writes: &mut OwnWrites, writer, namespace| {
        writes
            .owed(writer, &gvk(), Read::List(namespace))
            .notes
            .len()
    };
    assert_eq!(list(&mut writes, Some(ME), None), 1);
    assert_eq!(list(&mut writes, Some(ME), Some("default")), 1);
    assert_eq!(list(&mut writes, Some(ME), Some("kube-system")), 0);
    assert_eq!(list(&mut writes, None, None), 2);
    let secrets = Gvk::new("", "v1", "Secret");
    assert_eq!(
        writes.owed(None, &secrets, Read::List(None)),
        Owed::default()
    );
}

/// RYOW-2: events, bookmarks and relists count alike.
#[test]
fn a_write_is_seen_when_its_version_was_applied() {
    let mut writes = noted([stored("a", "u1", "10")]);
    assert!(!seen(&mut writes, "9", None));
    assert!(!seen(&mut writes, "9", Some(("u1", "9", false))));
    assert!(seen(&mut writes, "10", None), "applied, and gone since");
    assert!(seen(&mut writes, "100", Some(("u1", "10", false))));
    assert!(seen(&mut writes, "9", Some(("u1", "10", false))));
}

#[test]
fn another_object_that_has_the_name_since_ends_every_wait() {
    let mut writes = noted([stored("a", "u1", "10")]);
    assert!(
        !seen(&mut writes, "9", Some(("u0", "9", false))),
        "this one had the name before"
    );
    assert!(seen(&mut writes, "9", Some(("u2", "11", false))));
    let mut writes = noted([deleted("a", "u1")]);
    assert!(seen(&mut writes, "9", Some(("u2", "9", false))));
}

#[test]
fn a_delete_is_seen_when_the_object_is_gone_or_going() {
    let mut writes = noted([deleted("a", "u1")]);
    assert!(!seen(&mut writes, "9", Some(("u1", "9", false))));
    assert!(seen(&mut writes, "9", Some(("u1", "9", true))));
    assert!(seen(&mut writes, "9", None));
}

/// What was created and deleted at once is absent twice: before it comes, and after it went.
#[test]
fn a_delete_of_what_never_came_waits_for_it_to_come_and_go() {
    let mut writes = noted([stored("a", "u1", "10"), deleted("a", "u1")]);
    assert!(!seen(&mut writes, "9", None));
    assert!(!seen(&mut writes, "10", Some(("u1", "10", false))));
    assert!(seen(&mut writes, "11", None));
}

#[test]
fn of_several_writes_of_one_object_the_newest_counts() {
    let mut writes = noted([stored("a", "u1", "10"), stored("a", "u1", "12")]);
    assert_eq!(writes.len(), 1);
    assert!(!seen(&mut writes, "11", Some(("u1", "10", false))));
    assert!(seen(&mut writes, "12", None));
}

#[test]
fn versions_that_cannot_be_compared_are_not_waited_for() {
    let mut writes = noted([stored("a", "u1", "abc"), stored("a", "u1", "0")]);
    assert_eq!(owed(&mut writes, "a"), []);
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

#[test]
fn what_was_seen_is_dropped_and_a_newer_write_of_it_is_not() {
    let mut writes = noted([stored("a", "u1", "10")]);
    let old = owed(&mut writes, "a").remove(0);
    writes.note(ME, &gvk(), stored("a", "u1", "11"), now());
    writes.seen(&gvk(), &old);
    let new = owed(&mut writes, "a").remove(0);
    assert!(!new.is_seen(Look {
        applied: &ResourceVersion::new("10"),
        stored: None
    }));
    writes.seen(&gvk(), &new);
    assert_eq!(owed(&mut writes, "a"), []);
    assert_eq!(writes.len(), 0);
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

/// RYOW-3: where nobody knows, the server is asked once.
#[test]
fn an_unknown_outcome_sends_the_next_read_to_the_server_once() {
    let unknown = |name: Option<&str>| Written::Unknown {
        namespace: Some("default".to_owned()),
        name: name.map(str::to_owned),
    };
    let (a, b) = (key("a"), key("b"));
    let mut writes = noted([unknown(Some("a")), unknown(Some("a"))]);
    let mut live = |read| !writes.owed(Some(ME), &gvk(), read).unknown.is_empty();
    assert!(!live(Read::Object(&b)));
    assert!(!live(Read::List(Some("kube-system"))));
    assert!(live(Read::Object(&a)));
    assert!(!live(Read::Object(&a)));

    let mut writes = noted([unknown(None)]);
    assert!(
        asks(&mut writes, Read::Object(&b)),
        "any name may be the generated one"
    );
    let mut writes = noted([unknown(None)]);
    assert!(asks(&mut writes, Read::List(None)));
    assert!(!asks(&mut writes, Read::List(None)));
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

/// Keys that never read again must not fill the memory.
#[test]
fn writes_of_keys_that_never_read_again_are_swept() {
    let mut writes = OwnWrites::default();
    for number in 0..10_000_u64 {
        let version = (number + 1).to_string();
        writes.note(
            Writer(number),
            &gvk(),
            stored(&format!("o{number}"), "u", &version),
            now(),
        );
        let applied = ResourceVersion::new(number.saturating_sub(10).to_string());
        let is_seen = |_: &Gvk, note: &Note| {
            note.is_seen(Look {
                applied: &applied,
                stored: None,
            })
        };
        writes.sweep(now(), is_seen, |_, _| true);
    }
    assert!(writes.len() <= SWEEP_AT_LEAST, "{}", writes.len());
}

/// What nobody knows of is kept as long as it may still show, and where nobody follows the server.
#[test]
fn unknown_writes_of_keys_that_never_read_again_are_swept_after_a_while() {
    let start = now();
    let kept_after = |gap: Duration, follows: bool| {
        let mut writes = OwnWrites::default();
        let mut at = start;
        for number in 0..10_000_u64 {
            let unknown = Written::Unknown {
                namespace: None,
                name: Some(format!("o{number}")),
            };
            writes.note(Writer(number), &gvk(), unknown, at);
            writes.sweep(at, |_, _| true, |_, _| follows);
            at += gap;
        }
        let read = Read::Object(&ObjectKey::cluster("o9999"));
        let owed = writes.owed(Some(Writer(9_999)), &gvk(), read);
        assert_eq!(owed.unknown.len(), 1, "the newest stays");
        writes.len()
    };
    let in_an_hour = 360;
    let kept = kept_after(Duration::from_secs(10), true);
    assert!((in_an_hour - 1..=in_an_hour * 3).contains(&kept), "{kept}");
    assert_eq!(kept_after(Duration::ZERO, true), 9_999);
    assert_eq!(kept_after(Duration::from_secs(10), false), 9_999);
}

/// RYOW-5: one wait for each write, of whatever read.
#[test]
fn what_was_waited_for_in_vain_is_late_until_it_is_seen_or_written_anew() {
    let mut writes = noted([stored("a", "u1", "10")]);
    let note = owed(&mut writes, "a").remove(0);
    assert!(!note.is_late());
    writes.late(&gvk(), &note);
    assert!(owed(&mut writes, "a")[0].is_late());
    writes.note(ME, &gvk(), stored("a", "u1", "11"), now());
    writes.late(&gvk(), &note);
    assert!(
        !owed(&mut writes, "a")[0].is_late(),
        "a newer one is another wait"
    );
}
