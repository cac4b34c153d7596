//! First lists, pages and relists, and their events.

use super::fake::*;

#[tokio::test(start_paused = true)]
async fn a_list_is_followed_by_a_watch_from_its_version() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "*b@2", "synced"]);
    for event in [added("c", 11), modified("a", 12), deleted("b", 13)] {
        wire.unbounded_send(event).unwrap();
    }
    assert_eq!(take(&mut seen, 3).await, ["+c@11", "~a@1>12", "-b@13"]);
    assert_eq!(running.stored(), ["ns/a@12", "ns/c@11"]);
    let (list, watch) = (fake.request(1).await, fake.request(2).await);
    assert_eq!(
        (list.from(), list.list().paging.page_size),
        ("0", Some(500))
    );
    assert_eq!(watch.after(), "10");
    assert!(watch.watch().bookmarks && watch.watch().timeout.is_some());
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_requested_relist_is_awaited_although_the_watch_works_and_a_list_fails() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    fake.request(2).await;
    fake.list_refused(503, "ServiceUnavailable");
    fake.page("20", [good("a", 1), good("b", 15)]);
    let _next = fake.watch();
    running.informer.untyped().relist().await;
    assert_eq!(running.stored(), ["ns/a@1", "ns/b@15"]);
    // The list is not older than the versions seen before.
    assert_eq!(fake.request(4).await.from(), "10");
    assert_eq!(fake.request(5).await.after(), "20");
    // One list answers all requests that were made before it began.
    fake.page("30", [good("a", 30)]);
    let _last = fake.watch();
    let untyped = running.informer.untyped().clone();
    tokio::join!(untyped.relist(), untyped.relist());
    assert_eq!(running.stored(), ["ns/a@30"]);
    assert_eq!(fake.request(7).await.after(), "30");
    // A stopped informer does not list.
    drop(running);
    untyped.relist().await;
}

// STORE-2
#[tokio::test(start_paused = true)]
async fn store_2_readers_share_an_object_that_never_changes() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["*a@1", "synced"]);
    let store = running.informer.store();
    let one = store.get(&key("a")).unwrap();
    let two = store.list().remove(0);
    assert!(std::sync::Arc::ptr_eq(&one, &two));
    wire.unbounded_send(modified("a", 11)).unwrap();
    assert_eq!(next(&mut seen).await, "~a@1>11");
    assert_eq!(one.metadata.resource_version.as_deref(), Some("1"));
    assert!(!std::sync::Arc::ptr_eq(
        &one,
        &store.get(&key("a")).unwrap()
    ));
}

// STORE-3
#[tokio::test(start_paused = true)]
async fn store_3_a_relist_delivers_missed_deletes_to_each_subscriber_once() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2), good("c", 3)]);
    drop(fake.watch());
    fake.watch_refused(410, "Expired");
    fake.page("20", [good("a", 1), good("c", 15)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut one = running.informer.subscribe();
    let mut two = running.informer.subscribe();
    for seen in [&mut one, &mut two] {
        let expected = ["*a@1", "*b@2", "*c@3", "synced", "-b@2?", "~c@3>15"];
        assert_eq!(take(seen, 6).await, expected);
        // Unchanged objects cause no event.
        assert_eq!(seen.waiting(), 0);
    }
    assert_eq!(running.stored(), ["ns/a@1", "ns/c@15"]);
    // After an expired version, the relist asks for the newest state.
    assert_eq!(fake.request(4).await.from(), "");
    assert_eq!(fake.request(5).await.after(), "20");
}

#[tokio::test(start_paused = true)]
async fn a_relist_without_changes_sends_no_event_and_keeps_the_entries() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2)]);
    fake.watch_refused(410, "Gone");
    fake.page("20", [good("b", 2), good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let before = running.informer.store().get(&key("a")).unwrap();
    let mut seen = running.informer.subscribe();
    running.applied(20).await;
    let after = running.informer.store().get(&key("a")).unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &after));
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "*b@2", "synced"]);
    assert_eq!(seen.waiting(), 0);
}

// STORE-4
#[tokio::test(start_paused = true)]
async fn store_4_an_object_recreated_while_disconnected_is_a_delete_and_a_create() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    fake.watch_refused(410, "Expired");
    let reborn = raw(&map_of("a", 15, "another"));
    fake.page("20", [reborn]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    assert_eq!(
        take(&mut seen, 4).await,
        ["*a@1", "synced", "-a@1?", "+a@15"]
    );
}

#[tokio::test(start_paused = true)]
async fn all_pages_come_before_synced() {
    let fake = Fake::new();
    fake.page_then("t1", "10", [good("a", 1)]);
    fake.page_then("t2", "10", [good("b", 2)]);
    fake.page("10", [good("c", 3)]);
    let _wire = fake.watch();
    let running = run(&fake, listing().page_size(1));
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 4).await, ["*a@1", "*b@2", "*c@3", "synced"]);
    let second = fake.request(2).await;
    assert_eq!(second.list().paging.continue_token.as_deref(), Some("t1"));
    assert_eq!(fake.request(4).await.after(), "10");
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_restarts_the_list_in_one_page() {
    let fake = Fake::new();
    fake.page_then("t1", "10", [good("gone", 1), good("a", 2)]);
    fake.list_refused(410, "Expired");
    fake.page("20", [good("a", 2), good("b", 15)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["ns/a@2", "ns/b@15"]);
    let again = fake.request(3).await;
    assert_eq!(again.from(), "");
    assert_eq!(again.list().paging.continue_token, None);
    assert_eq!(again.list().paging.page_size, None);
}

#[tokio::test(start_paused = true)]
async fn only_the_failed_page_of_a_list_is_repeated() {
    let fake = Fake::new();
    fake.page_then("t1", "10", [good("a", 1)]);
    fake.list_refused(429, "TooManyRequests");
    fake.page("10", [good("b", 2)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["ns/a@1", "ns/b@2"]);
    let again = fake.request(3).await;
    assert_eq!(again.list().paging.continue_token.as_deref(), Some("t1"));
}

// REFL-6
#[tokio::test(start_paused = true)]
async fn refl_6_a_list_that_ends_early_is_discarded() {
    for error in [Some(broken()), None] {
        let fake = Fake::new();
        fake.page("10", [good("a", 1), good("b", 2), good("c", 3)]);
        drop(fake.watch());
        fake.watch_refused(410, "Expired");
        fake.page_cut([good("a", 15), good("gone", 16)], error);
        fake.page("20", [good("a", 17), good("c", 3)]);
        let _wire = fake.watch();
        let running = run(&fake, listing());
        let mut seen = running.informer.subscribe();
        // The objects of the incomplete page are discarded, and stored objects that it lacks are kept.
        let expected = ["*a@1", "*b@2", "*c@3", "synced", "-b@2?", "~a@1>17"];
        assert_eq!(take(&mut seen, 6).await, expected);
        fake.request(6).await;
        assert_eq!(seen.waiting(), 0);
        assert_eq!(running.stored(), ["ns/a@17", "ns/c@3"]);
        let (half, again) = (fake.request(4).await, fake.request(5).await);
        assert!(again.at > half.at);
        assert_eq!(again.from(), half.from());
    }
}

// REFL-6
#[tokio::test(start_paused = true)]
async fn refl_6_a_page_that_ends_early_is_discarded_and_repeated() {
    let fake = Fake::new();
    fake.page_then("t1", "10", [good("a", 1)]);
    fake.page_cut([good("b", 2), good("gone", 3)], Some(broken()));
    fake.page("10", [good("b", 2), good("c", 4)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 4).await, ["*a@1", "*b@2", "*c@4", "synced"]);
    assert_eq!(running.stored(), ["ns/a@1", "ns/b@2", "ns/c@4"]);
    let again = fake.request(3).await;
    assert_eq!(again.list().paging.continue_token.as_deref(), Some("t1"));
}

#[tokio::test(start_paused = true)]
async fn a_second_run_ends_at_once_and_a_stopped_informer_ends_its_subscriptions() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let mut seen = running.informer.subscribe();
    let again = running.informer.run(fake.clone(), Default::default());
    again.await;
    assert!(running.informer.state().is_synced());
    running.task.abort();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "synced", "end"]);
    assert_eq!(
        running.informer.state(),
        steersman_informer::InformerState::Stopped
    );
    assert_eq!(
        take(&mut running.informer.subscribe(), 3).await,
        ["*a@1", "synced", "end"]
    );
    assert!(running.informer.store().get(&key("a")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_resync_repeats_the_stored_objects_without_a_request() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2)]);
    let _wire = fake.watch();
    let minute = std::time::Duration::from_secs(60);
    let running = run(&fake, listing().resync(minute));
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "*b@2", "synced"]);
    assert_eq!(take(&mut seen, 4).await, ["=a@1", "=b@2", "=a@1", "=b@2"]);
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_fails_when_the_informer_stops() {
    let fake = Fake::new();
    let running = run(&fake, listing());
    fake.request(1).await;
    running.task.abort();
    let error = running.informer.wait_for_sync().await.unwrap_err();
    assert!(error.is_stopped(), "{error}");
}
