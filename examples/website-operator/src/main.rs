//! The operator's binary: finds a cluster or starts an API server, and runs both controllers.
#![expect(clippy::print_stdout, reason = "it tells its user what happens")]
#![expect(clippy::print_stderr, reason = "it tells its user what went wrong")]

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use steersman::informer::{Delivery, Subscription};
use steersman::object::Object as _;
use steersman::{Connection, Manager, report, shutdown_signal};
use steersman_testenv::apiserver::{ApiServer, Serving};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use website_operator::narrator::Narrator;
use website_operator::website::Website;
use website_operator::{controller, setup, workloads};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a pod of the played workloads takes to become ready.
const STARTUP: Duration = Duration::from_secs(1);

/// How long --once waits for the websites.
const PATIENCE: Duration = Duration::from_secs(120);

/// Serves websites from ConfigMaps.
///
/// Uses the cluster that KUBECONFIG, ~/.kube/config or the pod's service account names. Where there
/// is none, it starts an API server in this process, with a sample website, for kubectl to play with.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
struct Args {
    /// Exit once every website is ready, or say what is missing.
    #[arg(long)]
    once: bool,
    /// Install the definition of the Website kind first.
    #[arg(long)]
    install: bool,
    /// Create the sample website first.
    #[arg(long)]
    sample: bool,
    /// Play the cluster's own controllers, for servers that have none: Deployments get pods that run.
    #[arg(long)]
    play_workloads: bool,
    /// Where to write the kubeconfig of the API server started here.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "website-operator.kubeconfig"
    )]
    kubeconfig: PathBuf,
}

/// Where the operator works.
struct Cluster {
    connection: Connection,
    /// The API server started here, which lives as long as this.
    embedded: Option<Serving>,
}

#[tokio::main]
async fn main() -> ExitCode {
    // Logs go to stderr and begin at warnings; RUST_LOG=info shows more. The transport would log
    // again what comes back to us as an error.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,kube_client::client::builder=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", report(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let cluster = Cluster::find(&args).await?;
    // What a cluster would do by itself, or has been given already, the embedded server needs done.
    let embedded = cluster.embedded.is_some();
    let manager = Manager::builder(cluster.connection.clone()).build()?;
    let client = manager.client();
    if args.install || embedded {
        setup::install(client).await?;
        println!("installed the definition websites.web.example.com");
    } else {
        setup::check(client).await?;
    }
    if args.sample || embedded {
        println!(
            "created the sample Website {}",
            setup::sample(client).await?
        );
    }

    controller::declare(&manager)?;
    if args.play_workloads || embedded {
        workloads::declare(&manager, STARTUP)?;
    }
    let narrator = tokio::spawn(narrate(Narrator::listen(&manager)?));
    let sites = manager.cache().informer::<Website>()?.subscribe();
    if args.once {
        let stop = CancellationToken::new();
        let done = stop.clone().drop_guard();
        let outcome = tokio::spawn(async move {
            let _done = done;
            until_ready(sites).await
        });
        manager.start(stop).await?;
        narrator.await?;
        outcome.await??;
    } else {
        drop(sites);
        manager.start(shutdown_signal()).await?;
        narrator.await?;
    }
    if let Some(serving) = cluster.embedded {
        serving.stop().await;
    }
    Ok(())
}

async fn narrate(mut narrator: Narrator) {
    let start = Instant::now();
    while let Some(line) = narrator.next().await {
        println!("{:7.2}s  {line}", start.elapsed().as_secs_f64());
    }
}

/// Waits until there are websites and every one is ready.
async fn until_ready(mut sites: Subscription<Website>) -> Result<(), BoxError> {
    let mut seen = std::collections::BTreeMap::new();
    let all_ready = async {
        let mut synced = false;
        while let Some(delivery) = sites.next().await {
            if let Delivery::Event(event) = &delivery {
                match event.new() {
                    Some(site) => seen.insert(site.key().clone(), site.body()),
                    None => seen.remove(event.object().key()),
                };
            }
            synced |= matches!(delivery, Delivery::Synced);
            if synced && seen.is_empty() {
                return Err("there is no Website: create one, or run again with --sample".into());
            }
            if synced && seen.values().all(|site| site.is_ready()) {
                return Ok(());
            }
        }
        Err("the watch of websites ended".into())
    };
    let timely = tokio::time::timeout(PATIENCE, all_ready).await;
    timely.unwrap_or_else(|_| Err(not_ready(seen.values().map(|site| &**site)).into()))
}

/// Which sites are not ready, and what they say about it.
fn not_ready<'a>(sites: impl Iterator<Item = &'a Website>) -> String {
    let waiting: Vec<String> = sites
        .filter(|site| !site.is_ready())
        .map(|site| match site.ready_condition() {
            Some(condition) => format!("{}: {}", site.key(), condition.message),
            None => format!("{}: no status was written", site.key()),
        })
        .collect();
    format!(
        "not ready after {} s: {} (on a server without a controller-manager and nodes, run again \
         with --play-workloads)",
        PATIENCE.as_secs(),
        waiting.join("; ")
    )
}

// ===== impl Cluster =====

impl Cluster {
    /// The configured cluster; where nothing is configured, an API server in this process.
    async fn find(args: &Args) -> Result<Self, BoxError> {
        match Connection::infer().await {
            Ok(connection) => {
                println!("using the cluster at {}", connection.endpoint());
                Ok(Self {
                    connection,
                    embedded: None,
                })
            }
            Err(error) if error.is_no_config() => Self::embedded(args).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn embedded(args: &Args) -> Result<Self, BoxError> {
        let server = ApiServer::new();
        let serving = server.serve("127.0.0.1:0").await?;
        serving.write_kubeconfig(&args.kubeconfig)?;
        let file = args.kubeconfig.display();
        println!(
            "no cluster is configured: started an API server at {}",
            serving.url()
        );
        if !args.once {
            println!("try: kubectl --kubeconfig {file} get websites");
            println!("     kubectl --kubeconfig {file} scale website hello --replicas 3");
            println!("     kubectl --kubeconfig {file} get pods -w");
        }
        let connection = Connection::in_process(server.service(), "default");
        Ok(Self {
            connection,
            embedded: Some(serving),
        })
    }
}
