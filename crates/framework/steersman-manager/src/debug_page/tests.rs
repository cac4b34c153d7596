//! The stories of the guide: an operator does nothing, or too much, and the page tells why.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use http_body_util::Empty;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::auth::{Authorization, User};
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use steersman_client::Client;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_object::ObjectKey;
use steersman_serve::Routes;
use steersman_testenv::eventually_within;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::DebugPage;
use crate::Manager;

const MINUTE: Duration = Duration::from_mins(1);

/// A running manager with a page, in this process, on a paused clock.
struct Story {
    server: ApiServer,
    client: Client,
    routes: Routes,
}

impl Story {
    fn begin(server: ApiServer, user: User, controller: Controller) -> Self {
        let config = ClientConfig::in_process(server.service_as(user), "default");
        let builder = Manager::builder(config).cache(CacheOptions::new().seed(7));
        let manager = builder.with_journal().build().unwrap();
        manager.add_controller(controller).unwrap();
        let mut page = DebugPage::new(
            manager.monitor(),
            manager.diagnostics(),
            manager.metrics_registry(),
            manager.client(),
            "10.96.0.1".to_owned(),
        );
        "shops-operator".clone_into(&mut page.gatherer.replica);
        let mut routes = Routes::new();
        for route in page.routes(false, |route| route) {
            routes.add(route).unwrap();
        }
        tokio::spawn(manager.start(CancellationToken::new()));
        let client = manager.client().clone();
        Self {
            server,
            client,
            routes,
        }
    }

    fn of(controller: Controller) -> Self {
        let server = ApiServer::new();
        for name in ["a", "b"] {
            server.create(config_map(name)).unwrap();
        }
        Self::begin(server, User::new("operator"), controller)
    }

    async fn get(&self, path: &str) -> String {
        let request = http::Request::get(format!("/debug/{path}"));
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = self.routes.answer(request, MINUTE).await;
        assert_eq!(response.status(), 200, "{path}: {response:?}");
        String::from_utf8(response.into_body().to_vec()).unwrap()
    }

    /// Writes a page for the pictures of the guide, if `STEERSMAN_PAGES` names a folder.
    async fn keep(&self, name: &str, path: &str) {
        let Some(folder) = std::env::var_os("STEERSMAN_PAGES") else {
            return;
        };
        let page = self.get(path).await;
        let style = self.get("page.css").await;
        let (head, rest) = page.split_once("</head>").unwrap();
        let page = format!("{head}<style>{style}</style></head>{rest}");
        let file = Path::new(&folder).join(name).with_extension("html");
        std::fs::write(file, page).unwrap();
    }

    async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).await).unwrap()
    }

    /// Waits for an item that needs attention. Returns it with the page that it links to.
    async fn attention(&self, title: &str) -> (Value, String) {
        let item = eventually_within(60 * MINUTE, title, async || {
            let overview = self.json("api/overview").await;
            let items = overview["attention"].as_array().unwrap();
            let has_title = |item: &&Value| item["title"].as_str().unwrap().contains(title);
            let found = items.iter().find(has_title).cloned();
            found.ok_or_else(|| format!("{items:#?}"))
        });
        let item = item.await.unwrap();
        let start = self.get("").await;
        let link = item["link"].as_str().unwrap();
        let encoded = link.replace('&', "&amp;");
        assert!(start.contains(&format!("href=\"{encoded}\"")), "{start}");
        let page = self.get(link).await;
        (item, page)
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn controller(reconciler: impl Reconciler) -> Controller {
    Controller::builder::<ConfigMap>()
        .name("shops")
        .build(reconciler)
        .unwrap()
}

fn assert_shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text:?} is missing in\n{page}");
    }
}

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
    let story = Story::begin(server, User::new("operator"), controller(DoNothing));
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
    let ended = story
        .json("api/object?controller=shops&key=default/a")
        .await;
    let rows = ended["timeline"].as_array().unwrap();
    assert_eq!(
        rows.iter().filter(|row| row["lane"] == "wait").count(),
        2,
        "{rows:#?}"
    );
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
    let story = Story::begin(server, User::new("operator"), controller(Hang));
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
