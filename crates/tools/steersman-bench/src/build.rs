//! Driver: measures how long a newcomer waits for the compiler, beside the smallest operator on kube-runtime.
//!
//! Each run begins with empty folders and without a network: the crates are downloaded before.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::process::{BenchResult, megabytes_of, progress};
use crate::report::{Figure, KUBE_RUNTIME, Spread};

/// The folder of a run, with all that it installs, makes and builds.
struct BuildRun {
    /// The folder of this workspace.
    root: PathBuf,
    folder: TempDir,
}

/// A running `cargo steersman dev`. A drop kills it, and its operator ends with it.
struct Dev {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What one run measured, in seconds unless the name says otherwise.
struct BuildCost {
    own: OperatorCost,
    peer: OperatorCost,
    install: f64,
    dev_ready: f64,
    dev_edit: f64,
    test: f64,
    test_edit: f64,
    example: f64,
}

struct OperatorCost {
    build_seconds: f64,
    crates: f64,
    program_mb: f64,
    idle_mb: f64,
}

const OPERATOR: &str = "greeter";
const PEER: &str = "kube-operator";
const RECONCILER: &str = "src/controllers/greeting.rs";
/// The expression of the reconciler for the text that it publishes.
const PUBLISHED: &str = "object.spec.message.clone()";
/// How long `cargo steersman dev` may take until it prints an awaited line.
const LINE_LIMIT: Duration = Duration::from_secs(1200);
/// A program is idle when two readings of its memory, this long apart, are the same.
const READING_INTERVAL: Duration = Duration::from_secs(1);
/// The variables of the environment that commands get, so that each runs as in a new shell.
const KEPT: [&str; 6] = [
    "PATH", "HOME", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN",
];

pub(crate) async fn measure(is_quick: bool) -> BenchResult<Vec<Figure>> {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."))?;
    run(Command::new("cargo")
        .current_dir(&root)
        .args(["fetch", "--locked"]))
    .await?;
    let mut runs = Vec::new();
    for number in 1..=if is_quick { 1 } else { 3 } {
        progress(format_args!("run {number} from empty folders"));
        runs.push(BuildRun::new(&root)?.measure().await?);
    }
    let own = |id: &str, what: &str, seconds: fn(&BuildCost) -> f64| {
        Figure::new(id, what, "s", Spread::over(&runs, seconds))
    };
    let both = |id: &str, what: &str, unit, figure: fn(&OperatorCost) -> f64| {
        let peer = Spread::over(&runs, |run| figure(&run.peer));
        let own = Spread::over(&runs, |run| figure(&run.own));
        Figure::new(id, what, unit, own).beside(KUBE_RUNTIME, peer)
    };
    let install = "`cargo install` of the command `cargo steersman`, with the profile `tools`";
    let way = "from `cargo install` of the command to \"is ready\" of one's own operator: install, new, dev";
    let build = "first `cargo build` of a new operator";
    let test = "first `cargo test` of a new operator, after its build";
    let dev_edit = "from an edit of the reconciler to its effect in `cargo steersman dev`";
    let test_edit = "`cargo test` after an edit of the reconciler";
    let example = "`cargo run -p website-operator -- --once --embedded`";
    let crates = "crates that a new operator is compiled of";
    let size = "release program of a new operator, stripped";
    let idle = "resident memory of that program, idle beside one object";
    Ok(vec![
        own("build/install", install, |run| run.install),
        own("build/way", way, BuildCost::way).at_most(300.0),
        own("build/example", example, |run| run.example).at_most(150.0),
        both("build/build", build, "s", |one| one.build_seconds).ratio(1.0 / 1.3),
        both("build/crates", crates, "crates", |one| one.crates),
        own("build/test", test, |run| run.test).at_most(75.0),
        own("build/dev-edit", dev_edit, |run| run.dev_edit).at_most(3.0),
        own("build/test-edit", test_edit, |run| run.test_edit).at_most(6.0),
        both("build/size", size, "MB", |one| one.program_mb).ratio(1.0 / 1.2),
        both("build/memory", idle, "MB", |one| one.idle_mb).at_most(12.0),
    ])
}

impl BuildCost {
    fn way(&self) -> f64 {
        self.install + self.own.build_seconds + self.dev_ready
    }
}

impl BuildRun {
    fn new(root: &Path) -> BenchResult<Self> {
        let target = root.join("target");
        fs::create_dir_all(&target)?;
        let folder = tempfile::tempdir_in(target)?;
        // The peer gets the versions of the workspace, as `cargo steersman new` gives them to an operator.
        let peer = folder.path().join(PEER);
        fs::create_dir_all(peer.join("src"))?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(PEER);
        for file in ["Cargo.toml", "src/main.rs"] {
            fs::copy(sources.join(file), peer.join(file))?;
        }
        fs::copy(root.join("Cargo.lock"), peer.join("Cargo.lock"))?;
        Ok(Self {
            root: root.to_owned(),
            folder,
        })
    }

    async fn measure(&self) -> BenchResult<BuildCost> {
        let mut install = self.workspace_cargo("install");
        install
            .args(["install", "--locked", "--profile", "tools"])
            .args(["--path", "crates/tools/cargo-steersman", "--root"])
            .arg(self.path("installed"));
        let install = timed(&mut install).await?;
        run(self
            .steersman(".")
            .args(["new", OPERATOR, "--kind", "Greeting", "--into", "."]))
        .await?;
        let own_build = timed(self.cargo(OPERATOR).arg("build")).await?;
        let peer_build = timed(self.cargo(PEER).arg("build")).await?;

        let began = Instant::now();
        let mut dev = Dev::start(self.steersman(OPERATOR).args(["dev", "--plain"]))?;
        dev.wait_for("is ready").await?;
        let dev_ready = began.elapsed().as_secs_f64();
        let changed = format!("{{ let text = {PUBLISHED}; text + \"!\" }}");
        let began = Instant::now();
        self.edit(PUBLISHED, &changed)?;
        dev.wait_for("patch configmaps").await?;
        let dev_edit = began.elapsed().as_secs_f64();

        // The operator on kube-runtime publishes the text as it was: otherwise both would change it forever.
        self.edit(&changed, PUBLISHED)?;
        dev.wait_for("patch configmaps").await?;
        let own = self.cost(OPERATOR, own_build).await?;
        let peer = self.cost(PEER, peer_build).await?;
        drop(dev);

        let test = timed(self.cargo(OPERATOR).arg("test")).await?;
        self.edit(PUBLISHED, &format!("{PUBLISHED}.trim().to_owned()"))?;
        let test_edit = timed(self.cargo(OPERATOR).arg("test")).await?;
        let mut example = self.workspace_cargo("example");
        example.args(["run", "--locked", "--package", "website-operator"]);
        let example = timed(example.args(["--", "--once", "--embedded"])).await?;
        Ok(BuildCost {
            own,
            peer,
            install,
            dev_ready,
            dev_edit,
            test,
            test_edit,
            example,
        })
    }

    /// Measures the crates and the release program of an operator, against the server of `cargo steersman dev`.
    async fn cost(&self, operator: &str, build_seconds: f64) -> BenchResult<OperatorCost> {
        let mut release = self.cargo(operator);
        release.env("CARGO_PROFILE_RELEASE_STRIP", "true");
        run(release.args(["build", "--release"])).await?;
        let program = self.path(operator).join("target/release").join(operator);
        Ok(OperatorCost {
            build_seconds,
            crates: self.crates(operator).await?,
            #[expect(
                clippy::cast_precision_loss,
                reason = "programs are smaller than 2^53 bytes"
            )]
            program_mb: fs::metadata(&program)?.len() as f64 / 1e6,
            idle_mb: self.idle_memory(&program).await?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cargo(&self, folder: &str) -> Command {
        in_new_shell("cargo", &self.path(folder))
    }

    /// Returns a call of the installed command.
    fn steersman(&self, folder: &str) -> Command {
        let program = self.path("installed/bin/cargo-steersman");
        let mut command = in_new_shell(program, &self.path(folder));
        command.arg("steersman");
        command
    }

    /// Returns a call of cargo in this workspace that builds into a folder of the run.
    fn workspace_cargo(&self, target: &str) -> Command {
        let mut command = in_new_shell("cargo", &self.root);
        command.env("CARGO_TARGET_DIR", self.path(target));
        command
    }

    /// Returns the number of crates that a program is compiled of, with build scripts and macros.
    async fn crates(&self, folder: &str) -> BenchResult<f64> {
        let mut command = self.cargo(folder);
        command.args(["tree", "--edges", "normal,build", "--prefix", "none"]);
        let output = command.output().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?} ended with {}: {why}", output.status).into());
        }
        // A crate has several lines, some of which end in `(*)` or in the path of the crate.
        let names = text.lines().filter_map(|line| line.split(" (").next());
        let distinct: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        Ok(f64::from(u32::try_from(distinct.len())?))
    }

    fn edit(&self, from: &str, to: &str) -> BenchResult<()> {
        let path = self.path(OPERATOR).join(RECONCILER);
        let source = fs::read_to_string(&path)?;
        if !source.contains(from) {
            return Err(format!("{}: `{from}` is missing", path.display()).into());
        }
        Ok(fs::write(&path, source.replace(from, to))?)
    }

    /// Starts a program, and returns its resident memory in megabytes once it is idle.
    async fn idle_memory(&self, program: &Path) -> BenchResult<f64> {
        let mut command = in_new_shell(program, self.folder.path());
        let kubeconfig = self.path(OPERATOR).join("target/steersman/kubeconfig");
        command
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn()?;
        let ended = || format!("{} ended before it was idle", program.display());
        let resident = || megabytes_of(child.id().ok_or_else(ended)?, "status", "VmRSS:");
        let mut former = resident()?;
        loop {
            sleep(READING_INTERVAL).await;
            let now = resident()?;
            if now.to_bits() == former.to_bits() {
                return Ok(now);
            }
            former = now;
        }
    }
}

impl Dev {
    fn start(command: &mut Command) -> BenchResult<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            _child: child,
            lines: BufReader::new(output).lines(),
        })
    }

    async fn wait_for(&mut self, text: &str) -> BenchResult<()> {
        let found = async {
            while let Some(line) = self.lines.next_line().await? {
                if line.contains(text) {
                    return Ok(());
                }
            }
            Err(format!("`cargo steersman dev` ended without a line with '{text}'").into())
        };
        timeout(LINE_LIMIT, found).await?
    }
}

/// Returns a command without the variables of continuous integration and of the cargo that runs this program, and without a
/// network. A drop of its process kills it.
fn in_new_shell(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let kept = KEPT.into_iter();
    command
        .current_dir(folder)
        .env_clear()
        .envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))))
        .env("CARGO_NET_OFFLINE", "true")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end, and returns the seconds.
async fn timed(command: &mut Command) -> BenchResult<f64> {
    let began = Instant::now();
    run(command).await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Runs a command to its end. Its output goes to standard error, because standard output is for figures.
async fn run(command: &mut Command) -> BenchResult<()> {
    let status = command.stdout(std::io::stderr()).status().await?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{command:?} ended with {status}").into())
}
