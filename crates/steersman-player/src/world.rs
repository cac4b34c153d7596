//! Machine: how the player acts: through the registry's own verbs, by the names of those it plays.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_registry::auth::User;
use steersman_registry::store::Stored;
use steersman_registry::{
    Deed, DeleteOptions, Preconditions, Registry, Subresource, Target, WriteOptions,
};
use steersman_schema::resource::Resource;
use steersman_schema::subresources::Act;
use steersman_text::selector::LabelSelector;
use steersman_text::status::Status;

use super::agenda::Agenda;
use super::events::Recorder;
use super::facts::{Key, Kind, Place, TRACKING, controller_of, draw, reference};
use super::kinds::Kinds;
use super::options::{Speed, Trouble};
use super::view::View;

/// The field manager of everything that kube-controller-manager does.
const CONTROLLERS: &str = "kube-controller-manager";
/// The field manager of the scheduler.
const SCHEDULER: &str = "kube-scheduler";
/// The field manager of what a kubelet does.
const KUBELET: &str = "kubelet";

/// A write of an object itself by one of the controllers.
pub(super) const MAIN: (Part, Subresource) = (Part::Controllers, Subresource::Main);

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Controllers,
    Scheduler,
    Kubelet,
}

/// How the player plays at the moment.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    pub(super) speed: Speed,
    pub(super) seed: u64,
    /// Which Pods are in trouble beside those that say so themselves, the newest wish last.
    pub(super) troubles: Vec<Wish>,
}

/// A wish for trouble.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) id: u64,
    /// Empty for every namespace.
    pub(super) namespace: String,
    pub(super) selector: LabelSelector,
    pub(super) trouble: Trouble,
}

/// The moment of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// The server's wall time, which is written into objects.
    pub(super) wall: Timestamp,
    /// The player's own clock, by which it waits.
    pub(super) tick: Duration,
}

/// What the player remembers beside what is in the store.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The Pods that the player keeps from being ready.
    pub(super) hindered: HashSet<Key>,
    /// The Pods that were told to stop.
    pub(super) stopping: HashSet<Key>,
    /// How many addresses Pods were given.
    pub(super) addresses: u32,
    /// How Jobs fared lately, by their uids.
    pub(super) backoffs: HashMap<Arc<str>, Backoff>,
    pub(super) recorder: Recorder,
    /// The volumes of claims.
    pub(super) bound: HashMap<Place, Arc<str>>,
}

/// How often Pods of a Job failed since one succeeded, and the player's clock at the last time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    pub(super) failures: u32,
    pub(super) last: Duration,
}

/// Everything a part of the player sees and does in one turn.
pub(super) struct World<'a> {
    pub(super) registry: &'a mut Registry,
    pub(super) view: &'a View,
    pub(super) kinds: &'a Kinds,
    pub(super) manners: &'a Manners,
    pub(super) agenda: &'a mut Agenda,
    pub(super) timers: &'a mut BTreeSet<(Duration, Key)>,
    pub(super) notes: &'a mut Notes,
    /// Whether Events are written.
    pub(super) telling: bool,
    /// Whether volumes are bound, so that Pods wait for them.
    pub(super) binding: bool,
    pub(super) now: Now,
    /// Whose controller acts.
    pub(super) acting: Kind,
    /// How many writes there were.
    pub(super) writes: usize,
    /// How many writes there are to be about: whoever has more to do is looked at again (PLAY-7).
    pub(super) room: usize,
}

impl World<'_> {
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let storage = &self.kinds.of(kind).storage;
        let stored = self.registry.stored(storage, namespace, name)?;
        Some(match kind {
            // There are many of them, most of which were written long ago (SRV-STORE-7).
            Kind::Pod => stored.borrowed(),
            _ => Arc::clone(stored),
        })
    }

    pub(super) fn exists(&self, key: &Key) -> bool {
        let storage = &self.kinds.of(key.kind).storage;
        self.registry
            .stored(storage, &key.namespace, &key.name)
            .is_some()
    }

    /// The objects of a resource that have `uid` as their controller.
    pub(super) fn controlled(&self, resource: &Resource, uid: &str) -> Vec<Arc<Stored>> {
        let mut found = self.registry.dependents_in(&resource.storage, uid);
        found.retain(|one| controller_of(one.lean()).is_some_and(|own| *own.uid == *uid));
        found
    }

    pub(super) fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Arc<Stored>, Status> {
        self.create_as(Part::Controllers, resource, namespace, body)
    }

    /// Like [`create`](Self::create), by another part of the cluster.
    pub(super) fn create_as(
        &mut self,
        part: Part,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Arc<Stored>, Status> {
        self.writes += 1;
        let namespace = Some(namespace).filter(|_| resource.namespaced);
        let target = Target::collection(resource, namespace);
        let (options, now) = (self.options(part), self.now.wall);
        let written = self.registry.create(target, body, &options, now)?;
        Ok(written.object.stored)
    }

    /// Replaces an object or its status. What the server refuses is left as it is: the player
    /// writes what the server would have written itself, and looks again at the next change.
    pub(super) fn update(
        &mut self,
        resource: &Resource,
        (part, subresource): (Part, Subresource),
        object: Value,
    ) -> Option<Arc<Stored>> {
        self.writes += 1;
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let (options, now) = (self.options(part), self.now.wall);
        let target = Target::object(resource, namespace.as_deref(), &name).part(subresource);
        let written = self.registry.update(target, object, &options, now);
        written.ok().map(|written| written.object.stored)
    }

    /// Writes a status that differs from the one there is. Answers whether it is there now.
    pub(super) fn report(
        &mut self,
        kind: Kind,
        part: Part,
        stored: &Stored,
        status: Value,
    ) -> bool {
        if stored.lean()["status"] == status {
            return true;
        }
        let object = reported(stored.lean(), status);
        let resource = Arc::clone(self.kinds.of(kind));
        let written = self.update(&resource, (part, Subresource::Status), object);
        written.is_some()
    }

    /// Changes an object in place.
    pub(super) fn edit(&mut self, kind: Kind, stored: &Stored, edit: impl FnOnce(&mut Value)) {
        let mut object = stored.lean().clone();
        edit(&mut object);
        if object == *stored.lean() {
            return;
        }
        let resource = Arc::clone(self.kinds.of(kind));
        self.update(&resource, (Part::Controllers, Subresource::Main), object);
    }

    /// Deletes this very object; `grace` of `None` leaves the choice to the server. Answers whether
    /// that was allowed.
    pub(super) fn delete(
        &mut self,
        resource: &Resource,
        stored: &Stored,
        grace: Option<i64>,
    ) -> bool {
        self.writes += 1;
        let options = DeleteOptions {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(stored.meta("uid").to_owned()),
                resource_version: None,
            }),
            propagation_policy: Some("Background".to_owned()),
            user: Arc::clone(self.kinds.user(self.acting)),
            ..DeleteOptions::default()
        };
        let namespace = Some(&*stored.namespace).filter(|_| resource.namespaced);
        let target = Target::object(resource, namespace, &stored.name);
        // One that is gone already is no loss.
        let deleted = self.registry.delete(target, &options, self.now.wall);
        deleted.is_ok()
    }

    /// Puts a Pod on a node, as the scheduler does. Answers whether it is there.
    pub(super) fn bind(&mut self, pod: &Stored, node: &str) -> bool {
        self.writes += 1;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": *pod.name, "namespace": *pod.namespace, "uid": pod.meta("uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let deed = Deed {
            act: Act::Bind,
            namespace: &pod.namespace,
            name: &pod.name,
            body: &body,
        };
        let options = self.options(Part::Scheduler);
        // A Pod that was placed meanwhile has what this is for.
        let bound = self.registry.act(deed, &options, self.now.wall);
        bound.is_ok()
    }

    /// Makes `owner` the controller of an object that has none.
    pub(super) fn adopt(&mut self, kind: Kind, object: &Stored, owner: &Stored) {
        let tracked = owner.lean()["kind"] == "Job";
        let owner = reference(owner);
        self.edit(kind, object, |object| {
            let fields = steersman_registry::metadata_of(object);
            let owners = fields.entry("ownerReferences").or_insert_with(|| json!([]));
            if let Some(owners) = owners.as_array_mut() {
                owners.retain(|one| one["uid"] != owner["uid"]);
                owners.push(owner);
            }
            let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = finalizers.as_array_mut().filter(|_| tracked)
                && !list.iter().any(|one| one == TRACKING)
            {
                list.push(json!(TRACKING));
            }
        });
    }

    /// Lets an object go that `owner` controls, and what its controller did to hold it.
    pub(super) fn disown(&mut self, kind: Kind, object: &Stored, owner: &Stored) {
        let uid = owner.meta("uid").to_owned();
        let tracked = owner.lean()["kind"] == "Job";
        self.edit(kind, object, |object| {
            let fields = steersman_registry::metadata_of(object);
            let mut without = |field: &str, goes: &dyn Fn(&Value) -> bool| {
                if let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) {
                    list.retain(|one| !goes(one));
                    if list.is_empty() {
                        fields.remove(field);
                    }
                }
            };
            without("ownerReferences", &|one| one["uid"] == *uid);
            if tracked {
                without("finalizers", &|one| one == TRACKING);
            }
        });
    }

    /// Whether others are to be looked at before more is written here.
    pub(super) fn spent(&self) -> bool {
        self.writes >= self.room
    }

    /// Looks at an object again when others had their turn.
    pub(super) fn again(&mut self, key: &Key) {
        self.agenda.add(key.clone());
    }

    fn options(&self, part: Part) -> WriteOptions {
        written_by(part, self.kinds.user(self.acting))
    }

    /// Looks at an object again once the player's clock shows `at`.
    pub(super) fn later(&mut self, key: Key, at: Duration) {
        self.timers.insert((at, key));
    }

    /// The trouble that a Pod is in.
    pub(super) fn trouble_of(&self, pod: &Stored) -> Option<Trouble> {
        let own = super::facts::annotation(pod.lean(), super::options::TROUBLE);
        let wished = self.manners.troubles.iter().rev().find(|wish| {
            (wish.namespace.is_empty() || wish.namespace == *pod.namespace)
                && wish.selector.matches_labels(|key| pod.label(key))
        });
        wished
            .map(|wish| wish.trouble)
            .or_else(|| Trouble::named(own))
    }

    /// How long a step of a Pod takes.
    pub(super) fn takes(&self, step: &str, time: Duration, pod: &Stored) -> Duration {
        let seed = self.manners.seed.to_string();
        let number = draw(&[&seed, step, pod.meta("uid")]);
        self.manners.speed.vary(time, number)
    }
}

/// The object that a status report sends: types, metadata and the new status.
fn reported(object: &Value, status: Value) -> Value {
    // The whole metadata: most kinds' status strategies remove the fields that are not sent.
    let mut sent = Map::new();
    for field in ["apiVersion", "kind", "metadata"] {
        sent.insert(field.to_owned(), object[field].clone());
    }
    sent.insert("status".to_owned(), status);
    Value::Object(sent)
}

fn written_by(part: Part, user: &Arc<User>) -> WriteOptions {
    let manager = match part {
        Part::Controllers => CONTROLLERS,
        Part::Scheduler => SCHEDULER,
        Part::Kubelet => KUBELET,
    };
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        user: Arc::clone(user),
        ..WriteOptions::default()
    }
}
