//! Runs the benchmarks, compares them with saved results, and writes their page of the book.

mod figure;
mod results;
mod check;
mod table;
mod draw;
mod page;
mod machine;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use clap::ValueEnum as _;

use self::results::{Measured, Results};
use crate::cargo;
use crate::dist;
use crate::flags::{Bench, Part};
use crate::say;

const PAGE: &str = "docs/benchmarks.md";
/// The saved results, which later runs are compared with.
const FILE: &str = "docs/benchmarks.json";
const PLOTS: &str = "docs/benchmarks";
/// The tables that pages of the guide show, too.
const GUIDE: [(Part, &str); 2] = [
    (Part::Options, "crates/framework/steersman/guide/memory.md"),
    (
        Part::Port,
        "crates/framework/steersman/guide/coming-from-kube-rs.md",
    ),
];

impl Part {
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn allows_external(self) -> bool {
        matches!(
            self,
            Self::Cache | Self::Kinds | Self::Options | Self::Scaling
        )
    }
}

/// Measures, prints the tables and their changes, and saves or checks them if the flags say so.
pub(crate) fn run(root: &Path, asked: &Bench) -> Result<(), String> {
    let parts = parts(asked)?;
    if asked.micro {
        return run_cargo(root, &["bench", "--locked", "--package", "steersman-bench"]);
    }
    let results = Results::read(&root.join(FILE))?;
    if asked.check && results.tables.is_empty() {
        return Err(format!(
            "{FILE} holds no results to check against; save them with --write"
        ));
    }
    // Builds both programs of the package: one starts the other.
    let built = ["build", "--release", "--locked", "--quiet"];
    let package = ["--package", "steersman-bench"];
    run_cargo(root, &[&built[..], &package].concat())?;
    each(root, asked, &parts, results, |part| {
        measure(root, part, asked)
    })
}

/// Measures one table after the other. Each table is saved at once, so that a failure or an interrupt
/// loses no other table.
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
        // Short runs and external servers are not compared with saved results.
        let comparable = !asked.quick && asked.against.is_none();
        if let Some(saved) = results.tables.get(&name).filter(|_| comparable) {
            for line in check::changes(&saved.figures, &measured.figures) {
                say(&line);
            }
            let worse = check::failures(&saved.known(), &measured.figures);
            if asked.check {
                problems.extend(worse);
            } else {
                worse.iter().for_each(|line| say(line));
            }
        } else if asked.check {
            problems.push(format!(
                "{name}: no results of this table are saved; save them with --write"
            ));
        }
        if asked.write {
            results.take(&name, measured);
            results.write(&root.join(FILE))?;
            publish(root, part, &results)?;
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// Returns the tables to measure: those in the flags, or all that can be measured.
fn parts(asked: &Bench) -> Result<Vec<Part>, String> {
    let is_external = asked.against.is_some();
    if let Some(part) = asked
        .only
        .iter()
        .find(|part| is_external && !part.allows_external())
    {
        let name = part.name();
        return Err(format!(
            "`{name}` cannot be measured with --against: only cache, kinds, options and scaling can"
        ));
    }
    let wanted = |part: &Part| match asked.only.as_slice() {
        // The compiler works for an hour, so its table is measured only if the flags name it.
        [] => *part != Part::Build && (part.allows_external() || !is_external),
        only => only.contains(part),
    };
    Ok(Part::value_variants()
        .iter()
        .copied()
        .filter(wanted)
        .collect())
}

fn run_cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    match cargo::command(root).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`cargo {}` failed", arguments.join(" "))),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

fn measure(root: &Path, part: Part, asked: &Bench) -> Result<Measured, String> {
    let name = part.name();
    let mut command = cargo::command(root);
    command
        .args(["run", "--release", "--locked", "--quiet"])
        .args(["--package", "steersman-bench", "--", &name])
        .args(asked.quick.then_some("--quick"))
        .stderr(Stdio::inherit());
    if part == Part::Steady {
        // Results that are saved or checked come from long runs.
        let is_long = asked.long || asked.write || asked.check;
        command.args(is_long.then_some("--long"));
    }
    if matches!(part, Part::Server | Part::Explore)
        && let Some(program) = dist::program(root)?
    {
        // The packed program, because its profile decides about its memory.
        command.arg("--program").arg(program);
    }
    if let Some(kubeconfig) = &asked.against {
        // The benchmark runs in another folder, so the path is made absolute.
        let kubeconfig = std::path::absolute(kubeconfig);
        let kubeconfig = kubeconfig.map_err(|error| format!("--against: {error}"))?;
        command.arg("--against").arg(kubeconfig);
        command.arg("--until-closed");
    }
    let not_started = |error: std::io::Error| format!("cargo could not be started: {error}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut measuring = command.spawn().map_err(not_started)?;
    // The pipe closes when this process ends, for whatever reason. The benchmark then removes its objects
    // from an external server.
    let pipe = measuring.stdin.take();
    let output = measuring.wait_with_output().map_err(not_started)?;
    drop(pipe);
    let lines = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the benchmark `{name}` failed"));
    }
    Ok(Measured {
        date: machine::today(),
        machine: machine::machine(),
        figures: results::figures(&lines)?,
        missing: Vec::new(),
    })
}

/// Writes a table and its plots into the book.
fn publish(root: &Path, part: Part, results: &Results) -> Result<(), String> {
    let name = part.name();
    let Some(measured) = results.tables.get(&name) else {
        return Ok(());
    };
    let table = table::markdown(&measured.figures);
    let (date, machine) = (&measured.date, &measured.machine);
    let mut content = format!("{table}\nMeasured on {date} ({machine}).\n");
    for plot in draw::plots(&name) {
        let Some(drawn) = plot.draw(&measured.figures)? else {
            continue;
        };
        let path = root.join(PLOTS);
        let (file, title) = (plot.file, plot.title);
        let written = fs::create_dir_all(&path).and_then(|()| fs::write(path.join(file), drawn));
        written.map_err(|error| format!("{PLOTS}/{file}: {error}"))?;
        content.push_str(&format!("\n![{title}](benchmarks/{file})\n"));
    }
    page::write(&root.join(PAGE), &name, &content)?;
    for (_, guide) in GUIDE.iter().filter(|(shown, _)| *shown == part) {
        page::write(&root.join(guide), &name, &table)?;
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "long work reports its progress")]
fn progress(what: &str) {
    eprintln!("{what} …");
}

#[cfg(test)]
mod tests;
