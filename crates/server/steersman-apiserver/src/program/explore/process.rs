//! Driver: the processes of an operator in one world. Each is a group of its own, and is killed with its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use steersman_apiserver::Serving;
use steersman_apiserver::auth::User;
use steersman_apiserver::explore::{ExploreError, OperatorHost, ProcessEnd};
use tokio::process::Command;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// The number of last lines of an operator that a story shows.
const LAST_LINES: usize = 20;

/// The number of last bytes of an operator's output that are searched for lines.
const LAST_BYTES: u64 = 16 * 1024;

/// Kills the processes of one world when dropped, even if requests still refer to them.
#[must_use = "the processes are killed when the guard is dropped"]
pub(crate) struct ProcessesGuard(pub(crate) Arc<WorldProcesses>);

/// The processes of one world.
pub(crate) struct WorldProcesses {
    serving: Serving,
    command: Vec<OsString>,
    world: usize,
    folder: PathBuf,
    running: Arc<Mutex<RunningProcesses>>,
    ends: (
        mpsc::UnboundedSender<ProcessEnd>,
        AsyncMutex<mpsc::UnboundedReceiver<ProcessEnd>>,
    ),
}

#[derive(Default)]
struct RunningProcesses {
    all: BTreeMap<usize, RunningProcess>,
    /// Whether the world has ended, so that no process may start.
    is_over: bool,
}

struct RunningProcess {
    group: Pid,
    /// Whether the process was killed, so that its end is expected.
    is_killed: bool,
    /// Ends when the process has ended.
    ended: Option<oneshot::Receiver<()>>,
}

impl WorldProcesses {
    /// `folder` is for the kubeconfigs and the output of the processes.
    pub(crate) fn new(serving: Serving, command: &[OsString], world: usize, folder: &Path) -> Self {
        let number = world.to_string();
        let replaced = command.iter().map(|argument| match argument.to_str() {
            Some(text) => text.replace("{world}", &number).into(),
            None => argument.clone(),
        });
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            serving,
            command: replaced.collect(),
            world,
            folder: folder.to_owned(),
            running: Arc::default(),
            ends: (sender, AsyncMutex::new(receiver)),
        }
    }

    fn spawn(&self, process: usize, user: User) -> std::io::Result<()> {
        // Held until the process is known, so that the end of the world does not miss it.
        let mut starting = self.running.lock();
        if starting.is_over {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let kubeconfig = self.folder.join(format!("kubeconfig-{process}"));
        std::fs::write(&kubeconfig, self.serving.kubeconfig_for(user))?;
        let output = File::create(self.output_path(process))?;
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("STEERSMAN_WORLD", self.world.to_string())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let id = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = id.ok_or(std::io::ErrorKind::NotFound)?;
        let (done, ended) = oneshot::channel();
        let entry = RunningProcess {
            group,
            is_killed: false,
            ended: Some(ended),
        };
        starting.all.insert(process, entry);
        drop(starting);
        let (running, ends) = (Arc::clone(&self.running), self.ends.0.clone());
        tokio::spawn(async move {
            let status = child.wait().await;
            let is_killed = running
                .lock()
                .all
                .remove(&process)
                .is_none_or(|one| one.is_killed);
            // Children of the process end with it, as the processes of a container do.
            let _ = kill_process_group(group, Signal::KILL);
            if !is_killed {
                let how = status.map_or_else(|error| error.to_string(), describe);
                // Fails only if the world has ended, so that no end matters.
                let _ = ends.send(ProcessEnd { process, how });
            }
            let _ = done.send(());
        });
        Ok(())
    }

    fn signal(&self, process: usize, signal: Signal) {
        if let Some(running) = self.running.lock().all.get(&process) {
            // Fails only if the process has ended.
            let _ = kill_process_group(running.group, signal);
        }
    }

    fn output_path(&self, process: usize) -> PathBuf {
        self.folder.join(format!("output-{process}.txt"))
    }
}

impl Drop for ProcessesGuard {
    fn drop(&mut self) {
        let mut running = self.0.running.lock();
        running.is_over = true;
        for running in running.all.values_mut() {
            running.is_killed = true;
            let _ = kill_process_group(running.group, Signal::KILL);
        }
    }
}

#[async_trait]
impl OperatorHost for WorldProcesses {
    async fn start(&self, process: usize, user: User) -> Result<(), ExploreError> {
        self.spawn(process, user).map_err(|error| {
            let program = self.command.first().cloned().unwrap_or_default();
            let program = program.to_string_lossy();
            ExploreError::Start {
                source: format!("{program}: {error}").into(),
            }
        })
    }

    async fn kill(&self, process: usize) {
        let ended = {
            let mut running = self.running.lock();
            running.all.get_mut(&process).and_then(|running| {
                running.is_killed = true;
                running.ended.take()
            })
        };
        self.signal(process, Signal::KILL);
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }

    async fn pause(&self, process: usize) {
        self.signal(process, Signal::STOP);
    }

    async fn resume(&self, process: usize) {
        self.signal(process, Signal::CONT);
    }

    async fn ended(&self) -> ProcessEnd {
        match self.ends.1.lock().await.recv().await {
            Some(end) => end,
            // `self` holds a sender, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    fn output(&self, process: usize) -> Vec<String> {
        last_lines(&self.output_path(process)).unwrap_or_default()
    }
}

fn last_lines(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    Ok(lines.into_iter().skip(first).map(str::to_owned).collect())
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
