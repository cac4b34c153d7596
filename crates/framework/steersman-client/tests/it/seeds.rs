//! Seeded worlds of writers that read their own writes: RYOW, despite failures of watches, answers and informers.
//!
//! After a write of a key has finished, no read of that key shows an older state, and each read ends in bounded time.
//! `cargo xtask seeds --of writes` runs any number of worlds, or one world again.

mod ledger;
mod plan;

use std::time::Duration;

use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_api::{ClientConfig, DeleteOptions, Encoding, Patch};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{Cache, CacheOptions, ListOptions, Settings};
use steersman_client::{Client, ClientOptions, Error, KindClient, RequestId};
use steersman_object::{Gvk, Kind, Object as _, ObjectKey, Scope};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::ledger::Ledger;
use self::plan::{Act, Content, Op, Plan, WRITERS, Which};

const THINGS: &str = "things.sim.example.com";
/// The verbs that may lose their answers.
const LOST: [Verb; 4] = [Verb::Create, Verb::Patch, Verb::Update, Verb::Delete];
/// The longest time of a read: two waits for own writes, a first sync, and the answers of requests.
const BOUND: Duration = Duration::from_secs(120);

struct Sim {
    server: ApiServer,
    cache: Cache,
    kind: Kind,
    clients: Vec<KindClient<DynamicObject>>,
    ledger: Ledger,
    round: u64,
    cancel: CancellationToken,
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
        for name in ["a", "b"] {
            let metadata = json!({"name": name});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            server.create(namespace).unwrap();
        }
        server.install_crd(definition()).unwrap();
        let settings = Settings::new()
            .page_size(plan.page)
            .decode_batches(plan.decode_batches.0, plan.decode_batches.1);
        let settings = match plan.scope.labels {
            true => settings.labels("keep=yes"),
            false => settings,
        };
        let settings = match plan.scope.fields {
            Some(fields) => settings.fields(fields),
            None => settings,
        };
        let mut options = CacheOptions::new()
            .seed(plan.seed)
            .watch_list(plan.watch_list)
            .sync_timeout(Duration::from_secs(20))
            .linger(plan.linger.map(Duration::from_secs))
            .defaults(settings);
        if plan.scope.one_namespace {
            options = options.default_namespaces(["a"]);
        }
        let cache = Cache::new(options).unwrap();
        let cancel = CancellationToken::new();
        let client_config = || {
            let encoding = Encoding::ALL[plan.seed as usize % 2];
            ClientConfig::in_process(server.service(), "default").encoding(encoding)
        };
        let informer = client_config().user_agent("informer", "1");
        tokio::spawn(cache.run(informer, cancel.clone()));
        let client = Client::with_options(cache.clone(), client_config(), ClientOptions::new());
        let gvk = Gvk::new("sim.example.com", "v1", "Thing");
        let kind = Kind::new(gvk, "things", Scope::Namespaced);
        let of = |number| client.for_request(RequestId::new("sim", number)).of(&kind);
        Self {
            clients: (0..WRITERS).map(of).collect(),
            ledger: Ledger::new(plan.scope),
            server,
            cache,
            kind,
            round: 0,
            cancel,
        }
    }

    async fn act(&mut self, act: &Act) {
        self.round += 1;
        match act {
            Act::Write(writer, which, op) => self.write(*writer, *which, op).await,
            Act::Other(which, op) => self.other(*which, op),
            Act::Get(writer, which) => self.get(*writer, *which).await,
            Act::List(writer, namespace) => self.list(*writer, *namespace).await,
            Act::Declare => drop(
                self.cache
                    .of::<DynamicObject>(&self.kind)
                    .informers()
                    .unwrap(),
            ),
            Act::Disrupt(disruption) => disruption.inflict(&self.server),
            Act::Lose(verb, commits) => {
                let lost = Answer::code(504).times(1);
                let lost = if *commits { lost.after_commit() } else { lost };
                self.server.faults().answer(*verb, THINGS, lost).keep();
            }
            Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
        }
    }

    /// Records the current state of the server in the ledger.
    fn look(&mut self) {
        let objects = self.server.list(THINGS, "");
        self.ledger.look(self.server.revision(), &objects);
    }

    /// Writes for a key. Reads of the key must see the write, even if its answer was lost and the server executed it.
    async fn write(&mut self, writer: usize, which: Which, op: &Op) {
        let before = self.server.revision();
        let client = self.clients[writer].clone();
        let key = which.key();
        let done = self.send(&client, &key, op).await;
        let after = self.server.revision();
        self.look();
        match done {
            // A patch without changes is answered with the current version, which another client may have written.
            Ok(Some(version)) => self.ledger.wrote(writer, &key, version),
            Ok(None) => self.ledger.wrote(writer, &key, after),
            Err(error) if after > before => {
                assert!(error.is_outcome_unknown(), "{error}");
                self.ledger.wrote(writer, &key, after);
            }
            Err(error) => expected(&error),
        }
    }

    /// Returns the version that the server stored; `None` if the write stored none.
    async fn send(
        &self,
        client: &KindClient<DynamicObject>,
        key: &ObjectKey,
        op: &Op,
    ) -> Result<Option<u64>, Error> {
        let live = client.live();
        let stored = match op {
            Op::Create(content) => client.create(&self.object(key, *content)).await?,
            Op::Patch(content) => {
                client
                    .patch(key, &Patch::Merge(self.body(*content)))
                    .await?
            }
            Op::Nothing => client.patch(key, &Patch::Merge(json!({}))).await?,
            Op::Apply(content) => client.apply(&self.object(key, *content)).await?,
            Op::Update(content) => {
                let mut object = live.get(key).await?;
                let new = self.object(key, *content);
                object.metadata.labels = new.metadata.labels;
                object.data = new.data;
                client.update(&object).await?
            }
            Op::Delete => {
                client.delete(&live.get(key).await?).await?;
                return Ok(None);
            }
            Op::DeleteKey => {
                client.delete_key(key).await?;
                return Ok(None);
            }
            Op::DeleteSeen => {
                let seen = client.get(key).await?;
                client
                    .delete_with(key, &DeleteOptions::new().uid(seen.uid_str()))
                    .await?;
                return Ok(None);
            }
        };
        Ok(Some(stored.stored_version().as_str().parse().unwrap()))
    }

    fn body(&self, content: Content) -> Value {
        let keep = if content.keep {
            json!("yes")
        } else {
            Value::Null
        };
        let colour = if content.red { "red" } else { "blue" };
        json!({"metadata": {"labels": {"keep": keep}}, "spec": {"colour": colour, "round": self.round}})
    }

    fn object(&self, key: &ObjectKey, content: Content) -> DynamicObject {
        let mut body = self.body(content);
        body["apiVersion"] = "sim.example.com/v1".into();
        body["kind"] = "Thing".into();
        body["metadata"]["name"] = key.name().into();
        body["metadata"]["namespace"] = key.namespace().into();
        if !content.keep {
            body["metadata"].as_object_mut().unwrap().remove("labels");
        }
        serde_json::from_value(body).unwrap()
    }

    /// Writes with a client that is not under test.
    fn other(&mut self, which: Which, op: &Op) {
        let key = which.key();
        let (namespace, name) = (key.namespace().unwrap(), key.name());
        // The operation depends on the object that exists.
        match op {
            Op::Create(content) | Op::Apply(content) => {
                let object = serde_json::to_value(self.object(&key, *content)).unwrap();
                drop(self.server.create(object));
            }
            Op::Patch(content) | Op::Update(content) => {
                let body = self.body(*content);
                drop(self.server.merge_patch(THINGS, namespace, name, &body));
            }
            Op::Delete | Op::DeleteKey | Op::DeleteSeen => {
                drop(self.server.delete(THINGS, namespace, name));
            }
            Op::Nothing => {}
        }
        self.look();
    }

    async fn get(&mut self, writer: usize, which: Which) {
        let (key, start) = (which.key(), Instant::now());
        let floor = self.ledger.floor(writer, &key);
        let got = self.clients[writer].get_opt(&key).await;
        assert!(start.elapsed() <= BOUND, "{:?}", start.elapsed());
        self.look();
        match got {
            Ok(shown) => self.ledger.check(&key, floor, shown.as_deref()),
            Err(error) => expected(&error),
        }
    }

    async fn list(&mut self, writer: usize, namespace: Option<&'static str>) {
        let start = Instant::now();
        let options = match namespace {
            Some(namespace) => ListOptions::new().namespace(namespace),
            None => ListOptions::new(),
        };
        let floors = self.ledger.floors(writer, namespace);
        let listed = self.clients[writer].list(&options).await;
        assert!(start.elapsed() <= BOUND, "{:?}", start.elapsed());
        self.look();
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return expected(&error),
        };
        for (key, floor) in floors {
            let shown = listed.iter().find(|object| object.key() == key);
            self.ledger
                .check(&key, floor, shown.map(|object| &**object));
        }
    }

    /// Checks that at rest each key reads the state of the server.
    async fn rest(&mut self) {
        self.server.faults().clear();
        self.server.faults().resume_watches();
        tokio::time::sleep(Duration::from_secs(400)).await;
        self.look();
        for writer in 0..WRITERS {
            for which in Which::all() {
                let key = which.key();
                let got = self.clients[writer].get_opt(&key).await;
                match got {
                    Ok(shown) => self.ledger.is_now(&key, shown.as_deref()),
                    Err(error) => assert!(error.is_outside_scope(), "{error}"),
                }
            }
        }
        self.cancel.cancel();
    }
}

/// A definition with a selectable field, which the client cannot evaluate.
fn definition() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({
        "type": "object",
        "properties": {"colour": {"type": "string"}, "round": {"type": "integer"}},
    });
    let mut schema = anything;
    schema["properties"] = json!({"spec": spec});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": THINGS},
        "spec": {
            "group": "sim.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.colour"}],
            }],
        },
    })
}

/// The results that a read or a write may have during faults.
fn expected(error: &Error) {
    let unseen = matches!(error, Error::OwnWritesUnseen { .. });
    let refused = error.api().is_some_and(|error| error.code().is_some());
    let cut = error.api().is_some_and(|error| error.is_transport());
    let known = unseen || refused || cut || error.is_unavailable() || error.is_not_found();
    let timed_out = error
        .cache()
        .is_some_and(|error| error.to_string().contains("did not sync"));
    assert!(known || timed_out || error.is_outside_scope(), "{error}");
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
        sim.rest().await;
    });
}

// RYOW-1, RYOW-2, RYOW-3, RYOW-5, RYOW-7, RYOW-8, RYOW-9, RYOW-10
#[test]
fn no_read_of_a_key_shows_a_state_before_its_own_write() {
    steersman_testenv::seeds::live(0..500, "cargo xtask seeds --of writes --only", live);
}
