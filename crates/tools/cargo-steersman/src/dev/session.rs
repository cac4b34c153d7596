//! Driver: a session of `dev`: builds and starts the operator, and reports its activity until a change or the end.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::OptionFuture;
use serde_json::Value;
use steersman_object::report;
use steersman_testenv::apiserver::ApiServer;
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, interval, sleep};

use super::built::Built;
use super::changes::SourceChanges;
use super::cluster::DevCluster;
use super::endpoint::OperatorEndpoint;
use super::interruption::Interruption;
use super::lines::{ObjectLines, is_of, is_ready, left_out, name_of, request_line};
use super::loopback::free_port;
use super::operator::RunningOperator;
use super::output::{SessionOutput, ViewMessage};
use super::real::{ClusterNews, Follower, RealCluster};
use super::samples::Samples;
use super::terminal::ViewRequests;
use super::view::model::ViewEvent;
use crate::command_line::DevArgs;
use crate::error::Error;
use crate::plural::plural;
use crate::project::Project;

#[derive(Debug)]
pub(crate) struct SessionPlace {
    pub(crate) project: Project,
    /// The kubeconfig of the embedded server. The token of the diagnostics is in the same folder.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) samples: Option<Samples>,
    pub(crate) cluster: SessionCluster,
}

#[derive(Debug)]
pub(crate) enum SessionCluster {
    Embedded(Box<DevCluster>),
    Real(Box<RealCluster>),
}

pub(crate) struct Session<'a> {
    args: &'a DevArgs,
    place: SessionPlace,
    output: SessionOutput,
    objects: ObjectLines,
    webhook_port: u16,
    endpoint: OperatorEndpoint,
    /// Whether the address of the debug page was printed.
    has_named_page: bool,
    interruption: Interruption,
    /// Receives the restart key of the terminal view.
    restart: Option<UnboundedReceiver<()>>,
}

struct RunningProgram {
    operator: RunningOperator,
    built: Built,
    /// Follows the operator's activity in a real cluster; `None` with the embedded server.
    follower: Option<Follower>,
}

/// Why `watch` returns.
enum Turn {
    Changed(PathBuf),
    /// With `--once`: the samples are ready, and the operator has nothing to do.
    Ready,
    /// The process of the operator has ended.
    Ended(Error),
    Restart,
    /// The session was interrupted, for example by ctrl-c.
    Interrupted,
}

/// The pause between two reads of the server's state.
const TICK: Duration = Duration::from_millis(100);
/// The time without a write or a request after which an operator counts as idle.
const QUIET: Duration = Duration::from_secs(1);
/// The number of attempts to apply the samples, which the server refuses while the operator is starting.
const TRIES: u32 = 20;
/// The pause between two attempts to apply the samples.
const PAUSE: Duration = Duration::from_millis(500);
/// The name of the file with the diagnostics token, in the folder of the kubeconfig.
const TOKEN: &str = "diagnostics-token";

/// The name of the kubeconfig of the operator's service account, in the folder of the developer's kubeconfig.
pub(crate) const ACCOUNT: &str = "operator.kubeconfig";

impl SessionCluster {
    pub(crate) fn server(&self) -> Option<ApiServer> {
        match self {
            Self::Embedded(cluster) => Some(cluster.server.clone()),
            Self::Real(_) => None,
        }
    }

    async fn apply(&self, samples: &Samples) -> Result<usize, Error> {
        match self {
            Self::Embedded(cluster) => cluster.apply(samples).await,
            Self::Real(cluster) => cluster.apply(samples).await,
        }
    }
}

impl<'a> Session<'a> {
    /// Runs a session to its end. `keys` receives the keys of the terminal view.
    pub(crate) async fn run(
        args: &'a DevArgs,
        place: SessionPlace,
        output: SessionOutput,
        keys: Option<ViewRequests>,
    ) -> Result<(), Error> {
        let token_file = place.kubeconfig.with_file_name(TOKEN);
        let (quit, restart) = keys.map(|keys| (keys.quit, keys.restart)).unzip();
        let mut session = Self {
            args,
            place,
            output,
            objects: ObjectLines::default(),
            webhook_port: free_port()?,
            endpoint: OperatorEndpoint::choose(token_file)?,
            has_named_page: false,
            interruption: Interruption::listen(quit)?,
            restart,
        };
        let ended = session.turns().await;
        session.endpoint.remove_token();
        if let SessionCluster::Embedded(cluster) = session.place.cluster {
            cluster.serving.stop().await;
        }
        ended
    }

    async fn turns(&mut self) -> Result<(), Error> {
        let mut changes = match self.args.once {
            true => None,
            false => Some(SourceChanges::watch(&self.place.project.folder)?),
        };
        let mut running: Option<RunningProgram> = None;
        let mut is_outdated = true;
        loop {
            if is_outdated {
                match self.renew(&mut running).await {
                    Ok(true) => {}
                    Ok(false) => return self.end(running.take(), Turn::Interrupted).await,
                    Err(problem) if changes.is_none() => return Err(problem),
                    Err(problem) => self.output.complain(report(&problem)),
                }
            }
            is_outdated = false;
            match self.watch(&mut running, changes.as_mut()).await? {
                Turn::Changed(path) => {
                    let folder = &self.place.project.folder;
                    let path = path.strip_prefix(folder).unwrap_or(&path);
                    self.output.say(format_args!("{} changed", path.display()));
                    is_outdated = true;
                }
                Turn::Ended(problem) if changes.is_none() => return Err(problem),
                Turn::Ended(problem) => {
                    let text = problem.to_string();
                    self.output.show(ViewEvent::OperatorEnded(text));
                    self.output.complain(format_args!(
                        "{problem}; a change of the sources starts it again"
                    ));
                    running = None;
                }
                Turn::Restart => match running.take() {
                    Some(former) => {
                        self.stop(former.operator).await;
                        match self.start(former.built) {
                            Ok(started) => running = Some(started),
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

    async fn end(&self, running: Option<RunningProgram>, turn: Turn) -> Result<(), Error> {
        if let Some(running) = running {
            self.stop(running.operator).await;
        }
        match turn {
            Turn::Interrupted if self.args.once => {
                Err(Error::Interrupted("all samples were ready"))
            }
            _ => Ok(()),
        }
    }

    /// Builds the program, replaces the running operator if the program has changed, and applies the samples. After a
    /// failed build, the running operator stays. Returns `false` if the session was interrupted.
    async fn renew(&mut self, running: &mut Option<RunningProgram>) -> Result<bool, Error> {
        let build = Built::build(&self.place.project, self.args, &self.output);
        let built = tokio::select! {
            built = build => built?,
            () = self.interruption.next() => return Ok(false),
        };
        *running = match running.take() {
            Some(former) if former.built.is_same(&built) => Some(former),
            former => {
                if let Some(former) = former {
                    self.stop(former.operator).await;
                }
                Some(self.start(built)?)
            }
        };
        let (Some(samples), Some(started)) = (&self.place.samples, running.as_mut()) else {
            return Ok(true);
        };
        tokio::select! {
            applied = apply_samples(&self.place.cluster, samples, &self.output) => applied.map(|()| true),
            () = self.interruption.next() => Ok(false),
            // After the end of the operator no webhook responds, so no sample is applied. The caller reports the end.
            _ = started.operator.ended() => Ok(true),
        }
    }

    fn start(&mut self, built: Built) -> Result<RunningProgram, Error> {
        let description = &built.description;
        let has_webhooks = !description.webhooks.is_empty() || !description.converted.is_empty();
        let account_file = self.place.kubeconfig.with_file_name(ACCOUNT);
        let mut endpoint = Some(self.endpoint.clone());
        let mut command = Command::new(&built.program);
        match &self.place.cluster {
            SessionCluster::Embedded(cluster) => {
                cluster.install_external(&self.place.project.folder)?;
                cluster.install(description)?;
                cluster.admit(&self.place.project, description, &account_file)?;
                command.args(["--install", "--kubeconfig"]);
                command.arg(&account_file);
                if has_webhooks {
                    let address = format!("127.0.0.1:{}", self.webhook_port);
                    let url = format!("https://{address}");
                    let server = &cluster.server;
                    server.route_service("default", &description.name, 443, &url);
                    command.arg(format!("--webhook-bind-address={address}"));
                }
                // A session that ends by itself has no reader of the debug page.
                endpoint.take_if(|_| self.args.once);
            }
            SessionCluster::Real(cluster) => {
                // The context is passed by name, because the current context of the kubeconfig may change.
                if let Some(context) = cluster.context() {
                    command.arg("--context").arg(context);
                }
                command.args(description.converted.is_empty().then_some("--install"));
                for line in left_out(description) {
                    self.output.say(line);
                }
            }
        }
        let (name, flags) = (&description.name, &self.args.operator_args);
        let operator =
            RunningOperator::start(command, endpoint.as_ref(), flags, name, &self.output)?;
        let source = endpoint
            .as_ref()
            .map(OperatorEndpoint::source)
            .transpose()?;
        let started = ViewMessage::Operator(name.clone(), source.clone());
        self.output.tell(started);
        self.output.say(format_args!("{name} started"));
        if let Some(endpoint) = endpoint.as_ref().filter(|_| !self.has_named_page) {
            let page = endpoint.page();
            self.output.say(format_args!("its debug page: {page}"));
            self.has_named_page = true;
        }
        let follower = match &self.place.cluster {
            SessionCluster::Embedded(_) => None,
            SessionCluster::Real(cluster) => Some(cluster.follow(description, source)),
        };
        Ok(RunningProgram {
            operator,
            built,
            follower,
        })
    }

    async fn stop(&self, operator: RunningOperator) {
        operator.stop().await;
        self.output.show(ViewEvent::OperatorStopped);
    }

    /// Reports the operator's activity until the session has to act.
    async fn watch(
        &mut self,
        running: &mut Option<RunningProgram>,
        mut changes: Option<&mut SourceChanges>,
    ) -> Result<Turn, Error> {
        let mut ticks = interval(TICK);
        let began = Instant::now();
        let (mut busy, mut revision) = (began, None);
        loop {
            let parts = running
                .as_mut()
                .map(|running| (&mut running.operator, running.follower.as_mut()));
            let (operator, follower) = parts.unzip();
            let change = OptionFuture::from(changes.as_deref_mut().map(SourceChanges::next));
            let ended = OptionFuture::from(operator.map(RunningOperator::ended));
            let news = OptionFuture::from(follower.flatten().map(|follower| follower.news.recv()));
            let restart = OptionFuture::from(self.restart.as_mut().map(UnboundedReceiver::recv));
            let news = tokio::select! {
                Some(Some(())) = restart => return Ok(Turn::Restart),
                Some(path) = change => return Ok(Turn::Changed(path)),
                Some(problem) = ended => return Ok(Turn::Ended(problem)),
                () = self.interruption.next() => return Ok(Turn::Interrupted),
                Some(Some(news)) = news => Some(news),
                _ = ticks.tick() => None,
            };
            if let Some(news) = news {
                self.show_news(news);
                continue;
            }
            let (Some(running), SessionCluster::Embedded(cluster)) =
                (&*running, &mut self.place.cluster)
            else {
                continue;
            };
            let name = &running.built.description.name;
            let objects = cluster.objects(&running.built.description);
            let requests = cluster.open.answered(cluster.server.requests());
            let present = Some(cluster.server.revision());
            let has_asked = requests.iter().any(|record| is_of(record, name));
            if has_asked || revision != present {
                (busy, revision) = (Instant::now(), present);
            }
            // The view shows the requests from the log itself.
            if let SessionOutput::Lines(_) = self.output {
                for line in requests.iter().filter_map(|one| request_line(one, name)) {
                    self.output.say(line);
                }
            }
            self.show_objects(&objects);
            if self.args.once {
                let is_quiet = busy.elapsed() >= QUIET;
                let is_late = began.elapsed() >= self.args.timeout;
                if self.is_done(running, &objects, is_quiet, is_late).await? {
                    return Ok(Turn::Ready);
                }
            }
        }
    }

    /// Returns whether all samples are ready and the operator is idle. Returns an error after the timeout.
    async fn is_done(
        &self,
        running: &RunningProgram,
        objects: &[Value],
        is_quiet: bool,
        is_late: bool,
    ) -> Result<bool, Error> {
        let operator = &running.operator;
        // A sample that is not `Ready` yet.
        let waiting = objects.iter().find(|object| !is_ready(object));
        if waiting.is_none() && is_quiet && operator.is_ready().await {
            self.output.say("all samples are ready");
            return Ok(true);
        }
        if !is_late {
            return Ok(false);
        }
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
        Err(Error::NotReady { seconds, problem })
    }

    fn show_news(&mut self, news: ClusterNews) {
        match news {
            ClusterNews::Objects(objects) => self.show_objects(&objects),
            ClusterNews::Problem(problem) => self.output.complain(problem),
            ClusterNews::Line(line) => self.output.say_without_view(line),
        }
    }

    fn show_objects(&mut self, objects: &[Value]) {
        for line in self.objects.changed(objects) {
            self.output.say(line);
        }
    }
}

/// Returns whether the error of a sample may be temporary: the webhooks are starting, or the kind is being installed.
fn may_pass(problem: &Error) -> bool {
    match problem {
        Error::Refused { problem, .. } => problem.contains("webhook"),
        problem => matches!(problem, Error::NotServed { .. }),
    }
}

/// Applies the samples, and retries while the webhooks start or the operator installs the kinds of the samples.
async fn apply_samples(
    cluster: &SessionCluster,
    samples: &Samples,
    output: &SessionOutput,
) -> Result<(), Error> {
    for _ in 1..TRIES {
        match cluster.apply(samples).await {
            Ok(0) => return Ok(()),
            Ok(number) => {
                let samples = samples.shown.display();
                let plural = plural(number);
                output.say(format_args!("applied {number} object{plural} of {samples}"));
                return Ok(());
            }
            Err(Error::Samples(problems)) if problems.iter().any(may_pass) => {
                sleep(PAUSE).await;
            }
            Err(problem) => return Err(problem),
        }
    }
    cluster.apply(samples).await.map(drop)
}
