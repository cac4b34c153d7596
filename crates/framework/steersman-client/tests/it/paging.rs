//! Live lists, page by page.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::Paging;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_object::ListOptions;

use crate::world::{World, config, key};

async fn world(many: usize) -> World {
    let world = World::new();
    for n in 0..many {
        world
            .client
            .create(&config(&format!("c{n}")))
            .await
            .unwrap();
    }
    world
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_of_one_version_despite_changes() {
    let world = world(7).await;
    let three = Paging::new().page_size(3);
    let mut pages = world
        .client
        .live()
        .pages::<ConfigMap>(&ListOptions::new().namespace("default"), &three);
    assert_eq!(
        world.count(&[Verb::List]),
        0,
        "nothing is asked before a page is"
    );
    let first = pages.next_page().await.unwrap().unwrap();
    assert_eq!((first.items.len(), first.remaining), (3, Some(4)));
    world
        .client
        .delete_key::<ConfigMap>(&key("c5"))
        .await
        .unwrap();
    world.client.create(&config("c9")).await.unwrap();
    let second = pages.next_page().await.unwrap().unwrap();
    let third = pages.next_page().await.unwrap().unwrap();
    assert!(pages.next_page().await.unwrap().is_none());
    assert!(second.version == first.version && third.version == first.version);
    assert!(third.consistent);
    let names = [first.items, second.items, third.items].concat();
    let names: Vec<_> = names
        .iter()
        .filter_map(|c| c.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
    let limits = world.server.requests().matching(|r| r.does(Verb::List));
    assert!(limits.iter().all(|r| r.parameter("limit") == Some("3")));
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_an_error_or_continues_at_the_newest() {
    let world = world(5).await;
    let two = Paging::new().page_size(2);
    let mut pages = world
        .client
        .live()
        .pages::<ConfigMap>(&ListOptions::new(), &two);
    let mut goes_on = world
        .client
        .live()
        .pages::<ConfigMap>(&ListOptions::new(), &two)
        .inconsistent(true);
    pages.next_page().await.unwrap().unwrap();
    goes_on.next_page().await.unwrap().unwrap();
    world.client.create(&config("c9")).await.unwrap();
    world.server.compact();
    let error = pages.next_page().await.unwrap_err();
    assert!(error.api().unwrap().is_expired(), "{error}");
    assert!(pages.next_page().await.unwrap().is_none());

    let second = goes_on.next_page().await.unwrap().unwrap();
    assert!(!second.consistent);
    assert_eq!(second.items.len(), 2);
    let third = goes_on.next_page().await.unwrap().unwrap();
    let names: Vec<_> = third
        .items
        .iter()
        .filter_map(|c| c.metadata.name.as_deref())
        .collect();
    assert_eq!(
        names,
        ["c4", "c9"],
        "what is new is there, what went by is not there twice"
    );
    assert!(goes_on.next_page().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_objects_ends_with_the_first_error() {
    let world = world(5).await;
    let two = Paging::new().page_size(2);
    let pages = || {
        world
            .client
            .live()
            .pages::<ConfigMap>(&ListOptions::new(), &two)
    };
    let all: Vec<_> = pages().into_objects().collect().await;
    assert_eq!(all.iter().filter(|o| o.is_ok()).count(), 5);
    let broken = Answer::code(500);
    let fault = world.server.faults().answer_matching(
        |r| r.does(Verb::List) && r.parameter("continue").is_some(),
        broken,
    );
    let some: Vec<_> = pages().into_objects().collect().await;
    let good: Vec<bool> = some.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, true, false]);
    drop(fault);
    // After a broken connection, the next call requests the same page again.
    let mut again = pages();
    again.next_page().await.unwrap().unwrap();
    let busy = Answer::code(429).retry_after(1).times(1);
    world
        .server
        .faults()
        .answer(Verb::List, "configmaps", busy)
        .keep();
    assert_eq!(again.next_page().await.unwrap().unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_a_limit_is_one_page_of_that_size() {
    let world = world(5).await;
    let few = ListOptions::new().limit(2);
    let some = world.client.live().list::<ConfigMap>(&few).await.unwrap();
    assert_eq!(some.len(), 2);
    let lists = world.server.requests().matching(|r| r.does(Verb::List));
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].parameter("limit"), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn pages_end_at_the_limit_of_the_selection() {
    let world = world(5).await;
    let paging = Paging::new().page_size(2);
    for (limit, expected) in [
        (0, vec![]),
        (2, vec![2]),
        (3, vec![2, 1]),
        (9, vec![2, 2, 1]),
    ] {
        let list_options = ListOptions::new().limit(limit);
        let mut pages = world
            .client
            .live()
            .pages::<ConfigMap>(&list_options, &paging);
        let mut sizes = Vec::new();
        while let Some(page) = pages.next_page().await.unwrap() {
            sizes.push(page.items.len());
        }
        assert_eq!(sizes, expected, "limit {limit}");
    }
}
