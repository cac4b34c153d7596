//! A list of the objects that conversations create on a server that outlives them, so that all are
//! removed.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::transport::{Transport, request};

/// Maximum time for a cluster-scoped object to be removed before the next conversation begins.
const GOING: Duration = Duration::from_secs(10);

/// Maximum time to wait for the next namespace to be removed.
const LEAVING: Duration = Duration::from_secs(20);

/// Interval between two checks of all namespaces.
const GLANCE: Duration = Duration::from_secs(1);

/// Interval between two checks of an object that is being removed.
const LOOK: Duration = Duration::from_millis(100);

/// The finalizer of CRDs, which the server removes when their objects are gone.
const DEFINITION: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Lists objects before they are created, so that an interrupt loses none.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Vec<Entry>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    path: String,
    /// Whether the server answered that it created the object. Before that, an object of this path
    /// may belong to another client.
    is_created: bool,
    /// Whether it is a namespace that the server was told to delete: each is deleted once, because they stay for long.
    is_leaving: bool,
}

impl Ledger {
    /// Adds an object that only this run can create.
    pub(super) fn note(&self, path: &str) {
        self.0.lock().push(Entry {
            path: path.to_owned(),
            is_created: true,
            is_leaving: false,
        });
    }

    /// Adds the object that a request would create; returns `None` if it creates none.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let place = path.split('?').next().unwrap_or_default();
        let path = match method {
            "POST" => {
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                let name = body["metadata"]["name"].as_str().unwrap_or("*");
                format!("{place}/{name}")
            }
            "PUT" | "PATCH" => place.to_owned(),
            _ => return None,
        };
        self.0.lock().push(Entry {
            path: path.clone(),
            is_created: false,
            is_leaving: false,
        });
        Some(path)
    }

    /// Records the answer to a request that [`Ledger::ask`] added as `asked`.
    pub(super) fn answer(&self, asked: &str, status: u16, answer: Option<&Value>) {
        let mut entries = self.0.lock();
        let found = entries
            .iter()
            .position(|entry| !entry.is_created && entry.path == asked);
        let Some(at) = found else { return };
        let entry = entries.remove(at);
        if status != 201 {
            return;
        }
        // The answer to an act on an object, which creates none, is a Status.
        if answer.is_some_and(|answer| answer["kind"] == "Status") {
            return;
        }
        let name = answer.and_then(|object| object["metadata"]["name"].as_str());
        let path = match (entry.path.strip_suffix("/*"), name) {
            (Some(collection), Some(name)) if !name.is_empty() => format!("{collection}/{name}"),
            (Some(_), _) => return,
            (None, _) => entry.path,
        };
        entries.push(Entry {
            path,
            is_created: true,
            is_leaving: false,
        });
    }

    /// Returns the objects that may still exist, the newest first.
    pub(super) fn paths(&self) -> Vec<String> {
        let entries = self.0.lock();
        let paths = entries.iter().rev().map(|entry| entry.path.clone());
        paths.collect()
    }

    /// Returns the namespaces that are not told to leave yet, and tells so.
    fn leaving(&self) -> Vec<String> {
        let mut entries = self.0.lock();
        let present = entries.iter_mut().filter(|entry| entry.is_created);
        let staying = present.filter(|entry| is_namespace(&entry.path) && !entry.is_leaving);
        staying
            .map(|entry| {
                entry.is_leaving = true;
                entry.path.clone()
            })
            .collect()
    }

    fn created(&self) -> Vec<String> {
        let entries = self.0.lock();
        let created = entries.iter().rev().filter(|entry| entry.is_created);
        created.map(|entry| entry.path.clone()).collect()
    }

    fn forget(&self, path: &str) {
        // An object in a namespace of this run is removed with the namespace.
        let below = format!("{path}/");
        let gone = |entry: &Entry| entry.path == path || entry.path.starts_with(&below);
        self.0.lock().retain(|entry| !gone(entry));
    }
}

/// Deletes the objects created so far, and waits for the cluster-scoped ones, because the next
/// conversation may create them again. Namespaces are deleted without waiting, because they take
/// seconds.
pub(super) async fn clean(server: &impl Transport, ledger: &Ledger) {
    let created = ledger.created().into_iter();
    for path in created.filter(|path| !is_namespace(path)) {
        let ends = Instant::now() + GOING;
        while !is_gone(server, &path).await && Instant::now() < ends {
            sleep(LOOK).await;
        }
        if !is_there(server, &path).await {
            ledger.forget(&path);
        }
    }
    for path in ledger.leaving() {
        let path = format!("{path}?gracePeriodSeconds=0");
        server.send(request("DELETE", &path, "")).await;
    }
}

/// Waits until the namespaces are removed, as long as their number goes down, and returns all that
/// remain. A server without controllers never removes namespaces, so they are finalized here once
/// they hold none of this run's objects.
pub(super) async fn left(server: &impl Transport, ledger: &Ledger) -> Vec<String> {
    let mut before = usize::MAX;
    let mut ends = Instant::now() + LEAVING;
    loop {
        for path in ledger.created() {
            if !is_there(server, &path).await {
                ledger.forget(&path);
            }
        }
        let stays = ledger.created().len();
        if stays == 0 || Instant::now() >= ends {
            break;
        }
        if stays < before {
            before = stays;
            ends = Instant::now() + LEAVING;
        }
        sleep(GLANCE).await;
    }
    for path in ledger.created() {
        finish(server, ledger, &path).await;
    }
    ledger.paths()
}

/// Finalizes a namespace as the namespace controller does.
async fn finish(server: &impl Transport, ledger: &Ledger, path: &str) {
    let below = format!("{path}/");
    let is_empty = !ledger.created().iter().any(|one| one.starts_with(&below));
    let Some(mut namespace) = look(server, path).await else {
        return ledger.forget(path);
    };
    if is_namespace(path) && is_empty && namespace["status"]["phase"] == "Terminating" {
        namespace["spec"]["finalizers"] = json!([]);
        let finalize = format!("{path}/finalize");
        let body = namespace.to_string();
        server.send(request("PUT", &finalize, &body)).await;
        if !is_there(server, path).await {
            ledger.forget(path);
        }
    }
}

fn is_namespace(path: &str) -> bool {
    path.strip_prefix("/api/v1/namespaces/")
        .is_some_and(|name| !name.contains('/'))
}

/// Deletes an object and removes its finalizers. Returns whether it is gone.
async fn is_gone(server: &impl Transport, path: &str) -> bool {
    let asked = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
    server.send(request("DELETE", &asked, "")).await;
    let Some(object) = look(server, path).await else {
        return true;
    };
    let finalizers = object["metadata"]["finalizers"].as_array();
    let ours = finalizers.is_some_and(|all| all.iter().any(|one| one != DEFINITION));
    if ours {
        let body = json!({ "metadata": { "finalizers": null } }).to_string();
        let mut patch = request("PATCH", path, &body);
        patch
            .headers
            .insert("Content-Type", "application/merge-patch+json");
        server.send(patch).await;
    }
    false
}

async fn is_there(server: &impl Transport, path: &str) -> bool {
    look(server, path).await.is_some()
}

/// Returns an object, if it exists and its kind is served.
async fn look(server: &impl Transport, path: &str) -> Option<Value> {
    let answer = server.send(request("GET", path, "")).await;
    if matches!(answer.status, 404 | 405) {
        return None;
    }
    Some(serde_json::from_str(&answer.text().await).unwrap_or_default())
}
