//! Driver: namespaces of a server that is not ours: made for a measurement, filled, and removed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::{TryStreamExt, stream};
use http::{Method, Request};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value, json};

use crate::process::{Outcome, progress};
use crate::samples::{Sample, widgets};

/// Writes under way at once.
const WRITERS: usize = 32;

/// So many objects are made between two words on the terminal.
const STEP: u64 = 10_000;

const NAMESPACES: &str = "/api/v1/namespaces";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "widgets.bench.example.com";

/// A server, and what was made on it.
pub(crate) struct Cluster {
    pub(crate) kubeconfig: PathBuf,
    client: Client,
    /// What is there until somebody removes it.
    left: Vec<Namespace>,
    defined: bool,
}

/// A namespace with objects of one kind.
#[derive(Clone)]
pub(crate) struct Namespace {
    client: Client,
    name: String,
    of: Sample,
    objects: u64,
}

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path) -> Outcome<Self> {
        let name = kubeconfig.display();
        let read = Kubeconfig::read_from(kubeconfig);
        let read = read.map_err(|error| format!("--against {name}: {error}"))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| format!("--against {name}: {error}"))?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            client: Client::try_from(config)?,
            left: Vec::new(),
            defined: false,
        })
    }

    /// A new one, empty.
    pub(crate) async fn namespace(&mut self, of: Sample) -> Outcome<Namespace> {
        if of == Sample::Widget && !self.defined {
            let made = send(&self.client, Method::POST, DEFINITIONS, Some(&widgets()?)).await;
            made.map_err(|problem| {
                format!("{problem}; where {WIDGETS} is left from an earlier run, delete it")
            })?;
            self.defined = true;
            self.established().await?;
        }
        let wanted = json!({"metadata": {"generateName": "steersman-bench-"}});
        let made = send(&self.client, Method::POST, NAMESPACES, Some(&wanted)).await?;
        let name = made["metadata"]["name"].as_str();
        let namespace = Namespace {
            client: self.client.clone(),
            name: name
                .ok_or("a namespace was made without a name")?
                .to_owned(),
            of,
            objects: 0,
        };
        self.left.push(namespace.clone());
        if of == Sample::Pod {
            namespace.account().await?;
        }
        Ok(namespace)
    }

    /// Waits until the server serves widgets.
    async fn established(&self) -> Outcome<()> {
        let path = format!("{DEFINITIONS}/{WIDGETS}");
        for _ in 0..100 {
            let found = send(&self.client, Method::GET, &path, None).await?;
            let conditions = found["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            if conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(format!("{WIDGETS} is not served after ten seconds").into())
    }

    /// Removes what is there still.
    pub(crate) async fn end(self) -> Outcome<()> {
        for namespace in &self.left {
            namespace.remove().await?;
        }
        if self.defined {
            let path = format!("{DEFINITIONS}/{WIDGETS}");
            send(&self.client, Method::DELETE, &path, None).await?;
        }
        Ok(())
    }
}

impl Namespace {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What Pods run as. Where a controller makes it, that may come later than the first Pod.
    async fn account(&self) -> Outcome<()> {
        let path = format!("{NAMESPACES}/{}/serviceaccounts", self.name);
        let account = json!({"metadata": {"name": "default"}});
        match request(&self.client, Method::POST, &path, Some(&account)).await {
            Ok(_) => Ok(()),
            Err(kube_client::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(format!("POST {path}: {error}").into()),
        }
    }

    /// Adds objects until there are so many.
    pub(crate) async fn grow(&mut self, to: u64) -> Outcome<()> {
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

    async fn fill(&self, numbers: Range<u64>) -> Outcome<()> {
        let path = self.of.path(&self.name);
        stream::iter(numbers.map(Ok))
            .try_for_each_concurrent(WRITERS, |number| self.add(&path, number))
            .await
    }

    async fn add(&self, path: &str, number: u64) -> Outcome<()> {
        let made = self.of.make(number, &self.name).left_alone();
        let mut object = send(&self.client, Method::POST, path, Some(&made.object)).await?;
        let Some(status) = made.status else {
            return Ok(());
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}/status");
        object["status"] = status;
        send(&self.client, Method::PUT, &path, Some(&object)).await?;
        Ok(())
    }

    /// Removes it and what is in it; nothing where it is gone. Where nobody empties namespaces, its
    /// objects go at least.
    pub(crate) async fn remove(&self) -> Outcome<()> {
        let path = format!("{NAMESPACES}/{}", self.name);
        for (path, body) in [
            (
                self.of.path(&self.name),
                Some(json!({"gracePeriodSeconds": 0})),
            ),
            (path, None),
        ] {
            match request(&self.client, Method::DELETE, &path, body.as_ref()).await {
                Ok(_) => {}
                Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(format!("DELETE {path}: {error}").into()),
            }
        }
        Ok(())
    }
}

async fn send(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Outcome<Value> {
    let asked = format!("{method} {path}");
    let answer = request(client, method, path, body).await;
    Ok(answer.map_err(|error| format!("{asked}: {error}"))?)
}

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
    client.request(request).await
}
