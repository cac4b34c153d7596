//! One kind of a simulation: its readers and subscribers, and the states that they must observe.

use std::collections::HashMap;
use std::time::Duration;

use kube_core::{DynamicObject, PartialObjectMeta};
use serde_json::Value;
use steersman_apiserver::ApiServer;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{Cache, Error, ListOptions, Reads};
use steersman_object::{Kind, Object, ObjectKey, ResourceVersion};

use super::plan::{As, Which};
use super::query::{Query, TERMS, identity};
use super::scope::Scope;
use super::subject::{HAS_VALUE, LABEL, Subject, value_in};
use super::subscriber::{AnySubscriber, HOUR, Identity, Known, ReplayingSubscriber};

pub(super) struct Scene<K> {
    cache: Cache,
    server: ApiServer,
    kind: Kind,
    scope: Scope,
    /// Whether the options declare the kind.
    declared: bool,
    /// Whether a call has declared the kind since the last removal.
    meant: bool,
    indexed: bool,
    subscribers: Vec<Box<dyn AnySubscriber>>,
    /// The version of each informer at the last read.
    versions: HashMap<Option<String>, ResourceVersion>,
    of: std::marker::PhantomData<fn() -> K>,
}

/// Reads `$kind` as the type that `$seen_as` names, and runs the same code for each type.
macro_rules! reading {
    ($scene:expr, $seen_as:expr, |$reads:ident, $values:ident| $do:expr) => {
        match $seen_as {
            As::Typed => {
                let $reads = $scene.cache.of::<K>(&$scene.kind);
                let $values = typed_values::<K>;
                $do
            }
            As::Dynamic => {
                let $reads = $scene.cache.of::<DynamicObject>(&$scene.kind);
                let $values = no_values::<DynamicObject>;
                $do
            }
            As::Metadata => {
                let $reads = $scene.cache.metadata::<K>();
                let $values = no_values::<PartialObjectMeta<K>>;
                $do
            }
        }
    };
}

fn typed_values<K: Subject>(object: &K, index: &str) -> Vec<String> {
    match index {
        LABEL => {
            let labels = object.meta().labels.as_ref();
            labels
                .and_then(|labels| labels.get(LABEL).cloned())
                .into_iter()
                .collect()
        }
        _ => object.values(),
    }
}

/// Only views of the kind's own type have indexes.
fn no_values<V: Object>(_: &V, _: &str) -> Vec<String> {
    Vec::new()
}

impl<K: Subject> Scene<K> {
    pub(super) fn new(cache: &Cache, server: &ApiServer, scope: &Scope, declared: bool) -> Self {
        let kind = Kind::of::<K>();
        // Default namespaces do not apply to cluster-scoped kinds.
        let scope = if kind.is_namespaced() || declared {
            scope.clone()
        } else {
            Scope::everything()
        };
        Self {
            cache: cache.clone(),
            server: server.clone(),
            kind,
            scope,
            declared,
            meant: false,
            indexed: false,
            subscribers: Vec::new(),
            versions: HashMap::new(),
            of: std::marker::PhantomData,
        }
    }

    pub(super) fn declare(&mut self, seen_as: As) {
        reading!(self, seen_as, |reads, _values| drop(
            reads.informers().unwrap()
        ));
        self.meant = true;
    }

    pub(super) fn index(&mut self) {
        let registered = [
            self.cache.index_label::<K>(LABEL),
            self.cache.index_values::<K>(HAS_VALUE, K::values),
            self.cache.index_labels::<K>(),
        ];
        for registered in registered {
            let again = matches!(registered, Err(Error::IndexExists { .. }));
            assert!(if again {
                self.indexed
            } else {
                registered.is_ok()
            });
        }
        (self.meant, self.indexed) = (true, true);
    }

    pub(super) fn subscribe(&mut self, seen_as: As) {
        let places = self.scope.places();
        let reads_all = !matches!(seen_as, As::Typed);
        reading!(self, seen_as, |reads, _values| {
            let subscriptions = reads.subscribe().unwrap();
            assert_eq!(subscriptions.len(), places.len());
            for (subscription, place) in subscriptions.into_iter().zip(places) {
                let subscriber = ReplayingSubscriber::new(subscription, place, reads_all);
                self.subscribers.push(Box::new(subscriber));
            }
        });
    }

    pub(super) fn leave(&mut self, who: usize) {
        if !self.subscribers.is_empty() {
            drop(self.subscribers.swap_remove(who % self.subscribers.len()));
        }
        self.forget_unless_held();
    }

    pub(super) async fn take(&mut self, who: usize, count: usize) {
        if !self.subscribers.is_empty() {
            let who = who % self.subscribers.len();
            self.subscribers[who].take(count).await;
        }
    }

    /// CACHE-7: removes the informers of the kind.
    pub(super) async fn remove(&mut self) {
        self.cache.remove::<K>();
        for subscriber in self.subscribers.drain(..) {
            subscriber.end().await;
        }
        (self.meant, self.indexed) = (false, false);
        self.versions.clear();
    }

    /// An informer that may have restarted may start at any version.
    fn forget_unless_held(&mut self) {
        if !self.is_lasting() && self.subscribers.is_empty() {
            self.versions.clear();
        }
    }

    fn is_lasting(&self) -> bool {
        self.declared || self.meant
    }

    pub(super) async fn get(&mut self, seen_as: As, which: Which) {
        self.forget_unless_held();
        let (namespaced, name) = (self.kind.is_namespaced(), format!("o{}", which.name));
        let key = if namespaced {
            ObjectKey::namespaced(which.namespace, name)
        } else {
            ObjectKey::cluster_scoped(name)
        };
        let outside = self.scope.place(key.namespace()).is_none();
        reading!(
            self,
            seen_as,
            |reads, _values| match reads.get(&key).await {
                Ok(object) => assert_eq!(object.key(), key),
                Err(error) => {
                    assert_eq!(error.is_outside_scope(), outside, "{error}");
                    let known =
                        error.is_not_found() || error.is_malformed() || error.is_unavailable();
                    assert!(known || outside, "{error}");
                }
            }
        );
    }

    pub(super) async fn read(&mut self, seen_as: As, query: &Query) {
        self.forget_unless_held();
        let query = self.possible(seen_as, query);
        reading!(self, seen_as, |reads, values| {
            if query.is_in(&self.scope, self.kind.is_namespaced()) {
                match query.compare(&reads, values).await {
                    Ok(all) => self.note(&all.items, &all.versions),
                    Err(error) => assert!(error.is_unavailable(), "{error}"),
                }
            } else {
                let error = reads.list(&query.options()).await.unwrap_err();
                assert!(error.is_outside_scope(), "{error}");
            }
        });
    }

    /// Checks that no read is at an earlier version than the read before, and no object is newer than its read.
    fn note<V: Object>(
        &mut self,
        items: &[std::sync::Arc<V>],
        versions: &[(Option<std::sync::Arc<str>>, ResourceVersion)],
    ) {
        for (place, version) in versions {
            let place = place.as_deref().map(str::to_owned);
            if let Some(before) = self.versions.insert(place, version.clone()) {
                assert!(version.is_at_least(&before), "{version} after {before}");
            }
        }
        for (key, version) in items.iter().map(identity) {
            let place = self.scope.place(key.namespace()).unwrap();
            let read = &self.versions[&place.map(str::to_owned)];
            assert!(read.is_at_least(&version), "{key}@{version} at {read}");
        }
    }

    /// Removes the conditions that reads as this type do not support.
    fn possible(&self, seen_as: As, query: &Query) -> Query {
        match seen_as {
            As::Typed if self.indexed => query.clone(),
            _ => query.clone().without_terms(),
        }
    }

    pub(super) async fn rest(&mut self, seen_as: &[As], queries: &[Query]) {
        let served = self.served();
        let known = all_known(&served);
        self.converge(&known).await;
        for subscriber in &mut self.subscribers {
            subscriber.catch_up().await;
            let own = served
                .iter()
                .filter(|(place, _)| *place == subscriber.place());
            let own: Vec<_> = own.cloned().collect();
            subscriber.check(&all_known(&own));
        }
        for seen_as in seen_as {
            // A reader that needs whole objects may have to wait for the next retry.
            reading!(self, *seen_as, |reads, _values| available(&reads).await);
            for query in queries {
                self.read(*seen_as, query).await;
            }
            reading!(self, *seen_as, |reads, _values| {
                self.agrees(&reads, &served, &known, matches!(seen_as, As::Typed))
                    .await;
            });
        }
        if self.indexed && seen_as.iter().any(|seen_as| matches!(seen_as, As::Typed)) {
            self.index_agrees().await;
        }
    }

    /// Returns every object of the server in scope, with the namespace of the informer that holds
    /// it.
    fn served(&self) -> Vec<(Option<&'static str>, Value)> {
        let objects = self.server.list(K::RESOURCE, "").into_iter();
        let held = objects.filter_map(|object| Some((self.scope.holds(&object)?, object)));
        held.collect()
    }

    /// Waits, on the paused clock, until the metadata of the kind equals that of the server.
    async fn converge(&self, known: &Known) {
        let reads = self.cache.metadata::<K>();
        let all = ListOptions::new();
        let mut last = String::new();
        let converged = async {
            let mut pause = Duration::from_millis(1);
            loop {
                match reads.list(&all).await {
                    Ok(found) => {
                        let found: Vec<_> = found.iter().map(identity).collect();
                        let same = found.len() == known.len()
                            && found.iter().all(|(key, version)| {
                                let known = known.get(&key.to_string());
                                known.is_some_and(|known| known.version == version.as_str())
                            });
                        if same {
                            return;
                        }
                        last = format!("{found:?}");
                    }
                    Err(error) => last = error.to_string(),
                }
                tokio::time::sleep(pause).await;
                pause = pause * 3 / 2;
            }
        };
        if tokio::time::timeout(HOUR, converged).await.is_err() {
            panic!("{}: {last}, served {known:?}", self.kind);
        }
    }

    /// Checks that a list, and a get of each object, return the state of the server.
    async fn agrees<V: Object>(
        &self,
        reads: &Reads<V>,
        served: &[(Option<&'static str>, Value)],
        known: &Known,
        typed: bool,
    ) {
        let listed = reads
            .list(&ListOptions::new().skip_malformed())
            .await
            .unwrap();
        let mut unreadable = 0;
        for (_, object) in served {
            let key = key_of(object);
            let got = reads.get(&key).await;
            let identity = &known[&key.to_string()];
            if typed && !identity.readable {
                // VIEW-1, CACHE-4: the last good state, or an error that is not `NotFound`.
                match got {
                    Ok(before) => assert_eq!(before.meta().uid.as_deref(), Some(&*identity.uid)),
                    Err(error) => {
                        assert!(error.is_malformed(), "{error}");
                        unreadable += 1;
                    }
                }
                continue;
            }
            let got = got.unwrap();
            let version = got.meta().resource_version.as_deref();
            assert_eq!(version, Some(&*identity.version));
            let body = serde_json::to_value(&*got).unwrap();
            let item = listed.iter().find(|item| item.key() == key).unwrap();
            assert_eq!(serde_json::to_value(&**item).unwrap(), body);
            if let Some(value) = value_in(&body) {
                assert_eq!(Some(value), value_in(object));
            }
        }
        assert_eq!(listed.len() + unreadable, served.len());
        // CACHE-4: a list with an unreadable object is an error.
        let all = reads.list(&ListOptions::new()).await;
        match all {
            Ok(_) => assert_eq!(unreadable, 0),
            Err(error) => assert!(error.is_malformed() && unreadable > 0, "{error}"),
        }
    }

    /// STORE-1: an index contains exactly the values of the objects.
    async fn index_agrees(&self) {
        let reads = self.cache.of::<K>(&self.kind);
        let all = ListOptions::new().skip_malformed();
        let objects = reads.list(&all).await.unwrap();
        for index in TERMS {
            let values = objects
                .iter()
                .flat_map(|object| typed_values(&**object, index));
            let mut values: Vec<String> = values.collect();
            values.sort_unstable();
            values.dedup();
            let found = reads.index_values(index).await.unwrap();
            let found: Vec<&str> = found.iter().map(|value| &**value).collect();
            assert_eq!(found, values, "{index}");
        }
    }

    pub(super) fn leave_all(&mut self) {
        self.subscribers.clear();
    }

    /// CACHE-8: checks that undeclared informers have ended after their linger time, and declared informers have not.
    pub(super) fn has_lingered(&self) {
        for place in self.scope.places() {
            // No namespace has the name `none`, so its objects belong to the informer of the other namespaces.
            let namespace = place.unwrap_or("none");
            let key = if self.kind.is_namespaced() {
                ObjectKey::namespaced(namespace, "o1")
            } else {
                ObjectKey::cluster_scoped("o1")
            };
            let runs = self.cache.untyped_of(self.kind.gvk(), &key).is_some();
            assert_eq!(runs, self.is_lasting(), "{}", self.kind);
        }
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap();
    match metadata["namespace"].as_str() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(name),
    }
}

fn all_known(served: &[(Option<&'static str>, Value)]) -> Known {
    let known = served.iter().map(|(_, object)| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        let identity = Identity {
            uid: text("uid"),
            version: text("resourceVersion"),
            readable: value_in(object).is_some(),
        };
        (key_of(object).to_string(), identity)
    });
    known.collect()
}

/// Waits until the objects are readable as this type.
async fn available<V: Object>(reads: &Reads<V>) {
    let readable = ListOptions::new().skip_malformed();
    let waits = async {
        while let Err(error) = reads.list(&readable).await {
            assert!(error.is_unavailable(), "{error}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let available = tokio::time::timeout(HOUR, waits).await;
    available.expect("the objects of the server are readable");
}
