//! Driver: creates, fills and removes namespaces of an external server.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{TryStreamExt, stream};
use http::{Method, Request};
use kube_client::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::process::{BenchResult, progress};
use crate::samples::{Sample, leave_alone, widgets};
use crate::wire::kube_client;

const WRITERS: usize = 32;

/// The number of objects between two progress lines.
const STEP: u64 = 10_000;

const NAMESPACES: &str = "/api/v1/namespaces";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "widgets.bench.example.com";

/// The number of objects per delete request. A server deletes them one by one before it responds,
/// and aborts a request after a minute.
const PAGE: usize = 500;

const LOOKS: u32 = 60;
const LOOK: Duration = Duration::from_millis(500);

/// The time limit of one request, the same as the default of a kube-apiserver.
const REQUEST: Duration = Duration::from_secs(60);

/// The number of attempts to remove everything, because a server may be overloaded for a while.
const TRIES: usize = 3;

/// An external server, and the objects created on it.
pub(crate) struct Cluster {
    pub(crate) kubeconfig: PathBuf,
    client: Client,
    /// The namespaces that have not been removed.
    left: Vec<Namespace>,
    defined: bool,
}

#[derive(Clone)]
pub(crate) struct Namespace {
    client: Client,
    name: String,
    of: Sample,
    objects: u64,
}

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path) -> BenchResult<Self> {
        let client = kube_client(kubeconfig).await;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            client: client
                .map_err(|error| format!("--against {}: {error}", kubeconfig.display()))?,
            left: Vec::new(),
            defined: false,
        })
    }

    pub(crate) async fn namespace(&mut self, of: Sample) -> BenchResult<Namespace> {
        if of == Sample::Widget && !self.defined {
            // Recorded before the request, because after an interrupt the definition may exist.
            self.defined = true;
            let made = request(&self.client, Method::POST, DEFINITIONS, Some(&widgets()?)).await;
            if let Err(error) = made {
                self.defined = !is_refused(&error);
                let left = format!("where {WIDGETS} is left from an earlier run, delete it");
                return Err(format!("POST {DEFINITIONS}: {error}; {left}").into());
            }
            self.established().await?;
        }
        let random = RandomState::new().hash_one(self.left.len());
        let namespace = Namespace {
            client: self.client.clone(),
            name: format!("steersman-bench-{random:016x}"),
            of,
            objects: 0,
        };
        let wanted = json!({"metadata": {"name": namespace.name}});
        self.left.push(namespace.clone());
        let made = request(&self.client, Method::POST, NAMESPACES, Some(&wanted)).await;
        if let Err(error) = made {
            if is_refused(&error) {
                self.left.pop();
            }
            return Err(format!("POST {NAMESPACES}: {error}").into());
        }
        if of == Sample::Pod {
            namespace.account().await?;
        }
        Ok(namespace)
    }

    /// Waits until the server serves widgets.
    async fn established(&self) -> BenchResult<()> {
        let path = format!("{DEFINITIONS}/{WIDGETS}");
        for _ in 0..100 {
            let found = send(&self.client, Method::GET, &path, None).await?;
            let conditions = found["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            if conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("{WIDGETS} is not served after ten seconds").into())
    }

    /// Removes all objects, and returns an error with the names of those that remain. May be
    /// dropped at any time: the remaining objects stay recorded.
    pub(crate) async fn end(&mut self) -> BenchResult<()> {
        let mut problems: Vec<String> = Vec::new();
        for _ in 0..TRIES {
            problems.clear();
            let mut at = 0;
            while let Some(namespace) = self.left.get(at) {
                match namespace.end().await {
                    Ok(()) => drop(self.left.remove(at)),
                    Err(problem) => {
                        problems.push(problem.to_string());
                        at += 1;
                    }
                }
            }
            if self.defined {
                match remove(&self.client, &format!("{DEFINITIONS}/{WIDGETS}")).await {
                    Ok(()) => self.defined = false,
                    Err(problem) => problems.push(problem.to_string()),
                }
            }
            if problems.is_empty() {
                return Ok(());
            }
        }
        Err(self.leftovers_error(&problems.join("; ")))
    }

    /// Returns an error with the names of the remaining objects and the reason.
    pub(crate) fn leftovers_error(&self, why: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let names = self
            .left
            .iter()
            .map(|one| format!("namespace {}", one.name));
        let definition = self.defined.then(|| WIDGETS.to_owned());
        let left: Vec<String> = names.chain(definition).collect();
        format!("left on the server: {} ({why})", left.join(", ")).into()
    }
}

impl Namespace {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates the ServiceAccount of Pods, which a controller may create too late for the first Pod.
    async fn account(&self) -> BenchResult<()> {
        let path = format!("{NAMESPACES}/{}/serviceaccounts", self.name);
        let account = json!({"metadata": {"name": "default"}});
        let made = send_unless(&[409], &self.client, Method::POST, &path, Some(&account)).await;
        made.map(drop)
    }

    /// Creates objects up to this number.
    pub(crate) async fn grow(&mut self, to: u64) -> BenchResult<()> {
        while self.objects < to {
            let next = to.min(self.objects + STEP);
            self.fill(self.objects..next).await?;
            self.objects = next;
            progress(format!(
                "{next} of {to} {} in {}",
                self.of.resource(),
                self.name
            ));
        }
        Ok(())
    }

    async fn fill(&self, numbers: Range<u64>) -> BenchResult<()> {
        let path = self.of.path(&self.name);
        stream::iter(numbers.map(Ok))
            .try_for_each_concurrent(WRITERS, |number| self.add(&path, number))
            .await
    }

    async fn add(&self, path: &str, number: u64) -> BenchResult<()> {
        let (mut object, status) = self.of.make(number, &self.name);
        leave_alone(&mut object);
        let mut object = send(&self.client, Method::POST, path, Some(&object)).await?;
        let Some(status) = status else {
            return Ok(());
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}/status");
        object["status"] = status;
        send(&self.client, Method::PUT, &path, Some(&object)).await?;
        Ok(())
    }

    /// Deletes the objects and then the namespace; succeeds if it does not exist.
    pub(crate) async fn remove(&self) -> BenchResult<()> {
        let objects = clear(&self.client, &self.of.path(&self.name)).await;
        // The namespace is deleted even if an object could not be: most servers then delete the
        // objects of the namespace.
        remove(&self.client, &self.path()).await?;
        objects
    }

    /// Removes the namespace and waits until it is gone. On a server without a namespace
    /// controller, finalizes it once it is empty.
    async fn end(&self) -> BenchResult<()> {
        self.remove().await?;
        for _ in 0..LOOKS {
            if self.look().await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        let Some(mut namespace) = self.look().await? else {
            return Ok(());
        };
        let objects = format!("{}?limit=1", self.of.path(&self.name));
        let stay = send(&self.client, Method::GET, &objects, None).await?;
        let items = stay["items"].as_array();
        if items.is_some_and(|items| !items.is_empty()) {
            return Err(format!("{} is terminating, with objects in it", self.name).into());
        }
        let accounts = format!("{}/serviceaccounts", self.path());
        clear(&self.client, &accounts).await?;
        namespace["spec"]["finalizers"] = json!([]);
        let path = format!("{}/finalize", self.path());
        send(&self.client, Method::PUT, &path, Some(&namespace)).await?;
        Ok(())
    }

    async fn look(&self) -> BenchResult<Option<Value>> {
        send_unless(&[404], &self.client, Method::GET, &self.path(), None).await
    }

    fn path(&self) -> String {
        format!("{NAMESPACES}/{}", self.name)
    }
}

/// Deletes all objects of a collection, page by page.
async fn clear(client: &Client, path: &str) -> BenchResult<()> {
    let at_once = json!({"gracePeriodSeconds": 0});
    let (mut next, mut before, mut deleted) = (String::new(), Value::Null, 0);
    let mut renewed = 0;
    loop {
        let page = format!("{path}?limit={PAGE}{next}");
        let answer = match request(client, Method::DELETE, &page, Some(&at_once)).await {
            Ok(answer) => answer,
            // After 410, lists the remaining objects again.
            Err(kube_client::Error::Api(status)) if status.code == 410 && renewed < TRIES => {
                next.clear();
                renewed += 1;
                continue;
            }
            Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                return Ok(());
            }
            Err(error) => return Err(format!("DELETE {page}: {error}").into()),
        };
        let count = answer["items"].as_array().map_or(0, Vec::len);
        deleted += count;
        if count == PAGE {
            progress(format!("deleted {deleted} of {path}"));
        }
        let token = answer["metadata"]["continue"].as_str().unwrap_or_default();
        let first = answer["items"][0]["metadata"]["uid"].clone();
        next = match token {
            // A server may return a full page without a continue token. The next page then starts
            // with another object, unless no object was deleted.
            "" if count == PAGE && first != before => String::new(),
            "" => return Ok(()),
            token => format!("&continue={}", utf8_percent_encode(token, NON_ALPHANUMERIC)),
        };
        before = first;
    }
}

/// Deletes an object; succeeds if it does not exist or is terminating.
async fn remove(client: &Client, path: &str) -> BenchResult<()> {
    let removed = send_unless(&[404, 409], client, Method::DELETE, path, None).await;
    removed.map(drop)
}

/// Returns whether the server reported that it did nothing.
fn is_refused(error: &kube_client::Error) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code < 500)
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> BenchResult<Value> {
    let answer = send_unless(&[], client, method, path, body).await?;
    Ok(answer.unwrap_or_default())
}

/// Sends a request; `None` if the server refuses it with one of these codes.
async fn send_unless(
    codes: &[u16],
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> BenchResult<Option<Value>> {
    let asked = format!("{method} {path}");
    match request(client, method, path, body).await {
        Ok(answer) => Ok(Some(answer)),
        Err(kube_client::Error::Api(status)) if codes.contains(&status.code) => Ok(None),
        Err(error) => Err(format!("{asked}: {error}").into()),
    }
}

/// Sends a request, and aborts it after [`REQUEST`].
async fn request(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> kube_client::Result<Value> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.into_bytes())
        .map_err(kube_client::Error::HttpError)?;
    match timeout(REQUEST, client.request(request)).await {
        Ok(answer) => answer,
        Err(_) => {
            let why = format!("no answer within {} s", REQUEST.as_secs());
            Err(kube_client::Error::Service(why.into()))
        }
    }
}

#[cfg(test)]
mod tests;
