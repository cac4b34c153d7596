//! The program under the names that test environments look for, and its processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::TOO_LONG;

/// Time after which envtest kills a process that was asked to stop.
const STOP: Duration = Duration::from_secs(20);

/// A folder with three regular files, as in the archive for envtest.
pub(in crate::program) struct Programs {
    folder: TempDir,
}

/// The variable with the folder of other files to test, as an archive for envtest has them.
const ASSETS: &str = "STEERSMAN_ENVTEST_ASSETS";

impl Programs {
    pub(in crate::program) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let assets = std::env::var_os(ASSETS).map(PathBuf::from);
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            let own = || PathBuf::from(env!("CARGO_BIN_EXE_steersman-apiserver"));
            let program = assets.as_ref().map_or_else(own, |assets| assets.join(name));
            let path = folder.path().join(name);
            // Hard links cannot leave a file system.
            if std::fs::hard_link(&program, &path).is_err() {
                std::fs::copy(&program, &path).unwrap();
            }
        }
        Self { folder }
    }

    pub(in crate::program) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn command(&self, name: &str, arguments: &[String]) -> Command {
        let mut command = Command::new(self.folder.path().join(name));
        command
            .args(arguments)
            .env_remove("STEERSMAN_PLAY")
            .env_remove("STEERSMAN_FAULTS")
            .env_remove("STEERSMAN_UI")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts a program in a process group of its own, with a log file.
    pub(super) fn start(&self, name: &str, arguments: &[String], log: &Path) -> Process {
        Process::of(self.command(name, arguments), log)
    }

    /// Returns the output of `--help`, which must succeed.
    pub(super) async fn help(&self, name: &str) -> String {
        let output = self.output(name, &["--help".to_owned()]).await;
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the messages of a program that must fail.
    pub(super) async fn refused(&self, name: &str, arguments: &[String]) -> String {
        let output = self.output(name, arguments).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(super) async fn output(&self, name: &str, arguments: &[String]) -> Output {
        let output = self.command(name, arguments).output();
        tokio::time::timeout(TOO_LONG, output)
            .await
            .unwrap()
            .unwrap()
    }
}

/// A running program.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(super) fn of(mut command: Command, log: &Path) -> Self {
        let file = File::create(log).unwrap();
        command
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0);
        Self {
            child: command.spawn().unwrap(),
            log: log.to_owned(),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends SIGTERM to the process group, and waits for the end as long as envtest does.
    pub(super) async fn stop(&mut self) -> ExitStatus {
        let group = format!("-{}", self.id());
        let kill = Command::new("kill").args(["-TERM", "--", &group]).status();
        assert!(kill.await.unwrap().success());
        let ended = tokio::time::timeout(STOP, self.child.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("not stopped: {}", self.log()))
            .unwrap()
    }

    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}
