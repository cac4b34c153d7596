//! The stories of the guide: an operator does nothing, or too much, and the page tells why.

mod story;

use std::future::pending;
use std::time::Duration;

use http_body_util::Empty;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::auth::{Authorization, User};
use steersman_apiserver::faults::Verb;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_object::ObjectKey;
use steersman_testenv::eventually_within;
use tokio::time::sleep;

use self::story::{MINUTE, Story, assert_shows, config_map, controller, rows_of};

struct DoNothing;

impl Reconciler for DoNothing {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_shown_with_the_rule_that_helps() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let story = Story::begin(server, User::new("operator"), vec![controller(DoNothing)]);
    let (item, page) = story
        .attention("ConfigMap.v1 does not follow the server: forbidden")
        .await;
    let remedy = item["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("configmaps") && remedy.contains("watch"),
        "{remedy}"
    );
    assert_shows(&page, &["forbidden", "configmaps", "never synced"]);
    let (waiting, _) = story.attention("shops waits for ConfigMap.v1").await;
    assert_eq!(waiting["severity"], "bad");
    story.keep("missing-right", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_cause_is_shown_before_the_controllers_that_wait_for_it() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let named = |number: u32| {
        let controller = Controller::builder::<ConfigMap>().name(format!("c-{number:02}"));
        controller.build(DoNothing).unwrap()
    };
    let story = Story::begin(server, User::new("operator"), (0..40).map(named).collect());
    let (waiting, _) = story
        .attention("40 controllers wait for ConfigMap.v1")
        .await;
    let named = "c-00, c-01, c-02, c-03, c-04 and 35 more";
    assert!(
        waiting["detail"].as_str().unwrap().starts_with(named),
        "{waiting}"
    );
    let (_, _) = story.attention("forbidden").await;
    let overview = story.json("api/overview").await;
    assert_eq!(overview["attention"].as_array().unwrap().len(), 2);
    let first = overview["attention"][0]["title"].as_str().unwrap();
    assert!(first.contains("forbidden"), "{first}");
}

/// Fails with the name of its object.
struct FailByName;

impl Reconciler for FailByName {
    async fn reconcile(&self, _: &Context, request: Request) -> Result<Action, Error> {
        // A failure that takes no time would keep the paused clock from advancing.
        sleep(Duration::from_millis(1)).await;
        Err(Error::msg(format!("{} is closed", request.key.name())))
    }
}

#[tokio::test(start_paused = true)]
async fn each_failing_request_is_shown_with_its_own_error_and_the_others_are_counted() {
    let server = ApiServer::new();
    for number in 0..20 {
        server
            .create(config_map(&format!("m-{number:02}")))
            .unwrap();
    }
    let story = Story::begin(server, User::new("operator"), vec![controller(FailByName)]);
    let (item, _) = story
        .attention("more requests of shops have failed and wait for their retry")
        .await;
    assert_eq!(item["link"], "controller?controller=shops");
    let overview = story.json("api/overview").await;
    let items = overview["attention"].as_array().unwrap().iter();
    let failing = items.filter(|item| item["title"].as_str().unwrap().contains("times in a row"));
    let mut count = 0;
    for item in failing {
        let title = item["title"].as_str().unwrap();
        let name = title
            .split(' ')
            .next()
            .unwrap()
            .trim_start_matches("default/");
        let detail = item["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("{name} is closed")), "{item}");
        count += 1;
    }
    assert!((1..=3).contains(&count), "{overview:#}");
    let missing = http::Request::get("/debug/live/controller?controller=nope");
    let missing = missing.body(Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(story.routes.answer(missing, MINUTE).await.status(), 404);
}

/// Writes a new number into each object.
struct Count;

impl Reconciler for Count {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let count = |map: &mut ConfigMap| {
            let data = map.data.get_or_insert_default();
            data.insert("count".to_owned(), ctx.reconcile_id().to_string());
        };
        let map = ctx.client().get::<ConfigMap>(&request.key).await?;
        ctx.client().modify(&*map, count).await?;
        // A loop that takes no time would keep the paused clock from advancing.
        sleep(Duration::from_millis(10)).await;
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_writes_is_shown_with_the_fields_that_change() {
    let story = Story::of(controller(Count));
    let (item, page) = story
        .attention("shops triggers itself by writing ConfigMap.v1 default/")
        .await;
    assert!(item["detail"].as_str().unwrap().contains("data"), "{item}");
    assert_shows(
        &page,
        &[
            "patch ConfigMap.v1 default/", "was updated", "requests default/", "reconcile",
        ],
    );
    story.keep("hot-loop", item["link"].as_str().unwrap()).await;
}

struct Hang;

impl Reconciler for Hang {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_hangs_is_shown_with_its_age() {
    let story = Story::of(controller(Hang));
    let (item, page) = story.attention("a reconcile of shops has run for").await;
    assert_eq!(
        item["detail"],
        "default/a occupies a worker, in the reconciler's own code"
    );
    assert_shows(&page, &["The request runs for", "own code"]);
    let view = story.json("api/controller?controller=shops").await;
    assert_eq!(view["running"][0]["request"], "default/a");
    assert_eq!(view["ready"][0]["request"], "default/b");
    assert_eq!(view["row"]["ready"], 1);
}

struct ReadUntilAnswered;

impl Reconciler for ReadUntilAnswered {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let live = ctx.client().live();
        while live.get::<ConfigMap>(&request.key).await.is_err() {}
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_waits_for_the_server_is_shown_with_the_object_that_it_reads() {
    let story = Story::of(controller(ReadUntilAnswered));
    let faults = story.server.faults();
    let _late = faults.delay(Verb::Get, "configmaps", 10 * MINUTE);
    let (item, page) = story.attention("a reconcile of shops has run for").await;
    let read = "in: wait for a read from the server: ConfigMap.v1 default/a";
    assert!(item["detail"].as_str().unwrap().contains(read), "{item}");
    assert_shows(
        &page,
        &[
            "of it in wait for a read from the server",
            "in progress for",
        ],
    );
    story.keep("hanging", "").await;
    let view = story.json("api/controller?controller=shops").await;
    let step = &view["running"][0]["inProgress"][0];
    assert!(step["seconds"].as_f64().unwrap() < 66.0, "{step}");
    let begins = rows_of(
        &story
            .json("api/object?controller=shops&key=default/a")
            .await,
    );
    assert!(
        begins
            .iter()
            .any(|row| row["text"] == "the reconcile that runs begins")
    );
    let waits = begins.iter().filter(|row| row["lane"] == "wait").count();
    assert!(waits >= 1, "{begins:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dead_is_shown_with_the_age_of_its_last_event() {
    let story = Story::of(controller(DoNothing));
    eventually_within(MINUTE, "the cache is in sync", async || {
        let caches = story.json("api/caches").await;
        let is_synced = caches["caches"]["items"][0]["state"] == "synced";
        is_synced.then_some(()).ok_or_else(|| caches.to_string())
    })
    .await
    .unwrap();
    assert_eq!(story.server.faults().silence_watches_of("configmaps"), 1);
    let _refused = story.server.faults().silence_new_watches("configmaps");
    let (item, page) = story
        .attention("ConfigMap.v1 does not follow the server: silent")
        .await;
    assert!(item["detail"].as_str().unwrap().contains("stale"), "{item}");
    assert_shows(&page, &["silent", "ago"]);
    story.keep("dead-watch", "caches").await;
    let caches = story.json("api/caches").await;
    let row = &caches["caches"]["items"][0];
    assert!(row["lastEventAgo"].as_f64().unwrap() > 60.0, "{row}");
    assert_eq!(row["lastListCause"], "the start");
    assert_eq!(row["objects"], 2);
}

struct Fail;

impl Reconciler for Fail {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        if request.key.name() == "b" {
            return Ok(Action::done());
        }
        ctx.client().live().get::<ConfigMap>(&request.key).await?;
        Err(Error::msg("the shop is closed"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_retried_for_an_hour_is_shown_with_its_error_and_its_next_try() {
    let story = Story::of(controller(Fail));
    let faults = story.server.faults();
    let _slow = faults.delay(Verb::Get, "configmaps", Duration::from_millis(20));
    sleep(60 * MINUTE).await;
    let (item, page) = story.attention("default/a has failed").await;
    assert!(
        item["detail"]
            .as_str()
            .unwrap()
            .contains("the next try is in"),
        "{item}"
    );
    assert_shows(
        &page,
        &[
            "failures in a row",
            "error: the shop is closed",
            "wait for a read from the server",
            "because of retry",
        ],
    );
    let view = story.json("api/controller?controller=shops").await;
    let error = &view["errors"][0];
    assert_eq!(error["message"], "the shop is closed");
    assert_eq!(error["requests"], json!(["default/a"]));
    assert!(error["count"].as_u64().unwrap() > 10, "{error}");
    assert_eq!(view["failing"][0]["request"], "default/a");
    story.keep("retried", item["link"].as_str().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn the_path_of_an_object_has_its_events_and_the_writers_of_its_fields() {
    let story = Story::of(controller(DoNothing));
    let path = "api/object?controller=shops&key=default%2Fc";
    let client = story.client.field_manager("ann");
    let made = ConfigMap {
        metadata: ObjectKey::namespaced("default", "c").to_meta(),
        data: Some([("open".to_owned(), "yes".to_owned())].into()),
        ..ConfigMap::default()
    };
    eventually_within(MINUTE, "the controller works", async || {
        let view = story.json("api/controller?controller=shops").await;
        (view["row"]["finished"] == 2)
            .then_some(())
            .ok_or_else(|| view["row"].to_string())
    })
    .await
    .unwrap();
    client.create(&made).await.unwrap();
    let view = eventually_within(MINUTE, "the event is on record", async || {
        let view = story.json(path).await;
        let timeline = view["timeline"].as_array().unwrap();
        let is_reconciled = timeline.iter().any(|row| row["lane"] == "reconcile");
        is_reconciled
            .then(|| view.clone())
            .ok_or_else(|| format!("{timeline:#?}"))
    });
    let view = view.await.unwrap();
    eventually_within(MINUTE, "the cache has seen the write", async || {
        let server = story.json("api/server").await;
        (server["unseenWrites"] == 0)
            .then_some(())
            .ok_or_else(|| server.to_string())
    })
    .await
    .unwrap();
    let timeline = view["timeline"].as_array().unwrap();
    let texts: Vec<&Value> = timeline.iter().map(|row| &row["text"]).collect();
    assert_eq!(
        texts,
        [
            "reconcile 3 took 0 µs",
            "ConfigMap.v1 default/c was created"
        ]
    );
    let detail = "success; because of ConfigMap.v1 default/c was created";
    assert_eq!(timeline[0]["detail"], detail);
    assert!(
        timeline[1]["detail"]
            .as_str()
            .unwrap()
            .ends_with("requests default/c"),
        "{view:#}"
    );
    assert_eq!(view["request"], Value::Null);
    assert_eq!(view["kind"], "ConfigMap.v1");
    let fields = view["writers"][0]["fields"].as_array();
    let fields = fields.unwrap_or_else(|| panic!("{view:#}"));
    assert!(fields.contains(&json!("data.open")), "{view:#}");
    assert_eq!(view["writers"][0]["manager"], "ann");
    let missing = story
        .json("api/object?controller=shops&key=default/none")
        .await;
    assert_eq!(
        missing["problem"],
        "the object does not exist on the server"
    );
}

#[tokio::test(start_paused = true)]
async fn many_controllers_and_requests_are_shown_in_pages() {
    let server = ApiServer::new();
    for number in 0..300 {
        server
            .create(config_map(&format!("c-{number:03}")))
            .unwrap();
    }
    let story = Story::begin(server, User::new("operator"), vec![controller(Hang)]);
    eventually_within(MINUTE, "all requests are in the queue", async || {
        let view = story.json("api/controller?controller=shops").await;
        (view["row"]["ready"] == 299)
            .then_some(())
            .ok_or_else(|| view["row"].to_string())
    })
    .await
    .unwrap();
    let view = story.json("api/controller?controller=shops").await;
    assert_eq!(view["ready"].as_array().unwrap().len(), 20);
    let page = story.json("api/overview?offset=1&limit=1").await;
    assert_eq!(page["controllers"]["total"], 1);
    assert_eq!(page["controllers"]["items"], json!([]));
    let other = story.json("api/overview?filter=nothing").await;
    assert_eq!(other["controllers"]["total"], 0);
}

#[tokio::test(start_paused = true)]
async fn every_view_is_a_page_and_unknown_names_are_answered_with_the_known_ones() {
    let story = Story::of(controller(DoNothing));
    let index = story.json("api").await;
    for view in index["views"].as_array().unwrap() {
        let path = view["path"].as_str().unwrap();
        let name = path.strip_prefix("/debug/api/").unwrap();
        let query = "?controller=shops&key=default/a";
        let page = story
            .get(&format!("{}{query}", name.replace("overview", "")))
            .await;
        assert_shows(
            &page,
            &["<!DOCTYPE html>", &format!("data-view=\"{name}\"")],
        );
        story.json(&format!("api/{name}{query}")).await;
    }
    for (path, text) in [
        ("nothing", "the views are overview"),
        ("api/nothing", "the views are overview"),
        ("controller?controller=x", "there is no controller \"x\""),
        ("object?controller=shops", "not about an object"),
    ] {
        let request = http::Request::get(format!("/debug/{path}"));
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = story.routes.answer(request, MINUTE).await;
        assert_eq!(response.status(), 404);
        let body = String::from_utf8(response.into_body().to_vec()).unwrap();
        assert!(body.contains(text), "{path}: {body}");
    }
}

#[test]
fn all_files_of_the_page_are_small() {
    assert!(super::STYLE.len() + super::SCRIPT.len() < 16_000);
}
