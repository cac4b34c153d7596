//! Runs the fuzz targets of the package `steersman-fuzz` with libFuzzer, built by the stable compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use parking_lot::Mutex;

use crate::flags::Fuzz;
use crate::{files, say};

const PACKAGE: &str = "steersman-fuzz";

/// The folder with one folder of inputs per target.
const CORPUS: &str = "crates/tools/steersman-fuzz/corpus";

/// The targets that need neither the API server nor webhooks, which take minutes to build.
const SMALL: [&str; 4] = ["lists", "objects", "texts", "watches"];

/// Compiler flags for libFuzzer: coverage counters, a table of their positions, and traced comparisons.
const INSTRUMENTATION: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The time limit per input, in seconds; a slower input is a finding.
const TOO_SLOW: u32 = 10;

/// The memory limit, in MB; an input that needs more is a finding.
const TOO_LARGE: u32 = 2048;

/// The binary of all targets.
struct Fuzzer<'a> {
    root: &'a Path,
    binary: PathBuf,
}

impl<'a> Fuzzer<'a> {
    /// Builds the binary of the targets. With an explicit target platform the flags do not apply to build scripts and
    /// procedural macros, which could not be linked with them.
    fn build(root: &'a Path, wanted: &[String]) -> Result<Self, String> {
        let host = host()?;
        let target_folder = root.join("target/fuzz");
        let is_small = wanted.iter().all(|name| SMALL.contains(&name.as_str()));
        let status = Command::new("cargo")
            .current_dir(root)
            .args(["build", "--locked", "--profile", "fuzz"])
            .args(["--package", PACKAGE])
            .args(is_small.then_some("--no-default-features"))
            .args(["--features", "libfuzzer", "--target", &host])
            .env("CARGO_TARGET_DIR", &target_folder)
            .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\u{1f}"))
            .status()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        if !status.success() {
            return Err("the fuzz targets could not be built".to_owned());
        }
        let binary = target_folder.join(host).join("fuzz").join(PACKAGE);
        Ok(Self { root, binary })
    }

    /// Searches with one target, starting from the corpus and the inputs that earlier runs found.
    fn search(&self, target: &str, fuzz: &Fuzz) -> Result<(), String> {
        let seconds = fuzz.seconds;
        say(&format!("{target}: {seconds} s"));
        let arguments = [
            format!("-max_total_time={seconds}"),
            // libFuzzer takes a random seed for zero.
            format!("-seed={}", fuzz.seed.unwrap_or_default()),
            "-print_final_stats=1".to_owned(),
            text(&self.folder("found", target)),
            text(&self.corpus(target)),
        ];
        self.run(target, &arguments)
    }

    /// Runs the binary on one target, with `arguments` in addition to those of every run, and reports its statistics or
    /// its finding.
    fn run(&self, target: &str, arguments: &[String]) -> Result<(), String> {
        let log_file = self.folder("logs", target).with_extension("txt");
        let findings = self.folder("findings", target);
        let io = |error: std::io::Error| format!("{target}: {error}");
        let found = self.folder("found", target);
        for needed in [&found, &self.folder("logs", ""), &findings] {
            fs::create_dir_all(needed).map_err(io)?;
        }
        let status = Command::new(&self.binary)
            .env("FUZZ_TARGET", target)
            .env("RUST_BACKTRACE", "0")
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .arg(format!("-timeout={TOO_SLOW}"))
            .arg(format!("-rss_limit_mb={TOO_LARGE}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log_file).map_err(io)?)
            .status()
            .map_err(io)?;
        let log = fs::read_to_string(&log_file).unwrap_or_default();
        if status.success() {
            let statistic = |name: &str| {
                let line = log.lines().find_map(|line| line.strip_prefix(name));
                line.map_or("?", str::trim).to_owned()
            };
            say(&format!(
                "{target}: no finding; {} inputs, {} of them new",
                statistic("stat::number_of_executed_units:"),
                statistic("stat::new_units_added:"),
            ));
            return Ok(());
        }
        let mut lines = log.lines().rev();
        let input = lines.find_map(|line| line.split_once("Test unit written to "));
        let input = input.map_or("the input that the log names", |(_, path)| path);
        let panicked = log.lines().rfind(|line| line.contains("panicked at"));
        let no_panic = "No panic: the input was too slow or needed too much memory.";
        Err(format!(
            "{target}: a finding ({status}). {}\n  the log: {}\n  again: cargo xtask fuzz {target} --input {input}\n  \
             after the fix, keep the input in {CORPUS}/{target}",
            panicked.unwrap_or(no_panic),
            log_file.display(),
        ))
    }

    /// Adds inputs to the corpus that reach code that the corpus does not reach.
    fn keep(&self, target: &str) -> Result<(), String> {
        let (corpus, found) = (self.corpus(target), self.folder("found", target));
        let arguments = ["-merge=1".to_owned(), text(&corpus), text(&found)];
        self.run(target, &arguments)
    }

    fn corpus(&self, target: &str) -> PathBuf {
        self.root.join(CORPUS).join(target)
    }

    fn folder(&self, what: &str, target: &str) -> PathBuf {
        self.root.join("target/fuzz").join(what).join(target)
    }
}

pub(crate) fn run(root: &Path, fuzz: &Fuzz) -> Result<(), String> {
    let targets = wanted(root, fuzz)?;
    let fuzzer = Fuzzer::build(root, &targets)?;
    if let Some(input) = &fuzz.input {
        let [target] = targets.as_slice() else {
            return Err("name the target of the input".to_owned());
        };
        return fuzzer.run(target, &[text(input)]);
    }
    let waiting = Mutex::new(targets.iter());
    // The lock is released before the target runs.
    let next = || waiting.lock().next();
    let findings = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = next() {
                    if let Err(finding) = fuzzer.search(target, fuzz) {
                        findings.lock().push(finding);
                    }
                }
            });
        }
    });
    let findings = findings.into_inner();
    if !findings.is_empty() {
        return Err(findings.join("\n"));
    }
    if fuzz.keep {
        return targets.iter().try_for_each(|target| fuzzer.keep(target));
    }
    Ok(())
}

/// Returns the names of the targets to run; the folders in the folder of the corpora are all targets.
fn wanted(root: &Path, fuzz: &Fuzz) -> Result<Vec<String>, String> {
    let corpus = root.join(CORPUS);
    let mut known = files::names(&corpus)?;
    known.retain(|name| corpus.join(name).is_dir());
    if let Some(unknown) = fuzz.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!(
            "there is no target '{unknown}'; the targets are: {}",
            known.join(", ")
        ));
    }
    Ok(match fuzz.targets.as_slice() {
        [] => known,
        named => named.to_vec(),
    })
}

/// Returns the target platform of this machine, as rustc names it.
fn host() -> Result<String, String> {
    let output = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output()
        .map_err(|error| format!("rustc could not be started: {error}"))?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "" => Err("rustc does not name its host with --print host-tuple".to_owned()),
        host => Ok(host.to_owned()),
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
