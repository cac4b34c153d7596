//! A subscriber that does not take its events.

use super::fake::*;

// FAN-2
#[tokio::test(start_paused = true)]
async fn fan_2_a_subscriber_that_stops_taking_holds_up_no_other_and_loses_no_delete() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("gone", 2)]);
    let wire = fake.watch();
    let running = run(&fake, listing().mailbox_bound(8).queue_bound(4));
    let mut slow = running.informer.subscribe();
    let mut quick = running.informer.subscribe();
    assert_eq!(take(&mut slow, 3).await, ["*a@1", "*gone@2", "synced"]);
    assert_eq!(take(&mut quick, 3).await, ["*a@1", "*gone@2", "synced"]);
    wire.unbounded_send(deleted("gone", 11)).unwrap();
    assert_eq!(next(&mut quick).await, "-gone@11");
    for version in 12..2000 {
        wire.unbounded_send(modified("a", version)).unwrap();
        let word = next(&mut quick).await;
        assert_eq!(
            word,
            format!(
                "~a@{}>{version}",
                if version == 12 { 1 } else { version - 1 }
            )
        );
        assert!(slow.waiting() <= 9);
    }
    wire.unbounded_send(added("b", 2000)).unwrap();
    running.applied(2000).await;
    assert_eq!(
        take(&mut slow, 3).await,
        ["-gone@11", "~a@1>1999", "+b@2000"]
    );
    assert_eq!(slow.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn initial_objects_past_the_bound_still_end_with_one_marker() {
    let fake = Fake::new();
    fake.page("10", (0..50_u64).map(|n| good(&format!("{n:02}"), n + 1)));
    let wire = fake.watch();
    let running = run(&fake, listing().mailbox_bound(4));
    let mut seen = running.informer.subscribe();
    running.informer.wait_for_sync().await.unwrap();
    wire.unbounded_send(modified("07", 60)).unwrap();
    wire.unbounded_send(deleted("08", 61)).unwrap();
    wire.unbounded_send(added("new", 62)).unwrap();
    running.applied(62).await;
    let words = take(&mut seen, 51).await;
    // Initial objects are delivered at their newest version; deleted initial objects are not delivered.
    assert_eq!(words[7], "*07@60");
    assert!(!words.iter().any(|word| word.contains("08@")));
    assert_eq!(words[49..], ["synced", "+new@62"]);
}
