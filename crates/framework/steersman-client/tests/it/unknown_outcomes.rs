//! RYOW-3: if the outcome of a write is unknown, its key asks the server before it reads the cache again.

use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{DeleteOptions, Patch};
use steersman_apiserver::faults::{Answer, Effect, FaultSpec, RequestRecord, Verb};
use steersman_cache::{ByObject, CacheOptions, ListOptions};
use steersman_client::{Client, ClientOptions, ReadConsistency};
use steersman_object::Object as _;
use tokio::time::{Instant, sleep, timeout};

use crate::own_writes::{all, deaf, hears_after, lagging, mine, names, other, reads};
use crate::world::{World, config, key, set};

/// An object with a name that the server generates.
fn made() -> ConfigMap {
    let mut object = config("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("made-".to_owned());
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    object
}

/// Loses the answer to the next write of this verb.
fn lose(world: &World, verb: Verb) {
    let lost = Answer::code(504).times(1).after_commit();
    world
        .server
        .faults()
        .answer(verb, "configmaps", lost)
        .keep();
}

/// The lists of config maps since the records were cleared. The cache has synced by then, so each list is a question.
fn questions(world: &World) -> Vec<RequestRecord> {
    let lists = world.server.requests();
    lists.matching(|request| request.does(Verb::List) && request.is_for("configmaps"))
}

fn selecting(labels: &str) -> ListOptions {
    all().labels(labels.parse().unwrap())
}

/// The config maps on the server.
async fn children(world: &World) -> Vec<ConfigMap> {
    let live = world.client.live();
    live.list(&selecting("app=web")).await.unwrap()
}

async fn found(client: &Client, options: &ListOptions) -> usize {
    client.list::<ConfigMap>(options).await.unwrap().len()
}

/// RYOW-3: the server is asked once about the object of the write, and the cache catches up.
#[tokio::test(start_paused = true)]
async fn after_an_unknown_outcome_the_next_read_asks_the_server() {
    let world = deaf().await;
    let client = mine(&world);
    let lost = || Answer::code(504).times(1).after_commit();
    let fault = world
        .server
        .faults()
        .answer(Verb::Create, "configmaps", lost());
    let error = client.create(&config("a")).await.unwrap_err();
    assert!(error.is_outcome_unknown());
    drop(fault);
    assert!(names(&other(&world)).await.is_empty());

    // If the read that asks is dropped, or its answer is lost, the next read asks.
    let slow = Duration::from_secs(5);
    let delay = world.server.faults().delay(Verb::List, "configmaps", slow);
    let name = key("a");
    let read = client.get::<ConfigMap>(&name);
    assert!(timeout(Duration::from_secs(1), read).await.is_err());
    drop(delay);
    let (before, start) = (reads(&world), Instant::now());
    let refused =
        world
            .server
            .faults()
            .answer(Verb::List, "configmaps", Answer::code(500).times(1));
    client.get::<ConfigMap>(&key("a")).await.unwrap_err();
    drop(refused);
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(
        (reads(&world), start.elapsed()),
        (before + 2, Duration::ZERO)
    );

    hears_after(&world, Duration::from_secs(2));
    assert_eq!(
        names(&client).await,
        ["a"],
        "never back behind what it was shown"
    );
    assert_eq!(
        (reads(&world), start.elapsed()),
        (before + 2, Duration::from_secs(2))
    );
}

/// RYOW-3: for a generated name, the whole kind is listed, even for a list by an index.
#[tokio::test(start_paused = true)]
async fn a_lost_create_with_a_generated_name_is_found_by_a_list() {
    let world = World::new();
    let cache = world.client.cache();
    cache
        .index_field::<ConfigMap>("k", |c| c.data.as_ref()?.get("k").cloned())
        .unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let client = mine(&world);
    let mut object = config("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("made-".to_owned());
    set(&mut object, "k", "v");
    let lost = Answer::code(504).times(1).after_commit();
    let fault = world
        .server
        .faults()
        .answer(Verb::Create, "configmaps", lost);
    client.create(&object).await.unwrap_err();
    drop(fault);
    hears_after(&world, Duration::from_secs(2));
    let found = client
        .list::<ConfigMap>(&all().index("k", "v"))
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    let before = reads(&world);
    client
        .list::<ConfigMap>(&all().index("k", "v"))
        .await
        .unwrap();
    assert_eq!(reads(&world), before, "once");
}

/// RYOW-3: a question about a generated name is answered only by a list of the whole namespace, with its metadata.
/// Which list of the key comes first does not matter.
#[tokio::test(start_paused = true)]
async fn reads_that_could_not_show_a_generated_name_leave_the_question_open() {
    for narrow in [
        selecting("app=web"),
        selecting("app=other"),
        all().limit(1),
        ListOptions::new(),
    ] {
        let world = deaf().await;
        let client = mine(&world);
        lose(&world, Verb::Create);
        client.create(&made()).await.unwrap_err();
        let (before, start) = (reads(&world), Instant::now());
        // Neither read could show the generated name.
        let absent = client.get_opt::<ConfigMap>(&key("other")).await.unwrap();
        let elsewhere = ListOptions::new().namespace("kube-public");
        assert_eq!((absent, found(&client, &elsewhere).await), (None, 0));
        assert_eq!(reads(&world), before, "no request was sent");

        world.server.requests().clear();
        hears_after(&world, Duration::from_secs(2));
        client.list::<ConfigMap>(&narrow).await.unwrap();
        let asked = questions(&world);
        assert_eq!(asked.len(), 1, "{narrow:?}");
        assert!(asked[0].is_metadata_only());
        assert_eq!(asked[0].namespace.as_deref(), Some("default"));
        assert_eq!(asked[0].parameter("labelSelector"), None);
        assert_eq!(asked[0].parameter("fieldSelector"), None);
        assert_eq!(found(&client, &selecting("app=web")).await, 1);
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        assert_eq!(questions(&world).len(), 1, "once");
    }
}

/// RYOW-3: a reconciler that finds its child by a label makes no second child after a lost answer.
#[tokio::test(start_paused = true)]
async fn a_lost_create_makes_no_second_child() {
    let world = deaf().await;
    let client = mine(&world);
    lose(&world, Verb::Create);
    for run in 0..3 {
        // As a reconciler does: reads an object, lists the children, and makes the missing child.
        let _site = client.get_opt::<ConfigMap>(&key("site")).await.unwrap();
        found(&client, &all().namespace("kube-public")).await;
        if run == 1 {
            hears_after(&world, Duration::from_secs(1));
        }
        if found(&client, &selecting("app=web")).await == 0 {
            client.create(&made()).await.unwrap_err();
        }
    }
    assert_eq!(children(&world).await.len(), 1);
}

/// RYOW-3: a get of a name that may be the generated one asks as a list would.
#[tokio::test(start_paused = true)]
async fn a_get_of_a_possible_generated_name_asks_the_server() {
    let world = deaf().await;
    let client = mine(&world);
    lose(&world, Verb::Create);
    client.create(&made()).await.unwrap_err();
    let child = children(&world).await.remove(0).key();
    let (before, start) = (reads(&world), Instant::now());
    hears_after(&world, Duration::from_secs(2));
    client.get::<ConfigMap>(&child).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(reads(&world), before + 1);
    assert_eq!(found(&client, &selecting("app=web")).await, 1);
    assert_eq!(reads(&world), before + 1, "once");
}

/// RYOW-3: a change of labels is seen by lists that select by the labels before or after.
#[tokio::test(start_paused = true)]
async fn a_list_asks_about_the_name_without_its_own_selectors() {
    let world = World::new();
    let mut object = config("a");
    object.metadata.labels = Some([("app".to_owned(), "old".to_owned())].into());
    world.client.create(&object).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let client = mine(&world);
    lose(&world, Verb::Patch);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "new"}}}));
    let patched = client.patch::<ConfigMap>(&key("a"), &patch).await;
    assert!(patched.unwrap_err().is_outcome_unknown());

    world.server.requests().clear();
    let start = Instant::now();
    hears_after(&world, Duration::from_secs(2));
    assert_eq!(found(&client, &selecting("app=old").limit(1)).await, 0);
    assert_eq!(found(&client, &selecting("app=new")).await, 1);
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    let asked = questions(&world);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].is_metadata_only());
    assert_eq!(asked[0].parameter("fieldSelector"), Some("metadata.name=a"));
}

/// RYOW-3: an executed delete is not read back from the cache.
#[tokio::test(start_paused = true)]
async fn an_executed_delete_with_a_lost_answer_is_seen() {
    for get_first in [true, false] {
        let world = World::new();
        world.client.create(&config("a")).await.unwrap();
        drop(world.cached::<ConfigMap>().await);
        sleep(Duration::from_secs(1)).await;
        world.server.faults().silence_watches_of("configmaps");
        let client = mine(&world);
        lose(&world, Verb::Delete);
        client.delete_key::<ConfigMap>(&key("a")).await.unwrap_err();
        let start = Instant::now();
        if get_first {
            let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
            assert_eq!((gone, start.elapsed()), (None, Duration::ZERO));
        }
        hears_after(&world, Duration::from_secs(2));
        assert!(names(&client).await.is_empty());
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }
}

/// RYOW-3: a write that was not executed is recognized too, and nothing is awaited.
#[tokio::test(start_paused = true)]
async fn a_write_that_never_arrived_costs_one_request() {
    let world = deaf().await;
    let client = mine(&world);
    let lost = Answer::code(504).times(2);
    let fault = world
        .server
        .faults()
        .answer(Verb::Create, "configmaps", lost);
    client.create(&config("a")).await.unwrap_err();
    client.create(&made()).await.unwrap_err();
    drop(fault);
    let (before, start) = (reads(&world), Instant::now());
    assert!(names(&client).await.is_empty());
    assert_eq!(reads(&world), before + 2);
    let absent = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((absent, names(&client).await.len()), (None, 0));
    assert_eq!(
        (reads(&world), start.elapsed()),
        (before + 2, Duration::ZERO)
    );
}

/// RYOW-7: the object appears after the server listed it as absent, and before that absence is noted: by a write of the
/// same key, or by a late write.
#[tokio::test(start_paused = true)]
async fn an_object_that_appears_during_the_question_is_not_taken_for_deleted() {
    for own in [true, false] {
        let world = deaf().await;
        let client = mine(&world);
        let lost = Answer::code(504).times(1);
        let fault = world
            .server
            .faults()
            .answer(Verb::Create, "configmaps", lost);
        client.create(&config("a")).await.unwrap_err();
        drop(fault);
        // The answer is made at once and arrives after three seconds.
        let (bytes, millis) = (1 << 20, 3000);
        let slow = FaultSpec::new(Effect::Chunks { bytes, millis });
        let slow = slow.verb(Verb::List).resource("configmaps").times(1);
        let _slow = world.server.faults().add(slow).unwrap();
        let reader = client.clone();
        let question =
            tokio::spawn(async move { reader.get_opt::<ConfigMap>(&key("a")).await.unwrap() });
        sleep(Duration::from_secs(1)).await;
        let writer = if own { &client } else { &world.client };
        writer.create(&config("a")).await.unwrap();
        hears_after(&world, Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(question.await.unwrap(), None);
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        assert_eq!(names(&client).await, ["a"]);
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }
}

/// RYOW-7: the object existed all the time, and was outside the scope of the cache when the server was asked.
#[tokio::test(start_paused = true)]
async fn an_object_that_returns_into_the_scope_is_not_taken_for_deleted() {
    let scope = ByObject::new().labels("app=web");
    let cache = CacheOptions::new().by_object::<ConfigMap>(scope);
    let world = World::with(cache, ClientOptions::new());
    let client = mine(&world);
    let mut object = config("a");
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    world.client.create(&object).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let labelled = |label: &str| {
        let patch = json!({"metadata": {"labels": {"app": label}}});
        let server = &world.server;
        server
            .merge_patch("configmaps", "default", "a", &patch)
            .unwrap();
    };
    labelled("other");
    lose(&world, Verb::Patch);
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    let patched = client.patch::<ConfigMap>(&key("a"), &patch).await;
    assert!(patched.unwrap_err().is_outcome_unknown());
    let absent = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(absent, None);
    labelled("web");
    hears_after(&world, Duration::ZERO);
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// RYOW-4: reads never wait for a delete of a collection, so an unknown one is no question either.
#[tokio::test(start_paused = true)]
async fn a_lost_delete_of_a_collection_costs_no_request() {
    let world = deaf().await;
    let client = mine(&world);
    let fault = Answer::code(504).times(1).after_commit();
    let fault = world
        .server
        .faults()
        .answer(Verb::DeleteCollection, "configmaps", fault);
    let everything = ListOptions::new().namespace("default");
    let options = DeleteOptions::new();
    let deleted = client.delete_all::<ConfigMap>(&everything, &options);
    assert!(deleted.await.unwrap_err().is_outcome_unknown());
    drop(fault);
    let before = reads(&world);
    names(&client).await;
    assert_eq!(reads(&world), before);
}

/// RYOW-3: a final refusal of a question is the error of one read, and no later read fails for it.
#[tokio::test(start_paused = true)]
async fn a_final_refusal_of_a_question_fails_one_read() {
    let world = deaf().await;
    let client = mine(&world);
    for get_first in [true, false] {
        lose(&world, Verb::Create);
        client.create(&made()).await.unwrap_err();
        lose(&world, Verb::Create);
        client.create(&config("a")).await.unwrap_err();
        let refused = world
            .server
            .faults()
            .answer(Verb::List, "configmaps", Answer::code(403));
        let before = reads(&world);
        if get_first {
            let error = client.get::<ConfigMap>(&key("a")).await.unwrap_err();
            assert!(error.is_forbidden(), "{error}");
            // The outcome for the other object is still unknown.
            let error = client.list::<ConfigMap>(&all()).await.unwrap_err();
            assert!(error.is_forbidden(), "{error}");
        } else {
            for _each in 0..2 {
                let error = client.list::<ConfigMap>(&all()).await.unwrap_err();
                assert!(error.is_forbidden(), "{error}");
            }
        }
        assert!(names(&client).await.is_empty(), "as the cache has it");
        let cached = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!((cached, reads(&world)), (None, before + 2));
        drop(refused);
        world.server.delete("configmaps", "default", "a").unwrap();
    }
}

/// RYOW-3: a read for all keys asks the questions of all, and leaves unanswered ones to their writers.
#[tokio::test(start_paused = true)]
async fn under_process_consistency_reads_ask_about_all_unknown_writes() {
    let options = ClientOptions::new().read_consistency(ReadConsistency::Process);
    let world = lagging(CacheOptions::new(), options).await;
    let writer = mine(&world).read_consistency(ReadConsistency::OwnKey);
    lose(&world, Verb::Create);
    writer.create(&config("a")).await.unwrap_err();

    let deaf = world
        .server
        .faults()
        .answer(Verb::List, "configmaps", Answer::code(500).times(1));
    world.client.list::<ConfigMap>(&all()).await.unwrap_err();
    drop(deaf);
    let before = reads(&world);
    let mine = writer.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert!(
        mine.is_some() && reads(&world) == before + 1,
        "still its own"
    );

    lose(&world, Verb::Create);
    writer.create(&config("b")).await.unwrap_err();
    hears_after(&world, Duration::from_secs(2));
    assert_eq!(names(&world.client).await, ["a", "b"]);
    assert_eq!(reads(&world), before + 2);
}

/// CLIENT-7: a write fails if its runtime ends, because it is unknown whether the server executed it.
#[test]
fn a_write_fails_if_its_runtime_ends_before_the_answer() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let (world, _delay) = runtime.block_on(async {
        let world = World::new();
        let late = Duration::from_secs(20);
        let delay = world
            .server
            .faults()
            .delay(Verb::Create, "configmaps", late);
        (world, delay)
    });
    let object = config("a");
    let mut create = Box::pin(world.client.create(&object));
    let waited = async { timeout(Duration::from_secs(1), &mut create).await };
    assert!(runtime.block_on(waited).is_err());
    drop(runtime);
    let error = create.now_or_never().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the runtime ended before the answer came"),
        "{text}"
    );
}
