//! Malformed objects among good ones.

use super::fake::*;
use steersman_api::WatchEvent;

#[tokio::test(start_paused = true)]
async fn one_malformed_object_stops_neither_a_list_nor_a_watch_and_heals() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), bad("p", 2), good("b", 3)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let store = running.informer.store();
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "*b@3", "synced"]);
    assert_eq!(store.malformed().len(), 1);
    assert_eq!(store.malformed_at(&key("p")).unwrap().version.as_str(), "2");

    // A good object that becomes malformed keeps its last good version.
    wire.unbounded_send(Ok(WatchEvent::Modified(bad("a", 11))))
        .unwrap();
    wire.unbounded_send(modified("b", 12)).unwrap();
    assert_eq!(next(&mut seen).await, "~b@3>12");
    assert_eq!(store.entry(&key("a")).unwrap().version().as_str(), "1");
    assert_eq!(
        store.malformed_at(&key("a")).unwrap().version.as_str(),
        "11"
    );

    // Both objects heal: one appears for readers that never saw it, the other is updated.
    wire.unbounded_send(modified("p", 13)).unwrap();
    wire.unbounded_send(modified("a", 14)).unwrap();
    assert_eq!(take(&mut seen, 2).await, ["+p@13", "~a@1>14"]);
    assert!(store.malformed().is_empty());
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_delete_of_a_malformed_object_names_its_last_good_version() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), bad("p", 2)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["*a@1", "synced"]);
    wire.unbounded_send(Ok(WatchEvent::Deleted(bad("a", 11))))
        .unwrap();
    wire.unbounded_send(Ok(WatchEvent::Deleted(bad("p", 12))))
        .unwrap();
    assert_eq!(next(&mut seen).await, "-a@1?");
    running.applied(12).await;
    assert_eq!(seen.waiting(), 0);
    assert!(running.informer.store().is_empty());
    assert!(running.informer.store().malformed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_relist_keeps_malformed_objects_and_drops_missing_ones() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2), bad("p", 3)]);
    fake.watch_refused(410, "Expired");
    fake.page("20", [bad("a", 15), good("p", 16)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    let expected = ["*a@1", "*b@2", "synced", "-b@2?", "+p@16"];
    assert_eq!(take(&mut seen, 5).await, expected);
    assert_eq!(running.stored(), ["ns/a@1", "ns/p@16"]);
    assert!(running.informer.store().malformed_at(&key("a")).is_some());
}
