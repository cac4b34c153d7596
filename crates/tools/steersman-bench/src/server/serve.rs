//! Driver: a server over HTTPS that executes orders from its standard input, one per line.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::Instant;
use tower::ServiceExt;

use super::fill::{NAMESPACE, add, fill, prepare};
use crate::process::{BenchResult, cpu_time, send};
use crate::samples::{NUMBER, Sample};
use crate::wire::ServerAddress;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ServedRequests {
    pub(crate) requests: u64,
    pub(crate) watches: u64,
}

/// An order to write objects while clients watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Creates objects up to this number. Returns the number of objects.
    Grow { to: u64 },
    /// Writes a new number to one object after the other. Returns the next number.
    Touch { per_second: u32, seconds: u32 },
    /// Repeatedly deletes the oldest object and creates another. Returns the next number.
    Replace { per_second: u32, seconds: u32 },
    /// Repeatedly changes one object of this size in bytes. Returns the time in seconds.
    Write {
        writes: u64,
        per_second: u32,
        bytes: usize,
    },
    /// Returns the used processor time in seconds.
    Cpu,
    /// Hides all documents. Returns their number.
    Hide,
    /// Returns the numbers of requests.
    Requests,
}

struct Held {
    server: ApiServer,
    of: Sample,
    /// Oldest first.
    names: VecDeque<String>,
    /// The number of the next object or change.
    next: u64,
}

/// Serves until the standard input ends.
pub(super) async fn serve(objects: u64, of: Sample) -> BenchResult<()> {
    let server = ApiServer::new();
    prepare(&server, of)?;
    let mut held = Held {
        server,
        of,
        names: VecDeque::new(),
        next: 0,
    };
    held.grow(objects)?;
    let serving = held.server.serve("127.0.0.1:0").await?;
    send(&(ServerAddress::of(&serving), serving.kubeconfig()))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        held.carry_out(serde_json::from_str(&line)?).await?;
    }
    Ok(())
}

impl Held {
    async fn carry_out(&mut self, order: Order) -> BenchResult<()> {
        match order {
            Order::Grow { to } => {
                self.grow(to)?;
                send(&self.names.len())
            }
            Order::Touch {
                per_second,
                seconds,
            }
            | Order::Replace {
                per_second,
                seconds,
            } => {
                // After a late change, the interval ticks faster until it has caught up.
                let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
                for _ in 0..u64::from(per_second) * u64::from(seconds) {
                    tick.tick().await;
                    match order {
                        Order::Replace { .. } => self.replace().await?,
                        _ => self.touch()?,
                    }
                }
                send(&self.next)
            }
            Order::Write {
                writes,
                per_second,
                bytes,
            } => send(&write(&self.server, writes, per_second, bytes).await?),
            Order::Hide => {
                let hidden = json!({"spec": {"hide": true}});
                for name in &self.names {
                    let resource = self.of.resource();
                    self.server
                        .merge_patch(resource, NAMESPACE, name, &hidden)?;
                }
                send(&self.names.len())
            }
            Order::Requests => {
                let log = self.server.requests();
                send(&ServedRequests {
                    requests: log.count(|_| true) as u64,
                    watches: log.count(|request| request.does(Verb::Watch)) as u64,
                })
            }
            Order::Cpu => send(&cpu_time().as_secs_f64()),
        }
    }

    fn grow(&mut self, to: u64) -> BenchResult<()> {
        fill(&self.server, self.of, self.next..to)?;
        for number in self.next..to {
            self.names.push_back(self.name(number));
        }
        self.next = self.next.max(to);
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        let (object, _) = self.of.make(number, NAMESPACE);
        let name = object["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }

    /// Deletes an object without a grace period, because no kubelet stops a Pod.
    async fn delete(&self, name: &str) -> BenchResult<()> {
        let path = self.of.path(NAMESPACE);
        let path = format!("{path}/{name}?gracePeriodSeconds=0");
        let request = Request::delete(&path).body(Empty::<Bytes>::new())?;
        let answer = self.server.service().oneshot(request).await?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(format!("DELETE {path}: {}", answer.status()).into())
    }

    fn touch(&mut self) -> BenchResult<()> {
        let Some(name) = self.names.pop_front() else {
            return Ok(());
        };
        let annotations = json!({NUMBER: self.next.to_string()});
        let patch = json!({"metadata": {"annotations": annotations}});
        self.server
            .merge_patch(self.of.resource(), NAMESPACE, &name, &patch)?;
        self.names.push_back(name);
        self.next += 1;
        Ok(())
    }

    async fn replace(&mut self) -> BenchResult<()> {
        let Some(name) = self.names.pop_front() else {
            return Ok(());
        };
        self.delete(&name).await?;
        add(&self.server, self.of, self.next)?;
        self.names.push_back(self.name(self.next));
        self.next += 1;
        Ok(())
    }
}

/// Changes one object repeatedly, and returns the time in seconds.
async fn write(server: &ApiServer, writes: u64, per_second: u32, bytes: usize) -> BenchResult<f64> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "watched", "namespace": "kube-public"},
        "data": {"payload": "x".repeat(bytes.saturating_sub(400))},
    });
    server.create(object)?;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second);
    let began = Instant::now();
    for number in 1..writes {
        tick.tick().await;
        let patch = json!({"data": {"number": number.to_string()}});
        server.merge_patch("configmaps", "kube-public", "watched", &patch)?;
    }
    Ok(began.elapsed().as_secs_f64())
}
