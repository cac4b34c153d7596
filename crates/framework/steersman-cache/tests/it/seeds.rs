//! Seeded simulations: random writes, faults, readers and subscribers, through a cache of several kinds over the
//! embedded server. At each rest, readers and subscribers agree with the server.
//!
//! `cargo xtask seeds` runs any number of seeds, or repeats one.

mod subscriber;
mod plan;
mod query;
mod scene;
mod scope;
mod subject;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::{Value, json};
use steersman_api::{ClientConfig, Encoding};
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions, Error, Settings};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::plan::{Act, KINDS, Of, Plan, TYPES, Which};
use self::query::Query;
use self::scene::Scene;
use self::subject::{WEBSITES, Website, install};

struct Sim {
    server: ApiServer,
    maps: Scene<ConfigMap>,
    websites: Scene<Website>,
    accounts: Scene<ServiceAccount>,
    roles: Scene<ClusterRole>,
    linger: Option<Duration>,
    round: u64,
    cancel: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

/// Runs the same code on the scene of any kind.
macro_rules! scene {
    ($sim:expr, $of:expr, |$scene:ident| $do:expr) => {
        match $of {
            Of::Maps => {
                let $scene = &mut $sim.maps;
                $do
            }
            Of::Websites => {
                let $scene = &mut $sim.websites;
                $do
            }
            Of::Accounts => {
                let $scene = &mut $sim.accounts;
                $do
            }
            Of::Roles => {
                let $scene = &mut $sim.roles;
                $do
            }
        }
    };
}

impl Sim {
    fn new(plan: &Plan) -> Self {
        let server = ApiServer::builder()
            .seed(plan.seed)
            .watch_list(plan.server_streams)
            .retained_revisions(plan.retained)
            .bookmark_every(Duration::from_secs(plan.bookmarks))
            .play_controllers(false)
            .build();
        for name in ["a", "b", "c"] {
            let metadata = json!({"name": name});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            server.create(namespace).unwrap();
        }
        install(&server, true);
        let linger = plan.linger.map(Duration::from_secs);
        let cache = Cache::new(options(plan, linger)).unwrap();
        let cancel = CancellationToken::new();
        let client_config = ClientConfig::in_process(server.service(), "default")
            .encoding(Encoding::ALL[plan.seed as usize % 2]);
        let running = tokio::spawn(cache.run(client_config, cancel.clone()));
        let [maps, websites, accounts, roles] = &plan.declared;
        let default = &plan.by_default;
        let scope = |own: &'_ Option<_>| (own.as_ref().unwrap_or(default).clone(), own.is_some());
        let (maps, websites, accounts, roles) =
            (scope(maps), scope(websites), scope(accounts), scope(roles));
        Self {
            maps: Scene::new(&cache, &server, &maps.0, maps.1),
            websites: Scene::new(&cache, &server, &websites.0, websites.1),
            accounts: Scene::new(&cache, &server, &accounts.0, accounts.1),
            roles: Scene::new(&cache, &server, &roles.0, roles.1),
            server,
            linger,
            round: 0,
            cancel,
            running,
        }
    }

    async fn act(&mut self, act: &Act) {
        self.round += 1;
        match act {
            Act::Put(which, keep) => self.put(*which, *keep, &json!(self.round.to_string())),
            Act::Spoil(which) if which.of == Of::Websites => self.put(*which, true, &json!(7)),
            Act::Spoil(_) => {}
            Act::Delete(which) => self.delete(*which),
            Act::Recreate(which) => {
                self.delete(*which);
                self.put(*which, true, &json!(self.round.to_string()));
            }
            Act::Disrupt(disruption) => disruption.inflict(&self.server),
            Act::Uninstall => {
                // The delete fails if the object does not exist.
                let definitions = "customresourcedefinitions";
                let _ = self.server.delete(definitions, "", WEBSITES);
            }
            Act::Install(served) => install(&self.server, *served),
            Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            Act::Declare(of, seen_as) => scene!(self, of, |scene| scene.declare(*seen_as)),
            Act::Index(of) => scene!(self, of, |scene| scene.index()),
            Act::Remove(of) => scene!(self, of, |scene| scene.remove().await),
            Act::Subscribe(of, seen_as) => scene!(self, of, |scene| scene.subscribe(*seen_as)),
            Act::Leave(of, who) => scene!(self, of, |scene| scene.leave(*who)),
            Act::Take(of, who, count) => scene!(self, of, |scene| scene.take(*who, *count).await),
            Act::Read(of, seen_as, query) => {
                scene!(self, of, |scene| scene.read(*seen_as, query).await);
            }
            Act::Get(of, seen_as, which) => {
                scene!(self, of, |scene| scene.get(*seen_as, *which).await);
            }
            Act::Rest(of, seen_as, queries) => {
                self.calm();
                scene!(self, of, |scene| scene.rest(&[*seen_as], queries).await);
            }
        }
    }

    fn calm(&self) {
        self.server.faults().clear();
        install(&self.server, true);
    }

    fn put(&self, which: Which, keep: bool, value: &Value) {
        let (resource, name) = (which.of.resource(), format!("o{}", which.name));
        let keep = if keep { json!("yes") } else { Value::Null };
        let labels = json!({"keep": keep, "v": (self.round % 4).to_string()});
        let mut object = which.of.object(value);
        object["metadata"] = json!({"labels": labels});
        let patched = self
            .server
            .merge_patch(resource, which.namespace, &name, &object);
        if patched.is_err() {
            object["metadata"]["name"] = name.into();
            if which.of != Of::Roles {
                object["metadata"]["namespace"] = which.namespace.into();
            }
            if keep.is_null() {
                object["metadata"]["labels"]
                    .as_object_mut()
                    .unwrap()
                    .remove("keep");
            }
            // The write fails if the definition does not exist, or does not serve this version.
            let _ = self.server.create(object);
        }
    }

    fn delete(&self, which: Which) {
        let name = format!("o{}", which.name);
        // The delete fails if the object does not exist.
        let _ = self
            .server
            .delete(which.of.resource(), which.namespace, &name);
    }

    async fn check(mut self, queries: &[Query]) {
        self.calm();
        for of in KINDS {
            scene!(self, of, |scene| scene.rest(&TYPES, queries).await);
        }
        for of in KINDS {
            scene!(self, of, |scene| scene.leave_all());
        }
        if let Some(after) = self.linger {
            tokio::time::sleep(after * 2 + Duration::from_secs(1)).await;
            for of in KINDS {
                scene!(self, of, |scene| scene.has_lingered());
            }
        }
        for of in KINDS {
            scene!(self, of, |scene| scene.remove().await);
        }
        // CACHE-7: removed informers send no more requests.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let before = self.server.requests().count(|_| true);
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert_eq!(self.server.requests().count(|_| true), before);
        self.cancel.cancel();
        self.running.await.unwrap().unwrap();
    }
}

fn options(plan: &Plan, linger: Option<Duration>) -> CacheOptions {
    let mut defaults = Settings::new()
        .mailbox_bound(plan.mailbox)
        .queue_bound(plan.queue)
        .page_size(plan.page);
    if let Some(millis) = plan.resync_millis {
        defaults = defaults.resync(Duration::from_millis(millis));
    }
    let mut options = CacheOptions::new()
        .seed(plan.seed)
        .watch_list(plan.watch_list)
        .concurrent_syncs(plan.concurrent_syncs)
        .sync_timeout(Duration::from_secs(20))
        .linger(linger)
        .decoded_budget(plan.budget)
        .defaults(defaults);
    options = plan.by_default.by_default(options);
    let [maps, websites, accounts, roles] = &plan.declared;
    if let Some(scope) = maps {
        options = options.by_object::<ConfigMap>(scope.by_object(true));
    }
    if let Some(scope) = websites {
        options = options.by_object::<Website>(scope.by_object(true));
    }
    if let Some(scope) = accounts {
        options = options.by_object::<ServiceAccount>(scope.by_object(true));
    }
    if let Some(scope) = roles {
        options = options.by_object::<ClusterRole>(scope.by_object(false));
    }
    options
}

fn live(seed: u64) {
    let plan = Plan::of(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(&plan);
        for act in &plan.acts {
            sim.act(act).await;
        }
        sim.check(&plan.last).await;
    });
}

// CACHE-1, CACHE-4, CACHE-7, CACHE-8, FAN-1, FAN-2, STORE-1, STORE-3, STORE-4, VIEW-1, VIEW-3
#[test]
fn every_world_ends_with_every_read_and_subscriber_equal_to_the_server() {
    steersman_testenv::seeds::live(0..500, "cargo xtask seeds --of caches --only", live);
}
