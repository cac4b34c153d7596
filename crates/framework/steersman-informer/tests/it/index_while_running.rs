//! Indexes that are added before and during the run of an informer.

use super::fake::*;
use k8s_openapi::api::core::v1::ConfigMap;

fn first_letter(map: &ConfigMap) -> Vec<String> {
    let name = map.metadata.name.iter();
    name.filter_map(|n| n.get(..1)).map(Into::into).collect()
}

// STORE-1
#[tokio::test(start_paused = true)]
async fn store_1_an_index_added_late_contains_all_objects_and_follows_changes() {
    let fake = Fake::new();
    fake.page(
        "10",
        [good("apple", 1), good("avocado", 2), good("banana", 3)],
    );
    let wire = fake.watch();
    let running = run(&fake, listing());
    let (informer, store) = (&running.informer, running.informer.store());
    let names = |value: &str| -> Vec<String> {
        let found = store.by_index("letter", value).unwrap();
        found
            .iter()
            .filter_map(|m| m.metadata.name.clone())
            .collect()
    };
    let error = store.by_index("letter", "a").unwrap_err();
    assert!(error.is_no_such_index(), "{error}");
    informer.wait_for_sync().await.unwrap();
    informer.add_index("letter", first_letter).unwrap();
    assert_eq!(names("a"), ["apple", "avocado"]);
    assert!(
        informer
            .add_index("letter", first_letter)
            .unwrap_err()
            .is_index_exists()
    );
    wire.unbounded_send(added("almond", 11)).unwrap();
    wire.unbounded_send(deleted("apple", 12)).unwrap();
    running.applied(12).await;
    assert_eq!(names("a"), ["almond", "avocado"]);
    assert_eq!(names("x"), Vec::<String>::new());
    assert_eq!(
        store.by_index_in("letter", "a", Some("ns")).unwrap().len(),
        2
    );
    assert_eq!(
        store
            .by_index_in("letter", "a", Some("other"))
            .unwrap()
            .len(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_index_function_makes_only_that_object_malformed() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1), good("b", 2)]);
    let _wire = fake.watch();
    let informer =
        steersman_informer::Informer::new(steersman_object::Kind::of::<ConfigMap>(), listing());
    let index = |map: &ConfigMap| {
        assert_ne!(map.metadata.name.as_deref(), Some("a"));
        vec!["fine".to_owned()]
    };
    informer.add_index("picky", index).unwrap();
    let running = run_informer(&fake, informer);
    running.informer.wait_for_sync().await.unwrap();
    let store = running.informer.store();
    assert_eq!(running.stored(), ["ns/b@2"]);
    assert_eq!(store.by_index("picky", "fine").unwrap().len(), 1);
    let aside = store.malformed_at(&key("a")).unwrap();
    assert_eq!(aside.error, "the index function \"picky\" panicked");
    // The view of another type has no such index.
    let others = running
        .informer
        .view::<kube_core::PartialObjectMeta<ConfigMap>>()
        .store();
    assert!(others.len() == 2 && others.malformed().is_empty());
    // On a running informer an object for which the index fails stays visible, and is malformed.
    let index = |map: &ConfigMap| {
        assert_ne!(map.metadata.name.as_deref(), Some("b"));
        Vec::new()
    };
    running.informer.add_index("choosy", index).unwrap();
    assert_eq!(running.stored(), ["ns/b@2"]);
    assert!(store.malformed_at(&key("b")).is_some());
}
