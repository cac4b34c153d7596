//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use example_program::BoxError;
use example_program::cluster::{Cluster, EmbeddedServer};
use example_program::once::{run_until, until_ready};
use example_program::setup::{check_served, create_if_absent, install, print_yaml};
use example_program::story::{Story, seconds};
use steersman::cli::{Config, OperatorArgs};
use steersman::crds::Crds;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use steersman::{ObjectKey, shutdown_signal};
use steersman_testenv::apiserver::play::Speed;
use website_operator::webhooks::{self, NAME, WebhookService};
use website_operator::website::Website;
use website_operator::{Settings, children, controller};

/// Serves websites from ConfigMaps.
///
/// Uses the cluster that --kubeconfig, KUBECONFIG, the Pod's service account or ~/.kube/config names. If none is
/// configured, or with --embedded, it starts an API server in this process, with a sample website, for use with
/// kubectl.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
struct Args {
    /// Exit once every website is ready, or print what is missing
    #[arg(long)]
    once: bool,
    /// Start an API server in this process, even if a cluster is configured
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    embedded: bool,
    /// Install the definition of the Website kind first, with both versions, which needs the webhooks
    #[arg(long)]
    install: bool,
    /// Install the definition with its newest version alone, which needs no webhooks
    #[arg(long, conflicts_with_all = ["embedded", "webhook_bind_address"])]
    install_newest_version_only: bool,
    /// Create the sample website first
    #[arg(long)]
    sample: bool,
    /// Print the definition of the Website kind as YAML, and exit
    #[arg(long)]
    print_crd: bool,
    /// The address of the webhooks, such as :9443; "0" for none. The Service website-operator in the namespace of
    /// this Pod has to lead to it; manifests/webhooks.yaml has that Service. The embedded API server uses a free port
    #[arg(long, default_value = "0")]
    webhook_bind_address: String,
    /// The file for the kubeconfig of the embedded API server
    #[arg(long, default_value = "website-operator.kubeconfig")]
    write_kubeconfig: PathBuf,
    #[command(flatten)]
    operator: OperatorArgs<Settings>,
}

/// The manifest of the Service and the configurations of the webhooks.
const MANIFEST: &str = include_str!("../manifests/webhooks.yaml");

/// The namespace of the Service in the manifest.
const NAMESPACE: &str = "websites-system";

/// The manifest of the sample: the pages, and the Website.
const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// What a user does if the server does not serve the kind.
const NOT_INSTALLED: &str = "run again with --install and --webhook-bind-address, or with --install-newest-version-only, \
                             or install the definition with `kubectl apply -f manifests/crd.yaml`";

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    args.operator.exit_code(run(&args).await)
}

async fn run(args: &Args) -> Result<(), BoxError> {
    args.operator.init_logging()?;
    if args.print_crd {
        return print_yaml(webhooks::converted(&ObjectKey::namespaced(NAMESPACE, NAME)).content());
    }
    let config = args.operator.config()?.version(env!("CARGO_PKG_VERSION"));
    let server = EmbeddedServer {
        // A Pod becomes ready after a second.
        speed: Speed::brisk().start(Duration::from_secs(1)),
        // A server that runs for a moment needs no kubeconfig, and must not replace that of another one.
        kubeconfig: Some(args.write_kubeconfig.as_path()).filter(|_| !args.once),
        hints: &[
            "get websites",
            "scale website hello --replicas 3",
            "get pods -w",
        ],
    };
    let cluster = Cluster::find(&config, args.embedded, server).await?;
    let ended = operate(args, &config, &cluster).await;
    // After a failure as well: otherwise the kubeconfig would stay and name a closed port.
    cluster.stop().await;
    ended
}

/// Runs the operator until it is stopped, or with --once until every website is ready.
async fn operate(
    args: &Args,
    config: &Config<Settings>,
    cluster: &Cluster,
) -> Result<(), BoxError> {
    let webhooks = WebhookService::find(cluster, &args.webhook_bind_address)?;
    let is_embedded = cluster.embedded.is_some();
    let is_newest_only = args.install_newest_version_only;
    let installs = args.install || is_newest_only || is_embedded;
    let definition = installs.then(|| webhooks::definition(webhooks.as_ref(), is_newest_only));
    let definition = definition.transpose()?;
    let mut builder = config.manager_over(cluster.client_config.clone(), NAME);
    if let Some(webhooks) = &webhooks {
        builder = builder.webhooks(webhooks::server(webhooks, config));
    }
    if let Some(definition) = &definition {
        builder = builder.crds(Crds::new().with(definition.clone()));
    }
    let manager = builder.build()?;
    controller::declare(&manager)?;

    let (client, console) = (manager.client(), config.console());
    let has_sample = args.sample || is_embedded;
    // Otherwise the leader installs the definition, when it leads.
    let definition = definition.filter(|_| has_sample || args.once);
    let webhooks = webhooks.filter(|_| definition.is_some());
    if let Some(definition) = definition {
        install(client, definition, console).await?;
    } else if args.once {
        // An operator that stays waits for a missing definition, a missing permission and an unreachable server.
        check_served::<Website>(client, config.namespaces(), NOT_INSTALLED).await?;
    }
    if has_sample {
        let (pages, site) = SAMPLE.split_once("\n---\n").unwrap_or_default();
        create_if_absent::<ConfigMap, _>(client, pages).await?;
        let key = create_if_absent::<Website, _>(client, site).await?;
        console.say(format_args!("the sample Website {key} is there"));
    }
    if let Some(webhooks) = webhooks {
        // Last: the webhooks answer when the operator has started.
        webhooks.configure(client, MANIFEST, NAMESPACE).await?;
    }

    let story = Story::new(&manager, console, seconds())
        .objects(wish)?
        .children::<Deployment>(|_| None)?
        .children::<Service>(|_| None)?
        .children(phase)?;
    let ready = until_ready::<Website>(manager.cache(), &children::NEED_USER);
    match args.once {
        true => run_until(&manager, ready).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    Ok(story.end().await?)
}

fn phase(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    Some(format!("is {}", phase.unwrap_or("Unknown")))
}

fn wish(site: &Website) -> String {
    let (spec, pages) = (&site.spec, &site.spec.pages);
    let (replicas, image) = (spec.replicas, &spec.image);
    format!("wants {replicas} of {image}, serving ConfigMap {pages}")
}
