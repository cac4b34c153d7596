//! A folder with a scenario, in which the program explores operators.

use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

/// Longer than any exploration of a test takes.
pub(super) const TOO_LONG: Duration = Duration::from_secs(300);

/// The worlds at once. Each starts an interpreter, which is most of its work.
const JOBS: [&str; 2] = ["--jobs", "8"];

/// An operator in the folder `operators`.
#[derive(Clone, Copy)]
pub(super) enum Operator {
    /// Needs the standard library of Python alone.
    Python(&'static str),
    /// Needs the package `kubernetes`.
    PythonClient(&'static str),
    Node(&'static str),
}

/// A folder with a scenario.
pub(super) struct World {
    pub(super) folder: TempDir,
    python: PathBuf,
}

/// What an exploration printed.
pub(super) struct Explored {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl World {
    /// Returns nothing, and says so, if there is no Python.
    pub(super) fn new() -> Option<Self> {
        // The path of the interpreter itself: a wrapper of it may take longer to start.
        let found = Blocking::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output();
        let Some(output) = found.ok().filter(|output| output.status.success()) else {
            skip("there is no python3");
            return None;
        };
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            python: String::from_utf8(output.stdout).unwrap().trim().into(),
        };
        let site = "
apiVersion: example.com/v1
kind: Site
metadata: {name: a, namespace: default}
spec: {page: hello, size: 4}
";
        world.write("site.yaml", site);
        Some(world)
    }

    /// Writes `scenario.yaml` with the definition of Sites, and with short times unless the text has others.
    pub(super) fn with_scenario(self, text: &str) -> Self {
        let definition = operator_path("crd.yaml");
        let times = if text.contains("\nquiet: ") {
            ""
        } else {
            "quiet: 300ms\npatience: 4s\n"
        };
        let head = format!("initial: {definition:?}\n{times}{}", text.trim_start());
        self.write("scenario.yaml", &head);
        self
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Returns the command that starts an operator; nothing if its interpreter is missing.
    pub(super) fn command_of(&self, operator: Operator) -> Option<Vec<String>> {
        let python = self.python.to_str().unwrap().to_owned();
        let words = match operator {
            // Without the packages of the site the interpreter starts in half the time.
            Operator::Python(file) => vec![python, "-SE".to_owned(), path_text(file)],
            Operator::PythonClient(file) => {
                let python = std::env::var("STEERSMAN_PYTHON").ok();
                let Some(python) = python.filter(|path| !path.is_empty()) else {
                    skip(
                        "STEERSMAN_PYTHON names no Python with the kubernetes package; `.ci/run test` makes one",
                    );
                    return None;
                };
                vec![python, path_text(file)]
            }
            Operator::Node(file) => {
                let found = Blocking::new("node").arg("--version").output();
                if !found.is_ok_and(|output| output.status.success()) {
                    skip("there is no node");
                    return None;
                }
                vec!["node".to_owned(), path_text(file)]
            }
        };
        Some(words)
    }

    /// Explores an operator with the scenario of this folder; does nothing if its interpreter is missing.
    pub(super) async fn explore(
        &self,
        operator: Operator,
        variant: &str,
        flags: &[&str],
    ) -> Option<Explored> {
        let mut words = self.command_of(operator)?;
        words.push(variant.to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(self.run(flags, &words).await)
    }

    /// Explores what a command starts.
    pub(super) async fn run(&self, flags: &[&str], words: &[&str]) -> Explored {
        let ran = tokio::time::timeout(TOO_LONG, self.program(flags, words).output()).await;
        let output = ran.unwrap().unwrap();
        Explored {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns the program, with a folder for temporary files of its own.
    pub(super) fn program(&self, flags: &[&str], words: &[&str]) -> Command {
        let temporary = self.folder.path().join("tmp");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_steersman-apiserver"));
        command
            .current_dir(self.folder.path())
            .env("TMPDIR", temporary)
            .args(["explore", "--scenario", "scenario.yaml"])
            .args(JOBS)
            .args(flags)
            .arg("--")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Asserts that the program has removed its folders.
    pub(super) fn assert_nothing_is_left(&self) {
        let left = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        let left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Runs a Python program, which must succeed.
    pub(super) fn check_with_python(&self, program: &str, arguments: &[&Path]) {
        let output = Blocking::new(&self.python)
            .arg("-c")
            .arg(program)
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Explored {
    #[track_caller]
    pub(super) fn assert_code(&self, code: i32) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{stdout}{stderr}");
    }

    /// Asserts that a perturbation is a finding, or that it shows the same problem as one.
    #[track_caller]
    pub(super) fn assert_found(&self, name: &str, problem: &str) {
        let (stdout, flat) = (&self.stdout, self.flat());
        assert!(stdout.contains(name), "{stdout}");
        assert!(flat.contains(problem), "{stdout}");
    }

    /// Returns what was printed on one line, since stories break lines.
    pub(super) fn flat(&self) -> String {
        self.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(super) fn assert_complains(&self, parts: &[&str]) {
        self.assert_code(2);
        for part in parts {
            assert!(self.stderr.contains(part), "{part}: {}", self.stderr);
        }
    }
}

fn operator_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/program/explore/operators")
        .join(file)
}

fn path_text(file: &str) -> String {
    operator_path(file).to_str().unwrap().to_owned()
}

/// Bypasses the capture of the test harness: a skipped test must not look like one that ran.
pub(super) fn skip(why: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}
