//! Driver: `cargo steersman dev`, which runs an operator with an API server while it is written.

mod changes;
mod samples;
mod cluster;
mod interruption;
mod lines;
mod operator;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use steersman_cli::Description;
use steersman_object::report;
use tokio::process::Command;
use tokio::time::{Instant, interval, sleep};

use self::changes::Changes;
use self::cluster::DevCluster;
use self::interruption::Interruption;
use self::lines::{ObjectLines, Readiness, is_of, name_of, readiness, request_line};
use self::operator::{RunningOperator, free_port};
use self::samples::Samples;
use crate::command_line::DevArgs;
use crate::error::Error;
use crate::project::{BuildOptions, Project, describe};
use crate::screen::Screen;
use crate::shell_words::path_word;

/// A session of `dev`.
struct Session<'a> {
    args: &'a DevArgs,
    project: Project,
    kubeconfig: PathBuf,
    screen: Screen,
    cluster: DevCluster,
    objects: ObjectLines,
    samples: Samples,
    webhook_port: u16,
    interruption: Interruption,
}

/// The built program, and what it says about itself.
struct Built {
    program: PathBuf,
    /// When it was built: a program that is not built anew keeps running.
    at: Option<SystemTime>,
    description: Description,
}

/// Why a session stops watching.
enum Turn {
    /// A source changed.
    Changed(PathBuf),
    /// With `--once`, all is ready.
    Ready,
    /// The operator ended by itself.
    Ended(Error),
    /// ctrl-c.
    Interrupted,
}

/// The pause between two looks at the server.
const TICK: Duration = Duration::from_millis(100);
/// The time without a write or a request after which an operator has nothing to do.
const QUIET: Duration = Duration::from_secs(1);
/// How often samples are tried that the server refuses, because the webhooks have just started.
const TRIES: u32 = 20;

/// Runs the operator of the present folder.
pub(crate) async fn dev(args: &DevArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let samples = Samples::find(&project.folder, args.samples.as_deref())?;
    let kubeconfig = project.folder.join(&args.kubeconfig);
    let screen = Screen::start();
    let cluster = DevCluster::start(args.port, &kubeconfig).await?;
    screen.say(format_args!("an API server runs at {}", cluster.url()));
    let word = path_word(&kubeconfig);
    screen.say(format_args!("export KUBECONFIG={word}"));
    let mut session = Session {
        args,
        project,
        kubeconfig,
        screen,
        cluster,
        objects: ObjectLines::default(),
        samples,
        webhook_port: free_port()?,
        interruption: Interruption::listen()?,
    };
    let ended = session.run().await;
    session.cluster.stop().await;
    if !args.once {
        // It names a closed port from now on.
        let _ = std::fs::remove_file(&session.kubeconfig);
    }
    ended
}

impl Built {
    fn of(program: PathBuf) -> Result<Self, Error> {
        let description = describe(&program)?;
        let data = std::fs::metadata(&program);
        let at = data.and_then(|data| data.modified()).ok();
        Ok(Self {
            program,
            at,
            description,
        })
    }
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
                match self.renew(running.take()).await {
                    Ok(renewed) => running = Some(renewed),
                    Err((problem, _)) if changes.is_none() => return Err(problem),
                    Err((problem, former)) => {
                        self.screen.say(format_args!("error: {}", report(&problem)));
                        running = former;
                    }
                }
            }
            match self.watch(&mut running, changes.as_mut()).await? {
                Turn::Changed(path) => {
                    let path = path.strip_prefix(&self.project.folder).unwrap_or(&path);
                    self.screen.say(format_args!("{} changed", path.display()));
                    is_outdated = true;
                }
                Turn::Ended(problem) if changes.is_none() => return Err(problem),
                Turn::Ended(problem) => {
                    self.screen.say(format_args!(
                        "error: {problem}; a change of the sources starts it again"
                    ));
                    running = None;
                    is_outdated = false;
                }
                turn @ (Turn::Ready | Turn::Interrupted) => {
                    if let Some((operator, _)) = running.take() {
                        operator.stop().await;
                    }
                    return match turn {
                        Turn::Interrupted if self.args.once => Err(Error::Interrupted {
                            end: "all samples were ready",
                        }),
                        _ => Ok(()),
                    };
                }
            }
        }
    }

    /// Builds the program, and starts it in place of the running one unless that is the same. If the build fails, the
    /// former one keeps running.
    async fn renew(
        &self,
        former: Option<(RunningOperator, Built)>,
    ) -> Result<(RunningOperator, Built), (Error, Option<(RunningOperator, Built)>)> {
        let built = match self.build().await {
            Ok(built) => built,
            Err(problem) => return Err((problem, former)),
        };
        let operator = match former {
            Some((operator, before)) if before.at.is_some() && before.at == built.at => operator,
            former => {
                if let Some((operator, _)) = former {
                    operator.stop().await;
                }
                let started = self.start(&built);
                started.map_err(|problem| (problem, None))?
            }
        };
        match self.apply_samples().await {
            Ok(()) => Ok((operator, built)),
            Err(problem) => Err((problem, Some((operator, built)))),
        }
    }

    async fn build(&self) -> Result<Built, Error> {
        if let Some(program) = &self.args.program {
            return Built::of(program.clone());
        }
        let name = &self.project.name;
        self.screen.say(format_args!("building {name}"));
        let options = BuildOptions {
            is_offline: self.args.offline,
            is_release: self.args.release,
        };
        let mut command = Command::from(self.project.build_command(options));
        command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let output = command.output().await.map_err(|source| Error::Start {
            program: "cargo build".to_owned(),
            source,
        })?;
        if !output.status.success() {
            return Err(Error::Failed {
                program: "cargo build".to_owned(),
                status: output.status.to_string(),
                advice: String::new(),
            });
        }
        Built::of(self.project.built(&output.stdout)?)
    }

    fn start(&self, built: &Built) -> Result<RunningOperator, Error> {
        let description = &built.description;
        self.cluster.install(description)?;
        let has_webhooks = !description.webhooks.is_empty() || !description.converted.is_empty();
        if has_webhooks {
            self.cluster
                .route_webhooks(description, self.webhook_port)?;
        }
        let port = has_webhooks.then_some(self.webhook_port);
        let more = &self.args.operator_args;
        let (program, kubeconfig) = (&built.program, &self.kubeconfig);
        let operator = RunningOperator::start(program, description, kubeconfig, port, more)?;
        self.screen
            .say(format_args!("{} started", description.name));
        Ok(operator)
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
                    self.screen.say(applied);
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
            tokio::select! {
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
                self.screen.say("all samples are ready");
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
            if let Some(line) = request_line(&record, program) {
                self.screen.say(line);
            }
        }
        for line in self.objects.changed(objects) {
            self.screen.say(line);
        }
        has_asked
    }
}
