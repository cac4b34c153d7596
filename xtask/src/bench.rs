//! Runs the benchmarks, compares them with what was noted before, and keeps their page of the book.

mod figure;
mod results;
mod check;
mod table;
mod draw;
mod page;
mod machine;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum as _;

use self::results::{Measured, Results};
use crate::flags::{Bench, Part};

/// The page of the tables.
const PAGE: &str = "docs/benchmarks.md";
/// What later runs compare with.
const FILE: &str = "docs/benchmarks.json";
/// Where the plots are.
const PLOTS: &str = "docs/benchmarks";
/// A page of the guide that shows one of the tables, too.
const GUIDE: (Part, &str) = (Part::Options, "crates/steersman/guide/memory.md");

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Cache => "cache",
            Self::Controller => "controller",
            Self::Load => "load",
            Self::Kinds => "kinds",
            Self::Options => "options",
            Self::Scaling => "scaling",
            Self::Steady => "steady",
        }
    }

    /// Whether a server of others can be measured.
    fn is_foreign(self) -> bool {
        matches!(
            self,
            Self::Cache | Self::Kinds | Self::Options | Self::Scaling
        )
    }
}

/// Measures, prints the tables and what changed, and keeps or checks them where asked to.
///
/// # Errors
/// Says what could not be built, run or written, or what is worse than its bound.
pub(crate) fn run(root: &Path, asked: &Bench) -> Result<(), String> {
    let parts = parts(asked)?;
    if asked.micro {
        return cargo(root, &["bench", "--locked", "--package", "steersman-bench"]);
    }
    let results = Results::read(&root.join(FILE))?;
    if asked.check && results.tables.is_empty() {
        return Err(format!(
            "{FILE} holds nothing to check against: write it with --write"
        ));
    }
    // Both programs of the package, of which one starts the other.
    let built = ["build", "--release", "--locked", "--quiet"];
    cargo(
        root,
        &[&built[..], &["--package", "steersman-bench"]].concat(),
    )?;
    each(root, asked, &parts, results, |part| {
        measure(root, part, asked)
    })
}

/// Measures one table after the other. Each is noted as soon as it is there, so that one that fails, or an
/// interrupt, costs no other.
fn each(
    root: &Path,
    asked: &Bench,
    parts: &[Part],
    mut results: Results,
    mut measure: impl FnMut(Part) -> Result<Measured, String>,
) -> Result<(), String> {
    let mut problems = Vec::new();
    for (at, part) in parts.iter().copied().enumerate() {
        let name = part.name();
        progress(&format!("{name}, {} of {} tables", at + 1, parts.len()));
        let measured = match measure(part) {
            Ok(measured) => measured,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        say(&format!("{name}\n\n{}", table::markdown(&measured.figures)));
        // What is small, or not this machine's, is no measure for what was noted.
        let comparable = !asked.quick && asked.against.is_none();
        if let Some(noted) = results.tables.get(name).filter(|_| comparable) {
            for line in check::changes(&noted.figures, &measured.figures) {
                say(&line);
            }
            let worse = check::failures(&noted.known(), &measured.figures);
            if asked.check {
                problems.extend(worse);
            } else {
                worse.iter().for_each(|line| say(line));
            }
        } else if asked.check {
            problems.push(format!(
                "{name}: nothing is noted of this table; --write notes it"
            ));
        }
        if asked.write {
            results.take(name, measured);
            results.write(&root.join(FILE))?;
            publish(root, part, &results)?;
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// What is measured: what was asked for, or all that can be.
fn parts(asked: &Bench) -> Result<Vec<Part>, String> {
    let of_others = asked.against.is_some();
    if let Some(part) = asked
        .only
        .iter()
        .find(|part| of_others && !part.is_foreign())
    {
        let name = part.name();
        return Err(format!(
            "`{name}` cannot be measured --against another server: it drives or counts what its own does"
        ));
    }
    let wanted = |part: &Part| match asked.only.as_slice() {
        [] => part.is_foreign() || !of_others,
        only => only.contains(part),
    };
    Ok(Part::value_variants()
        .iter()
        .copied()
        .filter(wanted)
        .collect())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    match Command::new("cargo")
        .current_dir(root)
        .args(arguments)
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`cargo {}` failed", arguments.join(" "))),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

fn measure(root: &Path, part: Part, asked: &Bench) -> Result<Measured, String> {
    let name = part.name();
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["run", "--release", "--locked", "--quiet"])
        .args(["--package", "steersman-bench", "--", name])
        .args(asked.quick.then_some("--quick"))
        .stderr(Stdio::inherit());
    if part == Part::Steady {
        // What is noted, and held to that, is the long one: a minute proves less.
        let is_long = asked.long || asked.write || asked.check;
        command.args(is_long.then_some("--long"));
    }
    if let Some(kubeconfig) = &asked.against {
        // The measurement runs in another folder.
        let kubeconfig = std::path::absolute(kubeconfig);
        let kubeconfig = kubeconfig.map_err(|error| format!("--against: {error}"))?;
        command
            .arg("--against")
            .arg(kubeconfig)
            .arg("--until-closed");
    }
    let not_started = |error: std::io::Error| format!("cargo could not be started: {error}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut measuring = command.spawn().map_err(not_started)?;
    // However this process ends, its end of the pipe is closed then: a measurement on a server of others
    // removes what it made there.
    let held = measuring.stdin.take();
    let output = measuring.wait_with_output().map_err(not_started)?;
    drop(held);
    let lines = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!(
            "the benchmarks of `{name}` did not come to their end"
        ));
    }
    Ok(Measured {
        date: machine::today(),
        machine: machine::machine(),
        figures: results::figures(&lines)?,
        missing: Vec::new(),
    })
}

/// Writes the table and its plots into the book.
fn publish(root: &Path, part: Part, results: &Results) -> Result<(), String> {
    let name = part.name();
    let Some(measured) = results.tables.get(name) else {
        return Ok(());
    };
    let table = table::markdown(&measured.figures);
    let (date, machine) = (&measured.date, &measured.machine);
    let mut content = format!("{table}\nMeasured on {date} ({machine}).\n");
    for plot in draw::plots(name) {
        let Some(drawn) = plot.draw(&measured.figures)? else {
            continue;
        };
        let path = root.join(PLOTS);
        let (file, title) = (plot.file, plot.title);
        let written = fs::create_dir_all(&path).and_then(|()| fs::write(path.join(file), drawn));
        written.map_err(|error| format!("{PLOTS}/{file}: {error}"))?;
        content.push_str(&format!("\n![{title}](benchmarks/{file})\n"));
    }
    page::write(&root.join(PAGE), name, &content)?;
    if GUIDE.0 == part {
        let guide = root.join(GUIDE.1);
        page::write(&guide, name, &table)?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the tables are what was asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "long work shows how far it is")]
fn progress(what: &str) {
    eprintln!("{what} …");
}

#[cfg(test)]
mod tests;
