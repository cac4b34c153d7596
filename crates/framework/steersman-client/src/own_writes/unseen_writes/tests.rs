//! Tests of `UnseenWrites`: which writes a read must wait for, in which state of the cache.

use steersman_cache::KeyState;
use steersman_informer::Identity;

use super::question::UNKNOWN_FOR;
use super::*;

mod judged;

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

const ME: WriterHash = WriterHash(1);
const OTHER: WriterHash = WriterHash(2);

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn stored(name: &str, uid: &str, version: &str) -> NotedWrite {
    NotedWrite::Stored {
        answer: None,
        key: key(name),
        uid: uid.to_owned(),
        version: ResourceVersion::new(version),
    }
}

fn deleted(name: &str, uid: &str) -> NotedWrite {
    NotedWrite::Deleted {
        key: key(name),
        uid: uid.to_owned(),
        at: None,
        was_stored: true,
        is_final: false,
    }
}

fn absent(name: &str, at: &str) -> NotedWrite {
    NotedWrite::Absent {
        key: key(name),
        at: ResourceVersion::new(at),
    }
}

fn noted(written: impl IntoIterator<Item = NotedWrite>) -> UnseenWrites {
    let mut writes = UnseenWrites::default();
    for written in written {
        writes.handle_write(ME, &gvk(), written, now());
    }
    writes
}

/// Returns the known writes (notes) that a read of the object `name` waits for.
fn owed(writes: &UnseenWrites, name: &str) -> Vec<Note> {
    writes.owed(Some(ME), &gvk(), Read::Object(&key(name)))
}

/// Returns the objects that a read asks the server about, because the result of a write to them is unknown.
fn asks(writes: &UnseenWrites, read: Read<'_>) -> Vec<UncertainObject> {
    let questions = writes.questions(Some(ME), &gvk(), read).into_iter();
    questions.map(|question| question.subject).collect()
}

fn named(name: &str) -> UncertainObject {
    UncertainObject::Object(key(name))
}

fn generated(begins: &str) -> UncertainObject {
    UncertainObject::generated(Some("default"), begins)
}

/// Returns whether an informer has seen the writes to the object `a`, if it has applied the version `applied` and
/// stores the object as `has` says (uid, version, whether it is terminating).
fn seen(writes: &UnseenWrites, applied: &str, has: Option<(&str, &str, bool)>) -> bool {
    looked(writes, applied, has).0
}

/// Returns whether an informer in this state has seen the writes to the object `a`, and whether it shows nothing older
/// than they, so that a read need not wait.
fn looked(writes: &UnseenWrites, applied: &str, has: Option<(&str, &str, bool)>) -> (bool, bool) {
    let stored = has.map(|(uid, version, is_deleting)| {
        Identity::new(uid, ResourceVersion::new(version), is_deleting)
    });
    let notes = owed(writes, "a");
    assert_eq!(notes.len(), 1);
    let has = KeyState::new(ResourceVersion::new(applied), stored);
    (notes[0].is_seen(&has), notes[0].is_shown(&has))
}

/// RYOW-1: a read must see the writes of its own request key, to objects of the read kind and namespace.
#[test]
fn a_read_must_see_the_writes_of_its_own_key() {
    let mut writes = noted([stored("a", "u1", "5")]);
    writes.handle_write(OTHER, &gvk(), stored("b", "u2", "6"), now());

    assert_eq!(owed(&writes, "a").len(), 1);
    assert_eq!(owed(&writes, "b").len(), 0);
    let list = |writes: &UnseenWrites, writer, namespace| {
        let owed = writes.owed(writer, &gvk(), Read::List(namespace));
        owed.len()
    };
    assert_eq!(list(&writes, Some(ME), None), 1);
    assert_eq!(list(&writes, Some(ME), Some("default")), 1);
    assert_eq!(list(&writes, Some(ME), Some("kube-system")), 0);
    assert_eq!(list(&writes, None, None), 2);
    let secrets = Gvk::new("", "v1", "Secret");
    assert_eq!(writes.owed(None, &secrets, Read::List(None)), []);
}

/// RYOW-2: it does not matter whether an event, a bookmark or a list brought the informer to the version.
#[test]
fn a_write_is_seen_once_its_version_was_applied() {
    let writes = noted([stored("a", "u1", "10")]);
    assert!(!seen(&writes, "9", None));
    assert!(!seen(&writes, "9", Some(("u1", "9", false))));
    assert!(seen(&writes, "10", None), "applied, and gone since");
    assert!(seen(&writes, "100", Some(("u1", "10", false))));
    assert!(seen(&writes, "9", Some(("u1", "10", false))));
}

#[test]
fn a_newer_object_of_the_name_ends_every_wait() {
    let writes = noted([stored("a", "u1", "10")]);
    assert!(
        !seen(&writes, "9", Some(("u0", "9", false))),
        "this one had the name before"
    );
    assert!(seen(&writes, "9", Some(("u2", "11", false))));
    let writes = noted([deleted("a", "u1")]);
    assert!(seen(&writes, "9", Some(("u2", "9", false))));
}

#[test]
fn a_delete_is_seen_when_the_object_is_absent_or_terminating() {
    let writes = noted([deleted("a", "u1")]);
    assert!(!seen(&writes, "9", Some(("u1", "9", false))));
    assert!(seen(&writes, "9", Some(("u1", "9", true))));
    assert!(seen(&writes, "9", None));
}

/// An object that was created and deleted at once is absent from the cache before its arrival, and after its deletion.
#[test]
fn a_delete_of_an_unseen_object_is_seen_after_it_came_and_went() {
    let writes = noted([stored("a", "u1", "10"), deleted("a", "u1")]);
    assert!(!seen(&writes, "9", None));
    assert!(!seen(&writes, "10", Some(("u1", "10", false))));
    assert!(seen(&writes, "11", None));
}

#[test]
fn the_newest_write_of_an_object_replaces_older_notes() {
    let writes = noted([stored("a", "u1", "10"), stored("a", "u1", "12")]);
    assert_eq!(writes.len(), 1);
    assert!(!seen(&writes, "11", Some(("u1", "10", false))));
    assert!(seen(&writes, "12", None));
}

#[test]
fn versions_that_cannot_be_compared_are_not_waited_for() {
    let writes = noted([stored("a", "u1", "abc"), stored("a", "u1", "0")]);
    assert_eq!(owed(&writes, "a"), []);
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

#[test]
fn a_seen_note_is_dropped_but_not_a_newer_one_of_the_same_object() {
    let mut writes = noted([stored("a", "u1", "10")]);
    let old = owed(&writes, "a").remove(0);
    writes.handle_write(ME, &gvk(), stored("a", "u1", "11"), now());
    writes.handle_seen(&gvk(), &old);
    let new = owed(&writes, "a").remove(0);
    assert!(!new.is_seen(&KeyState::new(ResourceVersion::new("10"), None)));
    writes.handle_seen(&gvk(), &new);
    assert_eq!(owed(&writes, "a"), []);
    assert_eq!(writes.len(), 0);
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

/// The answers to two concurrent writes may arrive in any order.
#[test]
fn a_late_answer_does_not_replace_the_note_of_a_later_write() {
    let writes = noted([stored("a", "u1", "12"), stored("a", "u1", "10")]);
    assert!(!seen(&writes, "11", None));
    let writes = noted([
        stored("a", "u1", "10"),
        deleted("a", "u1"),
        stored("a", "u1", "9"),
    ]);
    assert!(!seen(&writes, "10", Some(("u1", "10", false))));
    // The answer to the removal of a finalizer arrives after the answer to the delete.
    let writes = noted([deleted("a", "u1"), stored("a", "u1", "9")]);
    assert!(!seen(&writes, "9", Some(("u1", "9", false))));
    assert!(seen(&writes, "9", Some(("u1", "9", true))));
    let writes = noted([deleted("a", "u1"), stored("a", "u2", "11")]);
    assert!(seen(&writes, "11", Some(("u2", "11", false))));
}

const NOT_YET: (bool, bool) = (false, false);
/// The informer has not seen the write and shows nothing older: no read waits, and the note stays.
const SHOWN: (bool, bool) = (false, true);
const SEEN: (bool, bool) = (true, true);

/// RYOW-7: an object that is missing in the server's list must be gone from the cache before a read returns.
#[test]
fn an_absence_is_awaited_if_the_cache_stores_the_object_or_it_was_written() {
    let writes = noted([absent("a", "10")]);
    for going in [false, true] {
        let has = Some(("u1", "9", going));
        assert_eq!(looked(&writes, "9", has), NOT_YET);
    }
    assert_eq!(looked(&writes, "", None), NOT_YET, "before the first list");
    // At version 9 the object may still arrive and be deleted again before version 10, so the note stays.
    assert_eq!(looked(&writes, "9", None), SHOWN);
    assert_eq!(looked(&writes, "10", None), SEEN);
    // A written object must arrive in the cache before its absence there means that it is gone.
    let writes = noted([stored("a", "u1", "10"), absent("a", "12")]);
    assert_eq!(looked(&writes, "9", None), NOT_YET);
    let has = Some(("u1", "10", false));
    assert_eq!(looked(&writes, "10", has), NOT_YET);
    assert_eq!(looked(&writes, "11", None), SHOWN);
    assert_eq!(looked(&writes, "12", None), SEEN);
    // The answer to the write may arrive after the later answer that the object is absent.
    let writes = noted([absent("a", "12"), stored("a", "u1", "10")]);
    assert_eq!(looked(&writes, "10", has), NOT_YET);
    assert_eq!(looked(&writes, "11", None), SHOWN);
    let has = Some(("u1", "9", false));
    for noted in [
        noted([deleted("a", "u1"), absent("a", "12")]),
        noted([absent("a", "12"), deleted("a", "u1")]),
    ] {
        assert_eq!(looked(&noted, "12", has), NOT_YET);
        assert_eq!(looked(&noted, "11", Some(("u0", "8", false))), NOT_YET);
        assert_eq!(looked(&noted, "12", None), SEEN);
    }
    let writes = noted([absent("a", "abc"), absent("a", "")]);
    assert_eq!(owed(&writes, "a"), []);
}

/// RYOW-7: the object may be written while the server is asked about it, appear in the cache before the answer is
/// recorded, or be selected by the cache again.
#[test]
fn an_object_that_was_absent_once_may_exist_later() {
    let alive = Some(("u1", "12", false));
    for noted in [
        noted([absent("a", "11")]),
        noted([stored("a", "u1", "12"), absent("a", "11")]),
        noted([absent("a", "11"), stored("a", "u1", "12")]),
        noted([
            stored("a", "u1", "9"),
            absent("a", "11"),
            stored("a", "u1", "12"),
        ]),
        noted([stored("a", "u1", "10"), absent("a", "11")]),
    ] {
        assert_eq!(looked(&noted, "12", alive), SEEN, "{noted:?}");
    }
    // Of two answers that the object is absent, the one with the newer version counts.
    let writes = noted([absent("a", "11"), absent("a", "10")]);
    assert_eq!(
        looked(&writes, "10", Some(("u1", "10", false))),
        NOT_YET,
        "absent after that"
    );
}

/// RYOW-3: only reads that could show a write with an unknown result ask the server about it.
#[test]
fn a_question_is_about_the_reads_that_could_show_the_write() {
    let (a, b) = (key("a"), key("b"));
    let elsewhere = ObjectKey::namespaced("kube-system", "a");
    let writes = noted([named("a"), named("a")].map(NotedWrite::Unknown));
    assert_eq!(writes.len(), 1);
    for read in [
        Read::Object(&b),
        Read::Object(&elsewhere),
        Read::List(Some("kube-system")),
    ] {
        assert_eq!(asks(&writes, read), [], "{read:?}");
    }
    for read in [
        Read::Object(&a),
        Read::List(Some("default")),
        Read::List(None),
    ] {
        assert_eq!(asks(&writes, read), [named("a")], "{read:?}");
    }

    let made = key("made-x7f2k");
    let writes = noted([NotedWrite::Unknown(generated("made-"))]);
    for read in [
        Read::Object(&a),
        Read::Object(&ObjectKey::namespaced("kube-system", "made-x7f2k")),
        Read::List(Some("kube-system")),
    ] {
        assert_eq!(asks(&writes, read), [], "{read:?}");
    }
    for read in [Read::Object(&made), Read::List(None)] {
        assert_eq!(asks(&writes, read), [generated("made-")], "{read:?}");
    }
    assert!(generated(&"m".repeat(60)).could_be(&key(&("m".repeat(58) + "x7f2k"))));
}

/// RYOW-3: a question that the server has answered is dropped; a newer question about the same object is kept.
#[test]
fn a_question_stays_until_the_server_answered_it() {
    let mut writes = noted([named("a"), named("b"), generated("made-")].map(NotedWrite::Unknown));
    writes.handle_write(OTHER, &gvk(), NotedWrite::Unknown(named("a")), now());
    let all = writes.questions(None, &gvk(), Read::List(None));
    assert_eq!(all.len(), 4, "reading takes nothing");
    writes.handle_write(ME, &gvk(), NotedWrite::Unknown(named("b")), now());
    for question in &all {
        writes.handle_answer(&gvk(), question);
    }
    assert_eq!(asks(&writes, Read::List(None)), [named("b")]);
    assert_eq!(writes.len(), 1);
    let newer = writes.questions(Some(ME), &gvk(), Read::List(None));
    writes.handle_answer(&gvk(), &newer[0]);
    assert_eq!(writes.len(), 0);
    assert!(writes.of.is_empty(), "an empty shell would stay for ever");
}

/// Only a read forgets the writes of its request key at once, so the writes of keys that never read again must not
/// accumulate.
#[test]
fn seen_writes_of_keys_that_never_read_again_are_swept() {
    let mut writes = UnseenWrites::default();
    for number in 0..10_000_u64 {
        let version = (number + 1).to_string();
        writes.handle_write(
            WriterHash(number),
            &gvk(),
            stored(&format!("o{number}"), "u", &version),
            now(),
        );
        let applied = ResourceVersion::new(number.saturating_sub(10).to_string());
        let has = KeyState::new(applied, None);
        let is_seen = |_: &Gvk, note: &Note| note.is_seen(&has);
        writes.sweep(now(), false, is_seen, |_, _| false, |_, _| true);
    }
    assert!(writes.len() <= SWEEP_AT_LEAST, "{}", writes.len());
}

/// A write with an unknown result (question) is kept for an hour, and longer while the informer does not follow the
/// server.
#[test]
fn unknown_writes_of_keys_that_never_read_again_are_swept_after_a_while() {
    let start = now();
    let kept_after = |gap: Duration, follows: bool| {
        let mut writes = UnseenWrites::default();
        let mut at = start;
        for number in 0..10_000_u64 {
            let subject = UncertainObject::Object(ObjectKey::cluster_scoped(format!("o{number}")));
            writes.handle_write(WriterHash(number), &gvk(), NotedWrite::Unknown(subject), at);
            writes.sweep(at, false, |_, _| true, |_, _| false, |_, _| follows);
            at += gap;
        }
        let read = Read::Object(&ObjectKey::cluster_scoped("o9999"));
        let questions = writes.questions(Some(WriterHash(9_999)), &gvk(), read);
        assert_eq!(questions.len(), 1, "the newest stays");
        writes.len()
    };
    let in_an_hour = 360;
    let kept = kept_after(Duration::from_secs(10), true);
    assert!((in_an_hour - 1..=in_an_hour * 3).contains(&kept), "{kept}");
    assert_eq!(kept_after(Duration::ZERO, true), 10_000);
    assert_eq!(kept_after(Duration::from_secs(10), false), 10_000);
}

/// Writes that the cache has seen are also forgotten if only few are remembered, so that the writes of deleted request
/// keys do not stay after a peak.
#[test]
fn seen_notes_are_swept_after_a_while_and_unseen_notes_stay() {
    let start = now();
    let mut writes = UnseenWrites::default();
    for number in 0..1000_u64 {
        let (name, version) = (format!("o{number}"), (number + 1).to_string());
        writes.handle_write(
            WriterHash(number),
            &gvk(),
            stored(&name, "u", &version),
            start,
        );
    }
    writes.handle_write(ME, &gvk(), NotedWrite::Unknown(named("a")), start);
    let sweep = |writes: &mut UnseenWrites, after: Duration, applied: &str| {
        let has = KeyState::new(ResourceVersion::new(applied), None);
        let is_seen = |_: &Gvk, note: &Note| note.is_seen(&has);
        writes.sweep(start + after, false, is_seen, |_, _| false, |_, _| true);
        writes.len()
    };
    assert_eq!(sweep(&mut writes, Duration::ZERO, "0"), 1001, "not seen");
    assert_eq!(sweep(&mut writes, SWEEP_AFTER / 2, "990"), 1001, "not yet");
    assert_eq!(
        sweep(&mut writes, SWEEP_AFTER, "990"),
        11,
        "ten, and a question"
    );
    assert_eq!(sweep(&mut writes, SWEEP_AFTER * 3 / 2, "1000"), 11);
    assert_eq!(sweep(&mut writes, SWEEP_AFTER * 2, "1000"), 1);
    let before = UNKNOWN_FOR - Duration::from_secs(1);
    assert_eq!(sweep(&mut writes, before, "1000"), 1, "it may still show");
    assert_eq!(sweep(&mut writes, before + SWEEP_AFTER, "1000"), 0);
}

/// RYOW-5: the time limit of the wait for a write counts from the first read that waits, for all reads together.
#[test]
fn the_wait_for_a_note_includes_the_waits_of_earlier_reads() {
    let mut writes = noted([stored("a", "u1", "10")]);
    let start = now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let most = Duration::from_secs(10);
    let left = |writes: &UnseenWrites, seconds| owed(writes, "a")[0].remaining(most, at(seconds));
    assert_eq!(left(&writes, 5), most, "no read waits yet");
    let mut notes = owed(&writes, "a");
    writes.await_all(&gvk(), &mut notes, at(5));
    writes.await_all(&gvk(), &mut notes, at(8));
    assert_eq!(left(&writes, 8), Duration::from_secs(7));
    assert_eq!(notes[0].remaining(most, at(8)), Duration::from_secs(7));
    assert_eq!(left(&writes, 16), Duration::ZERO);
    writes.handle_write(ME, &gvk(), stored("a", "u1", "11"), at(16));
    writes.await_all(&gvk(), &mut notes, at(16));
    assert_eq!(left(&writes, 17), most, "a newer one is another wait");
    assert_eq!(notes[0].remaining(most, at(17)), Duration::ZERO);
}

/// RYOW-12: a get returns the answer to a write only if no later write, delete or absence of the object is known.
#[test]
fn only_the_answer_to_the_last_write_is_returned() {
    let budget = AnswerBudget::default();
    let answered = |uid: &str, version: &str| {
        let mut written = stored("a", uid, version);
        if let NotedWrite::Stored { answer, .. } = &mut written {
            *answer = budget.keep(&bytes::Bytes::copy_from_slice(version.as_bytes()));
        }
        written
    };
    let found = |written: &[NotedWrite]| {
        let writes = noted(written.iter().cloned());
        let notes = owed(&writes, "a");
        let answer = notes.first().and_then(Note::answer);
        answer.map(|answer| String::from_utf8(answer.body().to_vec()).unwrap())
    };
    let five = || answered("u1", "5");
    assert_eq!(found(&[five()]).as_deref(), Some("5"));
    assert_eq!(found(&[five(), answered("u1", "7")]).as_deref(), Some("7"));
    // The answers to two concurrent writes arrive in the other order: the newer version counts.
    assert_eq!(found(&[answered("u1", "7"), five()]).as_deref(), Some("7"));
    // The answer to the newest write was not kept, and the answer to an earlier write is outdated.
    assert_eq!(found(&[five(), stored("a", "u1", "7")]), None);
    assert_eq!(found(&[five(), deleted("a", "u1")]), None);
    assert_eq!(found(&[five(), absent("a", "7")]), None);
    // The answer to a delete arrives before the answer to an earlier write.
    assert_eq!(found(&[deleted("a", "u1"), five()]), None);
    assert_eq!(found(&[absent("a", "3"), five()]), None);
    let created = [deleted("a", "u1"), answered("u2", "9")];
    assert_eq!(found(&created).as_deref(), Some("9"));
}
