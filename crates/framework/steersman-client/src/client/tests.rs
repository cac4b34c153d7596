//! RYOW-11: a read takes no lock because of remembered writes (notes) of other objects or of other request keys.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::ObjectMeta;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use tokio_util::sync::CancellationToken;

use super::*;

fn config(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// RYOW-11: a request key that wrote nothing reads without the lock of the remembered writes.
#[tokio::test(start_paused = true)]
async fn reads_take_no_lock_for_unrelated_notes_and_one_for_related_ones() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let cache = Cache::new(CacheOptions::new().seed(7)).unwrap();
    let cancel = CancellationToken::new();
    let _running = cancel.clone().drop_guard();
    tokio::spawn(cache.run(client_config.clone(), cancel));
    let client = Client::new(cache.clone(), client_config);
    client.create(&config("there")).await.unwrap();
    cache.informer::<ConfigMap>().unwrap();
    cache.wait_for_sync().await.unwrap();
    client.get::<ConfigMap>(&key("there")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.faults().silence_watches_of("configmaps");

    let of = |number: usize| client.for_request(RequestId::new("sites", number));
    for number in 0..1000 {
        of(number)
            .create(&config(&format!("made-{number}")))
            .await
            .unwrap();
    }
    let own = &client.shared.sender().own;
    let may_owe = |client: &Client| {
        let sender = client.shared.sender();
        sender
            .reader()
            .is_some_and(|reader| own.may_owe(reader, None))
    };
    // The clients of request keys that wrote nothing, without those that share a counter of the filter with a key that
    // wrote.
    let others: Vec<Client> = (1000..1400)
        .map(of)
        .filter(|other| !may_owe(other))
        .collect();
    assert!(others.len() > 300, "{}", others.len());
    let (before, asked) = (
        own.locked(),
        server.requests().count(|r| r.does(Verb::List)),
    );
    for reader in others.iter().chain([&client]) {
        reader.get::<ConfigMap>(&key("there")).await.unwrap();
        let listed = reader.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
        assert!(
            listed
                .iter()
                .all(|object| !object.key().name().starts_with("made-"))
        );
        let by_kind = reader.of::<ConfigMap>(&Kind::of::<ConfigMap>());
        by_kind.get(&key("there")).await.unwrap();
    }
    assert_eq!(own.locked(), before);

    // A request key that wrote takes the lock at most once for each read of an object that it did not write.
    let reader = of(7);
    for _ in 0..10 {
        reader.get::<ConfigMap>(&key("there")).await.unwrap();
    }
    assert!(own.locked() <= before + 10, "{}", own.locked() - before);
    // With `Process` a read must see the writes of all request keys, so only the object's name can save the lock.
    let all = client.read_consistency(ReadConsistency::Process);
    let before = own.locked();
    let name = (0..100).map(|number| format!("absent-{number}"));
    let reader = all.shared.sender().reader().unwrap();
    let free = |name: &String| !own.may_owe(reader, Some(name));
    let name = name.into_iter().find(free).unwrap();
    let absent = all.get_opt::<ConfigMap>(&key(&name)).await.unwrap();
    assert_eq!((absent, own.locked()), (None, before));
    assert_eq!(server.requests().count(|r| r.does(Verb::List)), asked);
}
