//! The operator's binary: finds a cluster or starts an API server, and runs the operator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cronjob_operator::cron_job::CronJob;
use cronjob_operator::job::{self, JobState};
use cronjob_operator::{Settings, controller, once};
use example_program::BoxError;
use example_program::cluster::{Cluster, EmbeddedServer};
use example_program::once::run_until;
use example_program::setup::{check_served, create_if_absent, install, print_yaml};
use example_program::story::Story;
use steersman::cli::{Config, OperatorArgs};
use steersman::crds::Crd;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::kube_core::CustomResourceExt as _;
use steersman::shutdown_signal;
use steersman_testenv::apiserver::play::Speed;
use tokio::runtime::{Builder, Runtime};

/// Starts Jobs by a schedule.
///
/// Uses the cluster that --kubeconfig, KUBECONFIG, the Pod's service account or ~/.kube/config names. With --embedded
/// it starts an API server in this process, with a sample CronJob.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
struct Args {
    /// Exit once each CronJob has completed some Jobs; with --embedded, minutes pass in milliseconds
    #[arg(long)]
    once: bool,
    /// The number of Jobs that --once waits for, per CronJob
    #[arg(long, default_value_t = 4)]
    completed: usize,
    /// Start an API server in this process, even if a cluster is configured
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    embedded: bool,
    /// Install the definition of the CronJob kind first
    #[arg(long)]
    install: bool,
    /// Create the sample CronJob first
    #[arg(long)]
    sample: bool,
    /// Print the definition of the CronJob kind as YAML, and exit
    #[arg(long)]
    print_crd: bool,
    /// The file for the kubeconfig of the embedded API server, if it keeps running
    #[arg(long, default_value = "cronjob-operator.kubeconfig")]
    write_kubeconfig: PathBuf,
    #[command(flatten)]
    operator: OperatorArgs<Settings>,
}

const SAMPLE: &str = include_str!("../manifests/sample.yaml");

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = runtime(args.once && args.embedded)
        .map_err(BoxError::from)
        .and_then(|runtime| runtime.block_on(run(&args)));
    args.operator.exit_code(ended)
}

/// Makes the runtime. On a paused clock timers fire as soon as no task has work, so that a minute of the schedule takes
/// no time; that works only without a network.
fn runtime(is_paused: bool) -> std::io::Result<Runtime> {
    if is_paused {
        let mut runtime = Builder::new_current_thread();
        return runtime.enable_all().start_paused(true).build();
    }
    Builder::new_multi_thread().enable_all().build()
}

async fn run(args: &Args) -> Result<(), BoxError> {
    args.operator.init_logging()?;
    if args.print_crd {
        return print_yaml(&CronJob::crd());
    }
    let config = args.operator.config()?.version(env!("CARGO_PKG_VERSION"));
    let cluster = cluster(args, &config).await?;
    let ended = operate(args, &config, &cluster).await;
    // After a failure as well: otherwise the kubeconfig would stay and name a closed port.
    cluster.stop().await;
    ended
}

async fn cluster(args: &Args, config: &Config<Settings>) -> Result<Cluster, BoxError> {
    let console = config.console();
    // The Pod of a Job runs for five seconds.
    let speed = Speed::brisk().complete(Duration::from_secs(5));
    match (args.embedded, args.once) {
        (true, true) => {
            console.say(
                "started an API server in this process; its clock skips the time in which nothing happens",
            );
            Ok(Cluster::in_process(speed))
        }
        (true, false) => {
            let server = EmbeddedServer {
                speed,
                kubeconfig: Some(&args.write_kubeconfig),
                hints: &["get cronjobs.batch.example.com,jobs -w"],
            };
            server.start(console, "").await
        }
        (false, _) => match Cluster::configured(config).await {
            Err(error) if error.is_no_config() => {
                Err(format!("{error}: name a cluster, or run again with --embedded").into())
            }
            found => Ok(found?),
        },
    }
}

/// Runs the operator until it is stopped, or with --once until Jobs have completed.
async fn operate(
    args: &Args,
    config: &Config<Settings>,
    cluster: &Cluster,
) -> Result<(), BoxError> {
    let clock = cluster.clock();
    let builder = config.manager_over(cluster.client_config.clone(), "cronjob-operator");
    let manager = builder.clock(clock.clone()).build()?;
    let (client, console) = (manager.client(), config.console());
    match args.install || args.embedded {
        true => install(client, Crd::new(&CronJob::crd()), console).await?,
        false => check_served::<CronJob>(client, &[], "run again with --install").await?,
    }
    if args.sample || args.embedded {
        let key = create_if_absent::<CronJob, _>(client, SAMPLE).await?;
        console.say(format_args!("the sample CronJob {key} is there"));
    }
    controller::declare(&manager)?;
    let time = move || clock().strftime("%H:%M:%S").to_string();
    let story = Story::new(&manager, console, time)
        .objects::<CronJob>(|cron| format!("has the schedule {}", cron.spec.schedule))?
        .children::<Job>(|job| match job::state(job) {
            JobState::Active => None,
            JobState::Complete => Some("is complete".to_owned()),
            JobState::Failed => Some("failed".to_owned()),
        })?;
    match args.once {
        true => run_until(&manager, once::until_completed(&manager, args.completed)).await?,
        false => manager.start(shutdown_signal()).await?,
    }
    Ok(story.end().await?)
}
