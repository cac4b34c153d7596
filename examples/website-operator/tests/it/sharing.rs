//! One watch per kind serves all controllers.

use steersman::cache::CacheOptions;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::{Action, Context, Controller, Error, Manager, Reconciler, Request};

use crate::world::{World, played};

/// The watched kinds: by both controllers, twice by one of them, or once.
const KINDS: [&str; 4] = [
    "websites.web.example.com", "configmaps", "services", "deployments.apps",
];

/// A second controller of Deployments.
struct Onlooker;

impl Reconciler for Onlooker {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

fn onlooker(manager: &Manager) {
    let deployments = Controller::builder::<Deployment>().name("onlooker");
    let deployments = deployments.build(Onlooker).unwrap();
    manager.add_controller(deployments).unwrap();
}

/// CACHE-1 with WatchList: one request per kind.
#[tokio::test(start_paused = true)]
async fn two_controllers_cause_one_watch_list() {
    let world = World::with(played(), CacheOptions::new(), onlooker).await;
    world.serve_hello().await;
    let log = world.env.server().unwrap().requests();
    for kind in KINDS {
        assert_eq!(log.watch_lists(kind), 1, "{kind}");
        assert_eq!(
            log.watches(kind),
            0,
            "{kind}: watches other than streaming lists"
        );
    }
    // The cache never listed; only this test did.
    assert_eq!(log.lists("deployments.apps"), 0);
    world.stop().await;
}

/// CACHE-1 without WatchList: one list and one watch per kind.
#[tokio::test(start_paused = true)]
async fn without_watch_list_they_cause_one_list_and_one_watch() {
    let options = CacheOptions::new().watch_list(false);
    let world = World::with(played(), options, onlooker).await;
    world.serve_hello().await;
    let log = world.env.server().unwrap().requests();
    for kind in ["configmaps", "services", "deployments.apps"] {
        assert_eq!(log.watch_lists(kind), 0, "{kind}");
        assert_eq!((log.lists(kind), log.watches(kind)), (1, 1), "{kind}");
    }
    world.stop().await;
}
