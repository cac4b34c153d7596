//! Driver: `cargo steersman dev`, which runs an operator with an API server during development.

pub(crate) mod page_source;
mod clock;
mod confirmation;
mod changes;
mod samples;
mod answered;
mod cluster;
pub(crate) mod interruption;
pub(crate) mod view;
mod lines;
mod loopback;
mod endpoint;
pub(crate) mod output;
mod operator;
mod built;
mod injector;
pub(crate) mod terminal;
mod real;
mod session;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use tokio::time::Instant;

use self::cluster::DevCluster;
use self::confirmation::confirm;
use self::output::SessionOutput;
use self::real::RealCluster;
use self::samples::Samples;
use self::session::{ACCOUNT, Session, SessionCluster, SessionPlace};
use self::terminal::TerminalView;
use self::view::model::{Heading, ShownParts};
use crate::command_line::DevArgs;
use crate::error::Error;
use crate::project::Project;
use crate::screen::say;
use crate::shell_words::path_word;

pub(crate) async fn dev(args: &DevArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let samples = Samples::find(&project.folder, args.samples.as_deref())?;
    let kubeconfig = project.folder.join(&args.kubeconfig);
    match args.real.real {
        false => on_this_machine(args, project, samples, kubeconfig).await,
        true => in_a_cluster(args, project, samples, kubeconfig).await,
    }
}

/// Runs the operator with an embedded API server, which loses its objects at the end.
async fn on_this_machine(
    args: &DevArgs,
    project: Project,
    samples: Samples,
    kubeconfig: PathBuf,
) -> Result<(), Error> {
    let cluster = DevCluster::start(args.port, &kubeconfig).await?;
    let heading = Heading {
        name: project.name.clone(),
        server: cluster.serving.url(),
        access: format!("export KUBECONFIG={}", path_word(&kubeconfig)),
        shown: ShownParts::WithServer,
    };
    let first = format!("an API server runs at {}", heading.server);
    let lines = [first, heading.access.clone()];
    let place = SessionPlace {
        project,
        kubeconfig: kubeconfig.clone(),
        samples: Some(samples),
        cluster: SessionCluster::Embedded(Box::new(cluster)),
    };
    let ended = run(args, place, heading, &lines).await;
    if !args.once {
        // The server has stopped, so the kubeconfig is of no use any more.
        let _ = std::fs::remove_file(&kubeconfig);
        let _ = std::fs::remove_file(kubeconfig.with_file_name(ACCOUNT));
    }
    ended
}

/// Runs the operator with the cluster of a kubeconfig.
async fn in_a_cluster(
    args: &DevArgs,
    project: Project,
    samples: Samples,
    kubeconfig: PathBuf,
) -> Result<(), Error> {
    let cluster = RealCluster::find(args.real.context.as_deref()).await?;
    confirm(&cluster.to_string(), args.real.yes)?;
    let heading = Heading {
        name: project.name.clone(),
        server: cluster.url(),
        access: match cluster.context() {
            Some(context) => format!("context {context}; the objects stay in the cluster"),
            None => "the objects stay in the cluster".to_owned(),
        },
        shown: ShownParts::WithCluster,
    };
    let place = SessionPlace {
        project,
        kubeconfig,
        samples: args.samples.is_some().then_some(samples),
        cluster: SessionCluster::Real(Box::new(cluster)),
    };
    let ended = run(args, place, heading, &[]).await;
    say("the definitions and all objects stay in the cluster");
    ended
}

/// Runs a session in a terminal view if possible; otherwise prints `lines` first and then plain lines.
async fn run(
    args: &DevArgs,
    place: SessionPlace,
    heading: Heading,
    lines: &[String],
) -> Result<(), Error> {
    if !has_view(args) {
        let output = SessionOutput::Lines(Instant::now());
        for line in lines {
            output.say(line);
        }
        return Session::run(args, place, output, None).await;
    }
    let (view, sender, keys) = TerminalView::open(heading, place.cluster.server())?;
    let output = SessionOutput::View(sender);
    let ended = Session::run(args, place, output, Some(keys)).await;
    view.close().await;
    ended
}

/// Returns whether the session has a terminal view, which needs a terminal for its picture and its keys.
fn has_view(args: &DevArgs) -> bool {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    is_terminal && is_able && !args.plain && !args.once
}
