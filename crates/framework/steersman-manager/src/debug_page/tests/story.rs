//! A running manager with a debug page, and helpers of its tests.

use std::path::Path;
use std::time::Duration;

use http_body_util::Empty;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::auth::User;
use steersman_cache::CacheOptions;
use steersman_client::Client;
use steersman_controller::{Controller, Reconciler};
use steersman_serve::Routes;
use steersman_testenv::eventually_within;
use tokio_util::sync::CancellationToken;

use super::super::DebugPage;
use crate::Manager;

pub(super) const MINUTE: Duration = Duration::from_mins(1);

/// A running manager with a page, in this process, on a paused clock.
pub(super) struct Story {
    pub(super) server: ApiServer,
    pub(super) client: Client,
    pub(super) routes: Routes,
}

impl Story {
    pub(super) fn begin(server: ApiServer, user: User, controllers: Vec<Controller>) -> Self {
        let config = ClientConfig::in_process(server.service_as(user), "default");
        let builder = Manager::builder(config).cache(CacheOptions::new().seed(7));
        let manager = builder.with_journal().build().unwrap();
        for controller in controllers {
            manager.add_controller(controller).unwrap();
        }
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

    pub(super) fn of(controller: Controller) -> Self {
        let server = ApiServer::new();
        for name in ["a", "b"] {
            server.create(config_map(name)).unwrap();
        }
        Self::begin(server, User::new("operator"), vec![controller])
    }

    pub(super) async fn get(&self, path: &str) -> String {
        let request = http::Request::get(format!("/debug/{path}"));
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = self.routes.answer(request, MINUTE).await;
        assert_eq!(response.status(), 200, "{path}: {response:?}");
        String::from_utf8(response.into_body().to_vec()).unwrap()
    }

    /// Writes a page for the pictures of the guide, if `STEERSMAN_PAGES` names a folder.
    pub(super) async fn keep(&self, name: &str, path: &str) {
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

    pub(super) async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).await).unwrap()
    }

    /// Waits for an item that needs attention. Returns it with the page that it links to.
    pub(super) async fn attention(&self, title: &str) -> (Value, String) {
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

pub(super) fn rows_of(object: &Value) -> Vec<Value> {
    object["timeline"].as_array().unwrap().clone()
}

pub(super) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

pub(super) fn controller(reconciler: impl Reconciler) -> Controller {
    Controller::builder::<ConfigMap>()
        .name("shops")
        .build(reconciler)
        .unwrap()
}

pub(super) fn assert_shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text:?} is missing in\n{page}");
    }
}
