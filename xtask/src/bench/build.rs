//! Measures how long a newcomer waits for the compiler, beside the smallest operator on kube-runtime.
//!
//! Each run begins with empty folders and without a network: the crates are downloaded before.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::figure::{Better, Figure, Peer, Spread, Target};
use crate::cargo;

/// What one row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Install,
    Way,
    Example,
    Build,
    Crates,
    Test,
    DevEdit,
    TestEdit,
    Size,
    Memory,
}

/// A measure, with its identifier, its unit, what it measures, and its target.
type MeasureText = (
    Measure,
    &'static str,
    &'static str,
    &'static str,
    Option<Target>,
);

/// Where a run works.
struct BuildRun<'a> {
    root: &'a Path,
    /// Holds everything that the run makes; removed before each run.
    folder: PathBuf,
}

/// A running `cargo steersman dev`, which is stopped when this value is dropped.
struct Dev {
    child: Child,
    lines: Receiver<String>,
}

/// The values of all runs: of each row, those of Steersman and those of kube-runtime.
#[derive(Default)]
struct Samples(Vec<(Measure, f64, Option<f64>)>);

const PEER: &str = "kube-runtime";
const FOLDER: &str = "target/bench-build";
const PEER_FOLDER: &str = "crates/tools/steersman-bench/kube-operator";
const OPERATOR: &str = "greeter";
const RECONCILER: &str = "src/controllers/greeting.rs";
/// The expression of the reconciler for the text that it publishes.
const PUBLISHED: &str = "object.spec.message.clone()";
/// How long `cargo steersman dev` may take to a line, with a build from nothing.
const LONGEST: Duration = Duration::from_secs(1200);

/// The rows in the order of the table, with their unit, text and target.
#[rustfmt::skip]
const ROWS: [MeasureText; 10] = [
    (Measure::Install, "install", "s", "`cargo install` of the command `cargo steersman`, with the profile `tools`", None),
    (Measure::Way, "way", "s", "from `cargo install` of the command to \"is ready\" of one's own operator: install, new, dev", Some(Target::AtMost(300.0))),
    (Measure::Example, "example", "s", "`cargo run -p website-operator -- --once --embedded`", Some(Target::AtMost(150.0))),
    (Measure::Build, "build", "s", "first `cargo build` of a new operator", Some(Target::Ratio(1.0 / 1.3))),
    (Measure::Crates, "crates", "crates", "crates that a new operator is compiled of", None),
    (Measure::Test, "test", "s", "first `cargo test` of a new operator, after its build", Some(Target::AtMost(75.0))),
    (Measure::DevEdit, "dev-edit", "s", "from an edit of the reconciler to its effect in `cargo steersman dev`", Some(Target::AtMost(3.0))),
    (Measure::TestEdit, "test-edit", "s", "`cargo test` after an edit of the reconciler", Some(Target::AtMost(6.0))),
    (Measure::Size, "size", "MB", "release program of a new operator, stripped", Some(Target::Ratio(1.0 / 1.2))),
    (Measure::Memory, "memory", "MB", "resident memory of that program, idle beside one object", Some(Target::AtMost(12.0))),
];

/// Measures all rows, three times, or once for a test of the measurement itself.
pub(super) fn measure(root: &Path, is_quick: bool) -> Result<Vec<Figure>, String> {
    run(in_new_shell(cargo::command(root))
        .args(["fetch", "--locked"])
        .env_remove("CARGO_NET_OFFLINE"))?;
    let mut samples = Samples::default();
    for _ in 0..if is_quick { 1 } else { 3 } {
        let folder = root.join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| of(&folder, &error))?;
        }
        fs::create_dir_all(&folder).map_err(|error| of(&folder, &error))?;
        BuildRun { root, folder }.measure(&mut samples)?;
    }
    Ok(samples.figures())
}

impl BuildRun<'_> {
    fn measure(&self, samples: &mut Samples) -> Result<(), String> {
        let (peer, operator) = (
            self.folder.join("kube-operator"),
            self.folder.join(OPERATOR),
        );
        self.copy_peer(&peer)?;

        let installed = timed(&mut self.install())?;
        samples.add(Measure::Install, installed, None);
        run(self
            .command("")
            .args(["new", OPERATOR, "--kind", "Greeting", "--into", "."]))?;
        let built = timed(cargo_in(&operator).arg("build"))?;
        let peer_built = timed(cargo_in(&peer).arg("build"))?;
        samples.add(Measure::Build, built, Some(peer_built));
        samples.add(Measure::Crates, crates(&operator)?, Some(crates(&peer)?));

        let began = now();
        let dev = Dev::start(self.command(OPERATOR).args(["dev", "--plain"]))?;
        dev.wait_for("is ready")?;
        samples.add(
            Measure::Way,
            installed + built + began.elapsed().as_secs_f64(),
            None,
        );
        let changed = format!("{{ let text = {PUBLISHED}; text + \"!\" }}");
        let edited = self.edit(PUBLISHED, &changed)?;
        dev.wait_for("patch configmaps")?;
        samples.add(Measure::DevEdit, edited.elapsed().as_secs_f64(), None);

        // The operator on kube-runtime publishes the text as it was: otherwise both would change it forever.
        self.edit(&changed, PUBLISHED)?;
        dev.wait_for("patch configmaps")?;
        let (own, other) = (release(&operator)?, release(&peer)?);
        samples.add(Measure::Size, megabytes(&own)?, Some(megabytes(&other)?));
        let memory = |program: &Path| idle_memory(program, &operator);
        samples.add(Measure::Memory, memory(&own)?, Some(memory(&other)?));
        drop(dev);

        samples.add(Measure::Test, timed(cargo_in(&operator).arg("test"))?, None);
        self.edit(PUBLISHED, &format!("{PUBLISHED}.trim().to_owned()"))?;
        let again = timed(cargo_in(&operator).arg("test"))?;
        samples.add(Measure::TestEdit, again, None);

        let mut example = cargo_in(self.root);
        example.env("CARGO_TARGET_DIR", self.folder.join("example"));
        example.args([
            "run", "--locked", "-p", "website-operator", "--", "--once", "--embedded",
        ]);
        samples.add(Measure::Example, timed(&mut example)?, None);
        Ok(())
    }

    fn install(&self) -> Command {
        let mut command = cargo_in(self.root);
        command
            .args(["install", "--locked", "--profile", "tools"])
            .args(["--path", "crates/tools/cargo-steersman", "--root"])
            .arg(self.folder.join("installed"))
            .arg("--target-dir")
            .arg(self.folder.join("install"));
        command
    }

    /// Returns a call of the installed command in a folder of the run.
    fn command(&self, folder: &str) -> Command {
        let mut command = Command::new(self.folder.join("installed/bin/cargo-steersman"));
        command
            .current_dir(self.folder.join(folder))
            .arg("steersman");
        in_new_shell(command)
    }

    /// Copies the operator on kube-runtime, with the versions of the workspace.
    fn copy_peer(&self, to: &Path) -> Result<(), String> {
        let from = self.root.join(PEER_FOLDER);
        fs::create_dir_all(to.join("src")).map_err(|error| of(to, &error))?;
        for file in ["Cargo.toml", "src/main.rs"] {
            copy(&from.join(file), &to.join(file))?;
        }
        copy(&self.root.join("Cargo.lock"), &to.join("Cargo.lock"))
    }

    /// Replaces an expression in the reconciler, and returns the moment of the change.
    fn edit(&self, from: &str, to: &str) -> Result<Instant, String> {
        let path = self.folder.join(OPERATOR).join(RECONCILER);
        let source = fs::read_to_string(&path).map_err(|error| of(&path, &error))?;
        if !source.contains(from) {
            return Err(format!("{}: `{from}` is missing", path.display()));
        }
        let edited = source.replace(from, to);
        fs::write(&path, edited).map_err(|error| of(&path, &error))?;
        Ok(now())
    }
}

impl Dev {
    fn start(command: &mut Command) -> Result<Self, String> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command
            .spawn()
            .map_err(|error| not_started(command, &error))?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // The receiver is gone once the measurement has ended.
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Self { child, lines })
    }

    /// Waits for a line that contains `text`.
    fn wait_for(&self, text: &str) -> Result<(), String> {
        let until = now() + LONGEST;
        loop {
            let left = until.saturating_duration_since(now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|error| {
                format!("`cargo steersman dev` printed no line with '{text}': {error}")
            })?;
            if line.contains(text) {
                return Ok(());
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // An error means that the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Samples {
    fn add(&mut self, row: Measure, own: f64, peer: Option<f64>) {
        self.0.push((row, own, peer));
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |(row, id, unit, what, target): MeasureText| {
            let runs = self.0.iter().filter(|(of, ..)| *of == row);
            let own = spread(runs.clone().map(|(_, own, _)| *own).collect())?;
            let peer = spread(runs.filter_map(|(.., peer)| *peer).collect());
            let peer = peer.map(|figure| Peer {
                name: PEER.to_owned(),
                figure,
            });
            Some(Figure {
                id: format!("build/{id}"),
                what: what.to_owned(),
                at: None,
                unit: unit.to_owned(),
                better: Better::Less,
                own,
                peers: peer.into_iter().collect(),
                target,
                guard: false,
                bound: None,
                limit: None,
            })
        };
        ROWS.into_iter().filter_map(figure).collect()
    }
}

fn cargo_in(folder: &Path) -> Command {
    in_new_shell(cargo::command(folder))
}

/// Returns the number of crates that a program is compiled of, with build scripts and macros.
fn crates(folder: &Path) -> Result<f64, String> {
    let mut command = cargo_in(folder);
    command.args(["tree", "--edges", "normal,build", "--prefix", "none"]);
    let output = command
        .output()
        .map_err(|error| not_started(&command, &error))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{command:?} ended with {}: {}",
            output.status,
            why.trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split(" (").next());
    let distinct: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    Ok(f64::from(u32::try_from(distinct.len()).unwrap_or(u32::MAX)))
}

/// Builds the release program of a folder, without symbols, and returns its path.
fn release(folder: &Path) -> Result<PathBuf, String> {
    let mut command = cargo_in(folder);
    run(command
        .args(["build", "--release"])
        .env("CARGO_PROFILE_RELEASE_STRIP", "true"))?;
    let name = folder.file_name().unwrap_or_default();
    Ok(folder.join("target/release").join(name))
}

/// Removes what continuous integration sets, and keeps cargo from the network.
fn in_new_shell(mut command: Command) -> Command {
    for name in [
        "CARGO_INCREMENTAL", "CARGO_PROFILE_DEV_DEBUG", "CARGO_TARGET_DIR", "RUSTFLAGS",
    ] {
        command.env_remove(name);
    }
    cargo::leave(&mut command);
    command
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("KUBECONFIG");
    command
}

/// Starts the program against the server of `cargo steersman dev`, and returns its memory after some seconds in MB.
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "nothing says when a program is idle"
)]
fn idle_memory(program: &Path, operator: &Path) -> Result<f64, String> {
    let mut command = Command::new(program);
    command.env("KUBECONFIG", operator.join("target/steersman/kubeconfig"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| not_started(&command, &error))?;
    thread::sleep(Duration::from_secs(5));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
    // An error means that the process has ended, and then its status has no memory.
    let _ = child.kill();
    let _ = child.wait();
    let resident = status.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    let resident = resident.ok_or_else(|| format!("{} ended at once", program.display()))?;
    Ok(resident * 1024.0 / 1e6)
}

#[cfg(not(target_os = "linux"))]
fn idle_memory(_: &Path, _: &Path) -> Result<f64, String> {
    Err("the memory of a program is measured on Linux only".to_owned())
}

/// Returns the median, the minimum and the maximum; `None` without values.
fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    Some(Spread {
        median: *values.get(values.len() / 2)?,
        least: *values.first()?,
        most: *values.last()?,
        runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of other programs is measured"
)]
fn now() -> Instant {
    Instant::now()
}

/// Runs a command to its end, and returns the seconds.
fn timed(command: &mut Command) -> Result<f64, String> {
    let began = now();
    run(command)?;
    Ok(began.elapsed().as_secs_f64())
}

/// Runs a command to its end. Its output goes to standard error, because standard output is for tables.
fn run(command: &mut Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(not_started(command, &error)),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map_err(|error| of(from, &error))?;
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "programs are smaller than 2^53 bytes"
)]
fn megabytes(path: &Path) -> Result<f64, String> {
    let metadata = fs::metadata(path).map_err(|error| of(path, &error))?;
    Ok(metadata.len() as f64 / 1e6)
}

fn of(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("{command:?} could not be started: {error}")
}
