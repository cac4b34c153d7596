//! One process of the program, with its log in a file.

use std::fs::File;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::ExitStatus;

use tokio::process::Child;

use crate::binary::operator;

/// An election with a failover of 3 s, and lines of the log in JSON.
pub(crate) const QUICK_ELECTION: [&str; 6] = [
    "--leader-elect",
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=500ms",
    "--log-level=info",
    "--log-format=json",
];

/// One process of the operator. Dropping it kills the process.
pub(crate) struct Replica {
    process: Child,
    arguments: Vec<String>,
    log: PathBuf,
}

impl Replica {
    /// Starts a process with the kubeconfig `config` in its home, and with the log `NAME.log` there.
    pub(crate) fn start(home: &Path, name: &str, arguments: &[impl AsRef<str>]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|one| one.as_ref().into()).collect();
        let log = home.join(format!("{name}.log"));
        let mut command = operator(home);
        command
            .env("KUBECONFIG", "config")
            .args(&arguments)
            .stdout(File::create(home.join(format!("{name}.out"))).unwrap())
            .stderr(File::create(&log).unwrap());
        let process = command.spawn().unwrap();
        Self {
            process,
            arguments,
            log,
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Returns whether the log says that the replica was elected.
    pub(crate) fn leads(&self) -> bool {
        self.leads_as("")
    }

    /// Returns whether the log says that the replica was elected under this identity.
    pub(crate) fn leads_as(&self, identity: &str) -> bool {
        let is_elected =
            |line: &str| line.contains("this replica leads") && line.contains(identity);
        self.log().lines().any(is_elected)
    }

    /// Returns the address of the arguments for a server: `webhook`, `health-probe` or `metrics`.
    pub(crate) fn address(&self, server: &str) -> &str {
        let flag = format!("--{server}-bind-address=");
        let mut addresses = self
            .arguments
            .iter()
            .filter_map(|one| one.strip_prefix(&flag));
        addresses.next().unwrap()
    }

    /// Returns the URL of the webhooks.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address("webhook"))
    }

    /// Ends the process without a chance to clean up: SIGKILL on Unix.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }
}

#[cfg(unix)]
impl Replica {
    /// Asks the process to stop, as a kubelet does, and waits for its end.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        use rustix::process::{Pid, Signal, kill_process};

        let process = self.process.id().unwrap().cast_signed();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
        self.ended().await
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        self.process.wait().await.unwrap()
    }
}
