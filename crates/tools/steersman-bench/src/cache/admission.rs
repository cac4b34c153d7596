//! Driver: measures what a webhook adds to a write, and how many reviews a webhook decides.
//!
//! The API server, the server of the webhook and the client are in one process: all in one thread, as in a test of
//! tokio, or each in threads of its own. The connections between them are HTTPS over loopback.

mod echo;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_api::{Api, ClientConfig, WriteOptions};
use steersman_apiserver::ApiServer;
use steersman_object::ObjectKey;
use steersman_serve::{Server, SharedCertificate, TlsOptions};
use steersman_webhook::{
    AdmissionContext, Defaulter, Refusal, Validator, WebhookMetrics, WebhookServer,
};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Handle};
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::apart::{ServerApart, one_thread};
use super::words::ClientRole;
use crate::process::{Actor, BenchResult, cpu_time, repeat};
use crate::report::{Figure, Spread};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AdmissionFigures {
    /// All in one thread.
    together: Times,
    /// Each in threads of its own.
    apart: Times,
    /// The time of an echo over TLS between two threads, in microseconds.
    echo: f64,
    /// Reviews per second of processor time.
    reviews: f64,
}

/// Median times of a write, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Times {
    without: f64,
    with: f64,
    /// The median time with a pause before each write.
    rested_without: f64,
    rested_with: f64,
}

/// A defaulter and a validator of ConfigMaps.
struct Checked;

const NAMESPACE: &str = "default";
const PATH: &str = "/mutate--v1-configmap";
/// The pause between two writes, as in the measurement of latencies. Each write then wakes all tasks from sleep.
const QUIET: Duration = Duration::from_millis(2);

impl Defaulter<ConfigMap> for Checked {
    async fn default(&self, object: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        let data = object.data.get_or_insert_default();
        data.entry("added".to_owned())
            .or_insert_with(|| "yes".to_owned());
        Ok(())
    }
}

impl Validator<ConfigMap> for Checked {
    async fn validate_create(&self, new: &ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        match &new.data {
            Some(data) if data.len() > 100 => Err(Refusal::denied("at most 100 keys")),
            _ => Ok(()),
        }
    }

    async fn validate_update(
        &self,
        _: &ConfigMap,
        new: &ConfigMap,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        self.validate_create(new, ctx).await
    }
}

pub(crate) async fn measure_all(quick: bool) -> BenchResult<Vec<Figure>> {
    let (writes, runs) = if quick { (50, 2) } else { (2000, 5) };
    let what = format!("{writes} writes without and with a webhook");
    let role = ClientRole::Admission { writes };
    let measured: Vec<AdmissionFigures> =
        repeat(runs, what, async || Actor::client(&role)?.report().await).await?;
    let over = |of: fn(&AdmissionFigures) -> f64| Spread::over(&measured, of);
    let writes =
        format!("median of {writes} creations of a ConfigMap one after another, over HTTPS");
    let time = |id: &str, what: &str, of: fn(&AdmissionFigures) -> f64| {
        Figure::new(&format!("webhooks/{id}"), what, "µs", over(of))
    };
    let without = format!("time of a write without webhooks, {writes}, everything in one thread");
    let added =
        format!("time that a typed defaulter adds to a write, {writes}, everything in one thread");
    let apart = "a write without webhooks, the client and both servers in threads of their own";
    let rested = "the same with 2 ms of rest before each write, which every thread spends asleep";
    let echo = "time of an echo of as many bytes as a review and its answer have, over TLS between two threads, without HTTP";
    Ok(vec![
        time("without", &without, |one| one.together.without),
        time("added", &added, |one| {
            one.together.with - one.together.without
        })
        .at_most(150.0),
        time("apart/without", apart, |one| one.apart.without),
        time("apart/added", "what the defaulter adds then", |one| {
            one.apart.with - one.apart.without
        })
        .at_most(150.0),
        time("apart/rested", rested, |one| {
            one.apart.rested_with - one.apart.rested_without
        }),
        time("echo", echo, |one| one.echo),
        Figure::new(
            "webhooks/reviews",
            "rate of reviews that typed webhooks decide on one core, in process: a defaulter that adds a key, then a validator",
            "reviews/s",
            over(|one| one.reviews),
        )
        .more_is_better()
        .at_least(5000.0),
    ])
}

pub(crate) async fn measure(writes: u32) -> BenchResult<AdmissionFigures> {
    let webhooks = WebhookServer::new("127.0.0.1:0")
        .defaulter::<ConfigMap>(Checked)
        .validator::<ConfigMap>(Checked);
    let reviews = rate(&webhooks, writes).await?;

    let echo = echo::measure(writes).await?;

    let apart = ServerApart::serve([]).await?;
    let runtime = one_thread()?;
    let (kubeconfig, there) = (apart.kubeconfig(), runtime.handle());
    let times_apart = times(&apart.server, kubeconfig, &webhooks, there, writes).await?;
    runtime.shutdown_background();

    let together = spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let server = ApiServer::new();
            let serving = server.serve("127.0.0.1:0").await?;
            let kubeconfig = NamedTempFile::new()?;
            serving.write_kubeconfig(kubeconfig.path())?;
            let here = Handle::current();
            times(&server, kubeconfig.path(), &webhooks, &here, writes).await
        })
    });
    Ok(AdmissionFigures {
        together: together.await??,
        apart: times_apart,
        echo,
        reviews,
    })
}

/// Measures writes before and after there is a webhook, which runs in `runtime`.
async fn times(
    server: &ApiServer,
    kubeconfig: &Path,
    webhooks: &WebhookServer,
    runtime: &Handle,
    writes: u32,
) -> BenchResult<Times> {
    let client = ClientConfig::from_kubeconfig(kubeconfig).await?;
    let api = Api::<ConfigMap>::typed(client.connect().await?);
    let without = median(&api, "without", writes, Duration::ZERO).await?;
    let rested_without = median(&api, "rested-without", writes, QUIET).await?;

    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let chain = own.cert.pem();
    let certificate = SharedCertificate::new();
    certificate.set(&chain, own.signing_key.serialize_pem())?;
    let options = webhooks.server_options(TlsOptions::shared(certificate));
    let routes = webhooks.routes_with(&WebhookMetrics::register(&prometheus::Registry::new())?)?;
    let (address, stop) = (webhooks.address().clone(), CancellationToken::new());
    let bound = runtime
        .spawn(async move { Server::bind("webhook", &address, options).await })
        .await??;
    let url = format!("https://{}{PATH}", bound.local_address());
    runtime.spawn(bound.run(routes, stop.clone()));
    configure(server, &url, &chain)?;
    let with = median(&api, "with", writes, Duration::ZERO).await?;
    let rested_with = median(&api, "rested-with", writes, QUIET).await?;
    stop.cancel();
    Ok(Times {
        without,
        with,
        rested_without,
        rested_with,
    })
}

fn configure(server: &ApiServer, url: &str, chain: &str) -> BenchResult<()> {
    use base64::Engine as _;
    let bundle = base64::engine::general_purpose::STANDARD.encode(chain);
    server.create(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "defaults"},
        "webhooks": [{
            "name": "defaults.example.com",
            "clientConfig": {"url": url, "caBundle": bundle},
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))?;
    Ok(())
}

/// Returns the median time of a creation, in microseconds. The writes run in a task, as those of a controller do.
async fn median(
    api: &Api<ConfigMap>,
    prefix: &str,
    writes: u32,
    pause: Duration,
) -> BenchResult<f64> {
    let (api, prefix) = (api.clone(), prefix.to_owned());
    let written = tokio::spawn(async move {
        let mut times = Vec::new();
        for number in 0..writes {
            let object = ConfigMap {
                metadata: ObjectKey::namespaced(NAMESPACE, format!("{prefix}-{number}")).to_meta(),
                ..ConfigMap::default()
            };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let begun = Instant::now();
            api.create(&object, &WriteOptions::new()).await?;
            times.push(begun.elapsed());
        }
        Ok::<_, steersman_api::Error>(times)
    });
    Ok(middle(&written.await??))
}

/// Returns the median of times, in microseconds.
fn middle(times: &[Duration]) -> f64 {
    Spread::over(times, |time| time.as_secs_f64() * 1e6).median
}

/// Returns the number of reviews that the webhooks decide per second of processor time.
async fn rate(webhooks: &WebhookServer, reviews: u32) -> BenchResult<f64> {
    let service = webhooks.in_process()?;
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "0b4ac1a5-9ad1-44f0-a72b-8ed1ae4c3ea1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "operation": "CREATE", "name": "a", "namespace": NAMESPACE, "userInfo": {"username": "jane"},
        "object": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": NAMESPACE, "labels": {"app": "a"}},
            "data": {"one": "1", "two": "2", "text": "x".repeat(1000)},
        },
    }});
    let body = Arc::new(Bytes::from(review.to_string()));
    let begun = cpu_time();
    for number in 0..reviews {
        let path = match number % 2 {
            0 => PATH,
            _ => "/validate--v1-configmap",
        };
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::clone(&body)))?;
        let response = service.clone().oneshot(request).await?;
        if !response.status().is_success() {
            return Err(format!("a review was answered with {}", response.status()).into());
        }
    }
    let seconds = (cpu_time() - begun).as_secs_f64();
    Ok(f64::from(reviews) / seconds)
}
