//! The test of the page in a browser.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::play::Played;
use steersman_apiserver::{ApiServer, UiServing};

use super::serve;
use crate::support::{CONFIG_MAPS, ask, get, website_crd};

/// Checks the pages in a browser.
const IN_CHROMIUM: &str = include_str!("browser.py");

fn skip(why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}

/// Plays a small world: a Deployment with Pods, an object of a custom kind, requests that fail, and an open watch.
async fn world() -> (ApiServer, UiServing) {
    let server = ApiServer::builder().play(Played::everything()).build();
    let page = serve(&server);
    server.install_crd(website_crd()).unwrap();
    let apply = [
        ("content-type", "application/apply-patch+yaml"),
        ("user-agent", "website-operator/v0.1 (linux/amd64)"),
    ];
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/a/long/path/of/an/image:v1"}]},
            },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=operator";
    ask(&server, "PATCH", path, &apply, deployment.to_string())
        .await
        .expect(201);
    tokio::time::sleep(Duration::from_secs(60)).await;
    get(&server, &format!("{CONFIG_MAPS}/missing"))
        .await
        .expect(404);
    (server, page)
}

/// The browser is awaited without the runtime, so that the paused clock of the played world stands.
#[tokio::test(start_paused = true)]
async fn the_pages_are_readable_in_a_browser() {
    let Some(driver) = std::env::var_os("STEERSMAN_CHROMEDRIVER").filter(|path| !path.is_empty())
    else {
        skip("STEERSMAN_CHROMEDRIVER names no chromedriver; `.ci/run test` installs one");
        return;
    };
    let (_server, page) = world().await;
    let checked = Command::new("python3")
        .args(["-c", IN_CHROMIUM, &page.url()])
        .env("STEERSMAN_CHROMEDRIVER", driver)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}
