//! Driver: measures the program `steersman-apiserver explore` with an operator of this workspace.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::process::{BenchResult, client_program, megabytes_of, progress, repeat};
use crate::report::{Figure, Spread};

/// The quiet time of the scenario.
const QUIET: Duration = Duration::from_millis(500);

/// The number of undisturbed worlds, which wait twice as long.
const REFERENCES: u32 = 3;

/// The interval between looks at the log or the memory.
const LOOK: Duration = Duration::from_millis(1);

/// The number of worlds at once.
const MANY: u16 = 40;

/// An exploration in a folder of its own.
struct Exploration {
    child: Child,
    folder: TempDir,
    began: Instant,
}

/// Measures what a world costs beyond the start of the operator and its quiet time.
pub(super) async fn one_at_a_time(program: &Path, is_quick: bool) -> BenchResult<Vec<Figure>> {
    let runs = if is_quick { 1 } else { 5 };
    let starts = repeat(runs, "starts of the operator", own_start).await?;
    let start = Spread::of(starts.clone());
    let measured = repeat(runs, "worlds of the program, one at a time", async || {
        let mut exploration = Exploration::start(program, 1, "[expired-watch, settled-restart]")?;
        let took = exploration.end().await?;
        let points = exploration.points()?;
        // The undisturbed worlds wait twice as long, and the last point is a second start with a quiet time of its own.
        let quiet = QUIET.as_secs_f64() * f64::from(REFERENCES * 2 + points + 1);
        let starts = f64::from(REFERENCES + points + 1) * start.median;
        Ok((took - quiet - starts) / f64::from(REFERENCES + points) * 1e3)
    })
    .await?;
    let what =
        "what a world of the program takes beyond the start of its operator and the quiet time";
    let own = "for comparison: the operator from its start to its first watch";
    let starts = Spread::of(starts.iter().map(|seconds| seconds * 1e3).collect());
    Ok(vec![
        Figure::new("explore/world", what, "ms", Spread::of(measured)).at_most(50.0),
        Figure::new("explore/start", own, "ms", starts),
    ])
}

/// Measures the memory of many worlds at once, with their operators.
pub(super) async fn many(program: &Path, is_quick: bool) -> BenchResult<Vec<Figure>> {
    let runs = if is_quick { 1 } else { 3 };
    let measured = repeat(runs, format_args!("{MANY} worlds at once"), async || {
        let kinds = "[crash-before-write, crash-after-write, lost-answer, refuse, server-restart, expired-watch, \
                     late-watch, settled-restart, throttled]";
        let mut exploration = Exploration::start(program, MANY, kinds)?;
        exploration.peak_megabytes().await
    })
    .await?;
    let what = format!("peak memory of {MANY} worlds at once: the program and its operators");
    Ok(vec![
        Figure::new("explore/memory", what, "MB", Spread::of(measured)).at_most(2_000.0),
    ])
}

/// Measures the time from the start of the operator to its first watch, in seconds.
async fn own_start() -> BenchResult<f64> {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, serving.kubeconfig())?;
    let began = Instant::now();
    let [program, arguments @ ..] = &*operator()? else {
        return Err("no operator".into());
    };
    let _operator = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    while server
        .requests()
        .count(|request| request.verb == Some(Verb::Watch))
        == 0
    {
        sleep(LOOK).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Returns the command of the operator.
fn operator() -> BenchResult<Vec<OsString>> {
    let role = serde_json::to_string(&crate::cache::words::ClientRole::Explored)?;
    Ok(vec![client_program()?.into(), "client".into(), role.into()])
}

impl Exploration {
    fn start(program: &Path, jobs: u16, kinds: &str) -> BenchResult<Self> {
        let folder = tempfile::tempdir()?;
        let text = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "roses"},
            "metadata": {"name": "text", "namespace": "default"},
        });
        std::fs::write(folder.path().join("text.yaml"), text.to_string())?;
        let quiet = QUIET.as_millis();
        let scenario = format!(
            "steps: [{{apply: text.yaml}}]\nquiet: {quiet}ms\npatience: 10s\nperturbations: {kinds}\n"
        );
        std::fs::write(folder.path().join("scenario.yaml"), scenario)?;
        let began = Instant::now();
        let child = Command::new(program)
            .current_dir(folder.path())
            .args([
                "explore", "--scenario", "scenario.yaml", "--report", "report",
            ])
            .args(["--jobs", &jobs.to_string(), "--"])
            .args(operator()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            folder,
            began,
        })
    }

    /// Waits until the exploration ends. Returns its time in seconds.
    async fn end(&mut self) -> BenchResult<f64> {
        let status = self.child.wait().await?;
        if !status.success() {
            return Err(format!("an exploration ended with {status}").into());
        }
        Ok(self.began.elapsed().as_secs_f64())
    }

    /// Returns the number of points, by its report.
    fn points(&self) -> BenchResult<u32> {
        let junit = std::fs::read_to_string(self.folder.path().join("report/junit.xml"))?;
        let cases = junit.matches("<testcase ").count();
        // One case is the undisturbed run.
        Ok(u32::try_from(cases)?.saturating_sub(1))
    }

    /// Returns the largest sum of the memory of the program and its operators until it ends, in megabytes.
    async fn peak_megabytes(&mut self) -> BenchResult<f64> {
        let parent = self.child.id().ok_or("the exploration has ended")?;
        let mut peak: f64 = 0.0;
        while self.child.try_wait()?.is_none() {
            let operators = children_of(parent).into_iter();
            // A process may have ended since it was found.
            let all = operators
                .chain([parent])
                .filter_map(|process| megabytes_of(process, "smaps_rollup", "Pss:").ok());
            peak = peak.max(all.sum());
            sleep(LOOK * 20).await;
        }
        progress(format_args!("peak {peak:.0} MB"));
        self.end().await?;
        Ok(peak)
    }
}

/// Returns the processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let text: Vec<String> = children.collect();
    text.join(" ")
        .split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect()
}
