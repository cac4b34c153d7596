//! Seeded worlds: random writes, faults and subscribers at the embedded server. In the end every store and every
//! subscriber agrees with the server.
//!
//! `cargo xtask seeds` runs any number of seeds, or a given one again.

mod plan;
mod watched;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Answer;
use steersman_informer::ServerHealth;
use steersman_object::Kind;

use self::plan::{Act, Plan, Shape, Which};
use self::watched::Watched;

const MAPS: &str = "configmaps";
const WEBSITES: &str = "websites.web.example.com";
const NAMESPACES: [&str; 2] = ["a", "b"];
/// The packed size, as a percentage of the JSON, that only a dictionary reaches; without a dictionary it is twice that.
const PACKED: usize = 8;
/// The number of objects in a crowd.
const CROWD: u16 = 1000;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "web.example.com",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
struct WebsiteSpec {
    value: String,
}

struct Sim {
    server: ApiServer,
    everywhere: Watched<ConfigMap>,
    in_a: Watched<ConfigMap>,
    websites: Watched<Website>,
    round: u64,
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
        for name in NAMESPACES {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            server.create(namespace).unwrap();
        }
        install(&server);
        let maps = || Kind::of::<ConfigMap>();
        let [first, second, third] = &plan.options;
        let seed = plan.seed;
        let health = ServerHealth::new(2);
        Self {
            everywhere: Watched::start(&server, maps(), MAPS, None, (first, &health, seed)),
            in_a: Watched::start(
                &server,
                maps(),
                MAPS,
                Some("a"),
                (second, &health, seed ^ 1),
            ),
            websites: Watched::start(
                &server,
                Kind::of::<Website>(),
                WEBSITES,
                None,
                (third, &health, seed ^ 2),
            ),
            server,
            round: 0,
        }
    }

    async fn act(&mut self, act: &Act) {
        self.round += 1;
        match act {
            Act::Put(which, label) => self.put(*which, *label),
            Act::Delete(which) => self.delete(*which),
            Act::Recreate(which) => {
                self.delete(*which);
                self.put(*which, true);
            }
            Act::Disrupt(disruption) => disruption.inflict(&self.server),
            Act::Uninstall => {
                // The write fails if the object is missing.
                let _ = self
                    .server
                    .delete("customresourcedefinitions", "", WEBSITES);
            }
            Act::Install => install(&self.server),
            Act::Answer(verb, code, wait) => {
                let answer = Answer::code(*code).times(1).retry_after(*wait);
                let resource = if self.round.is_multiple_of(2) {
                    MAPS
                } else {
                    WEBSITES
                };
                self.server.faults().answer(*verb, resource, answer).keep();
            }
            Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            Act::Subscribe(0) => self.everywhere.subscribe(),
            Act::Subscribe(1) => self.in_a.subscribe(),
            Act::Subscribe(_) => self.websites.subscribe(),
            Act::Leave(who) => match who % 3 {
                0 => self.everywhere.leave(*who),
                1 => self.in_a.leave(*who),
                _ => self.websites.leave(*who),
            },
            Act::Take(who, count) => match who % 3 {
                0 => self.everywhere.take(*who, *count).await,
                1 => self.in_a.take(*who, *count).await,
                _ => self.websites.take(*who, *count).await,
            },
            Act::Crowd(shape, writes) => {
                for number in 0..*writes {
                    self.crowd(*shape, number);
                    if number % 50 == 49 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                // The training ends before this sleep, because virtual time stands still meanwhile.
                tokio::time::sleep(Duration::from_secs(1)).await;
                if self.everywhere.packed() < PACKED {
                    LEARNED[*shape as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
            Act::Disperse => {
                for number in (0..CROWD).filter(|number| number % 50 != 0) {
                    let name = format!("crowd-{number}");
                    let namespace = NAMESPACES[usize::from(number % 2)];
                    // The delete fails if the object is missing.
                    let _ = self.server.delete(MAPS, namespace, &name);
                }
            }
        }
    }

    /// Writes one object of a crowd of similar objects.
    fn crowd(&self, shape: Shape, number: u16) {
        let (name, namespace) = (
            format!("crowd-{}", number % CROWD),
            NAMESPACES[usize::from(number % 2)],
        );
        let setting = |setting: u16| {
            let value = match shape {
                Shape::Old => format!("registry.example.com/platform/part-{setting}:1.2.3"),
                Shape::New => format!("timeout={setting}s; retries=3; endpoints=[primary, spare]"),
            };
            (format!("{shape:?}-setting-{setting}"), Value::from(value))
        };
        let mut data: serde_json::Map<String, Value> = (0..24).map(setting).collect();
        data.insert(
            "number".to_owned(),
            (self.round ^ u64::from(number)).to_string().into(),
        );
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"namespace": namespace, "name": name, "labels": {"keep": "yes"}},
        });
        // The former object is deleted, because it may have another shape.
        let _ = self.server.delete(MAPS, namespace, &name);
        self.server.create(object).unwrap();
    }

    fn put(&self, which: Which, label: bool) {
        let (resource, namespace, name) = which.names();
        let value = self.round.to_string();
        let content = if which.website {
            json!({"spec": {"value": value}})
        } else {
            json!({"data": {"value": value}})
        };
        let mut patch = content.clone();
        patch["metadata"] =
            json!({"labels": {"keep": if label { json!("yes") } else { Value::Null }}});
        if self
            .server
            .merge_patch(resource, namespace, &name, &patch)
            .is_ok()
        {
            return;
        }
        let (api_version, kind) = if which.website {
            ("web.example.com/v1", "Website")
        } else {
            ("v1", "ConfigMap")
        };
        let mut object = content;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"namespace": namespace, "name": name});
        if label {
            object["metadata"]["labels"] = json!({"keep": "yes"});
        }
        // The write fails if the definition is missing.
        let _ = self.server.create(object);
    }

    fn delete(&self, which: Which) {
        let (resource, namespace, name) = which.names();
        // The delete fails if the object is missing.
        let _ = self.server.delete(resource, namespace, &name);
    }

    async fn check(mut self) {
        self.server.faults().clear();
        install(&self.server);
        self.everywhere.check(&self.server).await;
        self.in_a.check(&self.server).await;
        self.websites.check(&self.server).await;
    }
}

impl Which {
    fn names(self) -> (&'static str, &'static str, String) {
        let resource = if self.website { WEBSITES } else { MAPS };
        let namespace = NAMESPACES[usize::from(self.namespace)];
        (resource, namespace, format!("o{}", self.name))
    }
}

fn install(server: &ApiServer) {
    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
}

fn live(seed: u64) {
    play(&Plan::of(seed));
}

/// The number of worlds, by shape, in which a crowd was packed with a dictionary.
static LEARNED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn live_crowded(seed: u64) {
    play(&Plan::of(seed).crowded());
}

fn play(plan: &Plan) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(plan);
        for act in &plan.acts {
            sim.act(act).await;
        }
        sim.check().await;
    });
}

// REFL-1, REFL-2, REFL-5, REFL-7, REFL-8, REFL-9, REFL-10, STORE-3, STORE-4, FAN-1, FAN-2
#[test]
fn in_every_world_stores_and_subscribers_end_equal_to_the_server() {
    steersman_testenv::seeds::live(0..500, "cargo xtask seeds --of informers --only", live);
}

// PACK-1, PACK-5, REFL-1, STORE-3
#[test]
fn in_every_crowded_world_stores_end_equal_to_the_server_whatever_the_dictionary() {
    let again = "cargo xtask seeds --of crowds --only";
    steersman_testenv::seeds::live(0..12, again, live_crowded);
    // A single repeated world may have no dictionary.
    let learned = LEARNED
        .each_ref()
        .map(|worlds| worlds.load(Ordering::Relaxed));
    let is_one = std::env::var_os(steersman_testenv::seeds::SEEDS).is_some();
    assert!(is_one || !learned.contains(&0), "{learned:?}");
}
