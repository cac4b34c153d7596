//! Driver: `cargo steersman dev`, which runs an operator with an API server while it is written.

mod clock;
mod changes;
mod samples;
mod answered;
mod cluster;
mod interruption;
mod lines;
mod loopback;
mod view;
mod endpoint;
mod output;
mod operator;
mod built;
mod injector;
mod terminal;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use steersman_object::report;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, interval, sleep};

use self::built::Built;
use self::changes::Changes;
use self::cluster::DevCluster;
use self::interruption::Interruption;
use self::lines::{ObjectLines, Readiness, is_of, name_of, readiness, request_line};
use self::loopback::free_port;
use self::operator::{OperatorStart, RunningOperator};
use self::output::SessionOutput;
use self::samples::Samples;
use self::terminal::View;
use self::view::model::{Heading, ViewEvent};
use crate::command_line::DevArgs;
use crate::error::Error;
use crate::project::Project;
use crate::screen::Screen;
use crate::shell_words::path_word;

/// A session of `dev`.
struct Session<'a> {
    args: &'a DevArgs,
    project: Project,
    kubeconfig: PathBuf,
    output: SessionOutput,
    cluster: DevCluster,
    objects: ObjectLines,
    samples: Samples,
    webhook_port: u16,
    interruption: Interruption,
    /// The key of the view that restarts the operator.
    restart: Option<UnboundedReceiver<()>>,
}

/// Why a session stops watching.
enum Turn {
    /// A source changed.
    Changed(PathBuf),
    /// With `--once`, all is ready.
    Ready,
    /// The operator ended by itself.
    Ended(Error),
    /// The operator shall be started again.
    Restart,
    /// ctrl-c.
    Interrupted,
}

/// The pause between two looks at the server.
const TICK: Duration = Duration::from_millis(100);
/// The time without a write or a request after which an operator has nothing to do.
const QUIET: Duration = Duration::from_secs(1);
/// How often samples are tried that the server refuses, because the webhooks have just started.
const TRIES: u32 = 20;

/// The file of the token of the diagnostics, beside the kubeconfig.
const TOKEN: &str = "diagnostics-token";

/// Runs the operator of the present folder.
pub(crate) async fn dev(args: &DevArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let samples = Samples::find(&project.folder, args.samples.as_deref())?;
    let kubeconfig = project.folder.join(&args.kubeconfig);
    let cluster = DevCluster::start(args.port, &kubeconfig).await?;
    let heading = Heading {
        name: project.name.clone(),
        server: cluster.url(),
        access: format!("export KUBECONFIG={}", path_word(&kubeconfig)),
        is_embedded: true,
    };
    let webhook_port = free_port()?;
    let (mut view, mut quit, mut restart) = (None, None, None);
    let output = match has_view(args) {
        true => {
            let server = cluster.server().clone();
            let (opened, sender, keys) = View::open(heading, Some(server))?;
            (view, quit, restart) = (Some(opened), Some(keys.quit), Some(keys.restart));
            SessionOutput::View(sender)
        }
        false => {
            let output = SessionOutput::Lines(Screen::start());
            output.say(format_args!("an API server runs at {}", heading.server));
            output.say(heading.access);
            output
        }
    };
    let ended = async {
        let mut session = Session {
            args,
            project,
            kubeconfig,
            output,
            cluster,
            objects: ObjectLines::default(),
            samples,
            webhook_port,
            interruption: Interruption::listen(quit)?,
            restart,
        };
        let ended = session.run().await;
        session.cluster.stop().await;
        if !args.once {
            // It names a closed port from now on.
            let _ = std::fs::remove_file(&session.kubeconfig);
            let _ = std::fs::remove_file(session.kubeconfig.with_file_name(TOKEN));
        }
        ended
    };
    let ended = ended.await;
    if let Some(view) = view {
        view.close().await;
    }
    ended
}

/// Returns whether the session has a view: if a person can see it and press keys.
fn has_view(args: &DevArgs) -> bool {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    is_terminal && is_able && !args.plain && !args.once
}

impl Session<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let mut changes = match self.args.once {
            true => None,
            false => Some(Changes::watch(&self.project.folder)?),
        };
        let mut running: Option<(RunningOperator, Built)> = None;
        let mut is_outdated = true;
        loop {
            if is_outdated {
                let build = Built::build(&self.project, self.args, &self.output);
                let built = tokio::select! {
                    built = build => Some(built),
                    () = self.interruption.next() => None,
                };
                let renewed = match built {
                    Some(Ok(built)) => self.renew(&mut running, built).await,
                    Some(Err(problem)) => Err(problem),
                    None => return self.end(running.take(), Turn::Interrupted).await,
                };
                if let Err(problem) = renewed {
                    if changes.is_none() {
                        return Err(problem);
                    }
                    self.output.complain(report(&problem));
                }
            }
            is_outdated = false;
            match self.watch(&mut running, changes.as_mut()).await? {
                Turn::Changed(path) => {
                    let path = path.strip_prefix(&self.project.folder).unwrap_or(&path);
                    self.output.say(format_args!("{} changed", path.display()));
                    is_outdated = true;
                }
                Turn::Ended(problem) if changes.is_none() => return Err(problem),
                Turn::Ended(problem) => {
                    self.output
                        .show(ViewEvent::OperatorEnded(problem.to_string()));
                    self.output.complain(format_args!(
                        "{problem}; a change of the sources starts it again"
                    ));
                    running = None;
                }
                Turn::Restart => match running.take() {
                    Some((operator, built)) => {
                        self.stop(operator).await;
                        match self.start(&built) {
                            Ok(operator) => running = Some((operator, built)),
                            Err(problem) => self.output.complain(report(&problem)),
                        }
                    }
                    None => is_outdated = true,
                },
                turn @ (Turn::Ready | Turn::Interrupted) => {
                    return self.end(running.take(), turn).await;
                }
            }
        }
    }

    /// Ends the session.
    async fn end(
        &self,
        running: Option<(RunningOperator, Built)>,
        turn: Turn,
    ) -> Result<(), Error> {
        if let Some((operator, _)) = running {
            self.stop(operator).await;
        }
        match turn {
            Turn::Interrupted if self.args.once => Err(Error::Interrupted {
                end: "all samples were ready",
            }),
            _ => Ok(()),
        }
    }

    /// Starts a built program in place of the running one unless that is the same, and applies the samples.
    async fn renew(
        &self,
        running: &mut Option<(RunningOperator, Built)>,
        built: Built,
    ) -> Result<(), Error> {
        let operator = match running.take() {
            Some((operator, before)) if before.is_same(&built) => operator,
            former => {
                if let Some((operator, _)) = former {
                    self.stop(operator).await;
                }
                self.start(&built)?
            }
        };
        *running = Some((operator, built));
        self.apply_samples().await
    }

    fn start(&self, built: &Built) -> Result<RunningOperator, Error> {
        let description = &built.description;
        self.cluster.install(description)?;
        let has_webhooks = !description.webhooks.is_empty() || !description.converted.is_empty();
        if has_webhooks {
            self.cluster
                .route_webhooks(description, self.webhook_port)?;
        }
        let token_file = self.kubeconfig.with_file_name(TOKEN);
        let start = OperatorStart {
            program: &built.program,
            kubeconfig: &self.kubeconfig,
            context: None,
            webhook_port: has_webhooks.then_some(self.webhook_port),
            token_file: matches!(self.output, SessionOutput::View(_)).then_some(&*token_file),
            more: &self.args.operator_args,
        };
        let operator = RunningOperator::start(start, description, &self.output)?;
        let name = &description.name;
        self.output.show_operator(name, operator.endpoint.clone());
        self.output.say(format_args!("{name} started"));
        Ok(operator)
    }

    async fn stop(&self, operator: RunningOperator) {
        operator.stop().await;
        self.output.show(ViewEvent::OperatorStopped);
    }

    /// Applies the samples; again and again while the webhooks start.
    async fn apply_samples(&self) -> Result<(), Error> {
        for _ in 1..TRIES {
            match self.cluster.apply(&self.samples) {
                Ok(0) => return Ok(()),
                Ok(number) => {
                    let samples = self.samples.shown.display();
                    let objects = match number {
                        1 => "1 object".to_owned(),
                        more => format!("{more} objects"),
                    };
                    let applied = format_args!("applied {objects} of {samples}");
                    self.output.say(applied);
                    return Ok(());
                }
                Err(Error::Refused { problem, .. }) if problem.contains("webhook") => {
                    sleep(Duration::from_millis(500)).await;
                }
                Err(problem) => return Err(problem),
            }
        }
        self.cluster.apply(&self.samples).map(drop)
    }

    /// Shows what happens, until something is to be done.
    async fn watch(
        &mut self,
        running: &mut Option<(RunningOperator, Built)>,
        mut changes: Option<&mut Changes>,
    ) -> Result<Turn, Error> {
        let mut ticks = interval(TICK);
        let began = Instant::now();
        let mut busy = Instant::now();
        let mut revision = self.cluster.revision();
        loop {
            let change = async {
                match changes.as_deref_mut() {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            let ended = async {
                match running.as_mut() {
                    Some((operator, _)) => operator.ended().await,
                    None => std::future::pending().await,
                }
            };
            let restart = async {
                match &mut self.restart {
                    Some(restart) => restart.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(()) = restart => return Ok(Turn::Restart),
                path = change => return Ok(Turn::Changed(path)),
                problem = ended => return Ok(Turn::Ended(problem)),
                () = self.interruption.next() => return Ok(Turn::Interrupted),
                _ = ticks.tick() => {}
            }
            let Some((operator, built)) = running else {
                continue;
            };
            let objects = self.cluster.objects(&built.description);
            let has_asked = self.show(&built.description.name, &objects);
            if has_asked || revision != self.cluster.revision() {
                (busy, revision) = (Instant::now(), self.cluster.revision());
            }
            if !self.args.once {
                continue;
            }
            // An object that does not say that it is ready.
            let mut waiting = objects.iter();
            let waiting = waiting.find(|object| readiness(object) != Readiness::Ready);
            if waiting.is_none() && busy.elapsed() >= QUIET && operator.is_ready().await {
                self.output.say("all samples are ready");
                return Ok(Turn::Ready);
            }
            if began.elapsed() >= self.args.timeout {
                let problem = match waiting {
                    _ if !operator.is_ready().await => {
                        format!("the operator is not ready: {}", operator.missing().await)
                    }
                    Some(object) => {
                        let name = name_of(object);
                        format!("{name} has no condition Ready that is True")
                    }
                    None => "the operator still sends requests".to_owned(),
                };
                let seconds = self.args.timeout.as_secs();
                return Err(Error::NotReady { seconds, problem });
            }
        }
    }

    /// Prints what is new. Returns whether the operator has sent a request.
    fn show(&mut self, program: &str, objects: &[Value]) -> bool {
        let mut has_asked = false;
        for record in self.cluster.new_requests() {
            has_asked |= is_of(&record, program);
            // The view reads the log itself.
            if let (SessionOutput::Lines(screen), Some(line)) =
                (&self.output, request_line(&record, program))
            {
                screen.say(line);
            }
        }
        for line in self.objects.changed(objects) {
            self.output.say(line);
        }
        has_asked
    }
}
