//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use steersman::CancellationToken;
use steersman::kube_core::CustomResourceExt as _;
use steersman::{Connection, Manager, report, shutdown_signal};
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::{ApiServer, Serving};
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use website_operator::narrator::Narrator;
use website_operator::website::Website;
use website_operator::{controller, once, setup};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The time that a Pod on the embedded API server takes to become ready.
const STARTUP: Duration = Duration::from_secs(1);

/// Serves websites from ConfigMaps.
///
/// Uses the cluster that KUBECONFIG, ~/.kube/config or the Pod's service account names. If none is
/// configured, it starts an API server in this process, with a sample website, for use with kubectl.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
struct Args {
    /// Exit once every website is ready, or print what is missing.
    #[arg(long)]
    once: bool,
    /// Install the definition of the Website kind first.
    #[arg(long)]
    install: bool,
    /// Create the sample website first.
    #[arg(long)]
    sample: bool,
    /// Print the definition of the Website kind as YAML, and exit.
    #[arg(long)]
    print_crd: bool,
    /// The file for the kubeconfig of the embedded API server.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "website-operator.kubeconfig"
    )]
    kubeconfig: PathBuf,
}

/// The cluster that the operator works on.
struct Cluster {
    connection: Connection,
    /// The embedded API server, which is stopped with this value.
    embedded: Option<Embedded>,
}

/// The embedded API server, and the kubeconfig that was written for it.
struct Embedded {
    serving: Serving,
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", report(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    start_log()?;
    if args.print_crd {
        say(serde_saphyr::to_string(&Website::crd())?);
        return Ok(());
    }
    let cluster = Cluster::find(&args).await?;
    // The definition and the sample of the embedded server are always installed.
    let embedded = cluster.embedded.is_some();
    let manager = Manager::builder(cluster.connection.clone()).build()?;
    let client = manager.client();
    if args.install || embedded {
        setup::install(client).await?;
        say("the definition websites.web.example.com is installed");
    } else {
        setup::check(client).await?;
    }
    if args.sample || embedded {
        let key = setup::sample(client).await?;
        say(format_args!("the sample Website {key} is there"));
    }

    controller::declare(&manager)?;
    let narrator = tokio::spawn(narrate(Narrator::listen(&manager)?));
    if args.once {
        let cache = manager.cache().clone();
        let sites = cache.informer::<Website>()?.subscribe();
        let stop = CancellationToken::new();
        let done = stop.clone().drop_guard();
        let running = manager.start(stop);
        let outcome = tokio::spawn(async move {
            let _done = done;
            once::until_ready(&cache, sites).await
        });
        let stopped = running.await;
        narrator.await?;
        // The reason of the stop is reported before errors of the stop.
        outcome.await??;
        stopped?;
    } else {
        manager.start(shutdown_signal()).await?;
        narrator.await?;
    }
    if let Some(embedded) = cluster.embedded {
        embedded.stop().await;
    }
    Ok(())
}

async fn narrate(mut narrator: Narrator) {
    let start = Instant::now();
    while let Some(line) = narrator.next().await {
        let time = start.elapsed().as_secs_f64();
        say(format_args!("{time:7.2}s  {line}"));
    }
}

/// Prints a line for the user. A closed standard output is no error.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Starts the log on stderr with the level `warn`; `RUST_LOG=info` shows more. Log lines of the
/// HTTP transport are off, because the framework returns its errors.
fn start_log() -> Result<(), BoxError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(wanted) => EnvFilter::try_new(&wanted)
            .map_err(|problem| format!("RUST_LOG={wanted} is not a log filter: {problem}"))?,
        Err(_) => EnvFilter::new("warn,kube_client::client::builder=off"),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

// ===== impl Cluster =====

impl Cluster {
    /// Returns the configured cluster, or an API server in this process if none is configured.
    async fn find(args: &Args) -> Result<Self, BoxError> {
        match Connection::infer().await.map(named) {
            Ok(connection) => {
                say(format_args!(
                    "using the cluster at {}",
                    connection.endpoint()
                ));
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
        let played = Played::everything().speed(Speed::brisk().start(STARTUP));
        let server = ApiServer::builder().play(played).build();
        let serving = server.serve("127.0.0.1:0").await?;
        let url = serving.url();
        say(format_args!(
            "no cluster is configured: started an API server at {url}"
        ));
        let connection = named(Connection::in_process(server.service(), "default"));
        let mut embedded = Embedded {
            serving,
            kubeconfig: None,
        };
        // With `--once` the server runs only for a moment, so it must not replace the kubeconfig of
        // another server.
        if !args.once {
            embedded.serving.write_kubeconfig(&args.kubeconfig)?;
            let file = args.kubeconfig.display();
            say("in another terminal:");
            say(format_args!("  kubectl --kubeconfig {file} get websites"));
            say(format_args!(
                "  kubectl --kubeconfig {file} scale website hello --replicas 3"
            ));
            say(format_args!("  kubectl --kubeconfig {file} get pods -w"));
            embedded.kubeconfig = Some(args.kubeconfig.clone());
        }
        Ok(Self {
            connection,
            embedded: Some(embedded),
        })
    }
}

// ===== impl Embedded =====

impl Embedded {
    /// Stops the server, and removes its kubeconfig unless another server has replaced the file.
    async fn stop(self) {
        let ours = self.serving.kubeconfig();
        if let Some(file) = self.kubeconfig
            && std::fs::read_to_string(&file).is_ok_and(|text| text == ours)
        {
            // If the file cannot be removed, it names a closed port, and kubectl reports that.
            let _ = std::fs::remove_file(&file);
        }
        self.serving.stop().await;
    }
}

/// Sets the program's name in the `User-Agent` of its requests.
fn named(connection: Connection) -> Connection {
    connection.user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}
