//! Runs the benchmarks, and keeps their page of the book.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::flags::Part;

/// The page of the tables.
const PAGE: &str = "docs/benchmarks.md";
/// Where a table ends in it.
const END: &str = "<!-- its end -->\n";

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Cache => "cache",
        }
    }

    /// Where its table begins in the page.
    fn begin(self) -> String {
        format!("<!-- the table of the {} -->\n", self.name())
    }
}

/// Measures, prints the tables, and writes them into the page where asked to.
///
/// # Errors
/// Says what could not be built, run or written.
pub(crate) fn run(root: &Path, only: Option<Part>, quick: bool, write: bool) -> Result<(), String> {
    // Both programs of the package, of which one starts the other.
    let built = [
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--package",
        "steersman-bench",
    ];
    let mut build = Command::new("cargo");
    let status = build.current_dir(root).args(built).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => return Err("the benchmarks could not be built".to_owned()),
        Err(error) => return Err(format!("cargo could not be started: {error}")),
    }
    let parts = [Part::Server, Part::Cache].into_iter();
    for part in parts.filter(|part| only.is_none_or(|only| only == *part)) {
        let table = measure(root, part, quick)?;
        say(&table);
        if write {
            replace(&root.join(PAGE), &part.begin(), &table)?;
        }
    }
    Ok(())
}

fn measure(root: &Path, part: Part, quick: bool) -> Result<String, String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["run", "--release", "--locked", "--quiet"])
        .args(["--package", "steersman-bench", "--", part.name()])
        .args(quick.then_some("--quick"))
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(table);
    }
    let name = part.name();
    Err(format!(
        "the benchmarks of the {name} did not come to their end:\n{table}"
    ))
}

/// Puts the table between its marks.
fn replace(page: &Path, begin: &str, table: &str) -> Result<(), String> {
    let name = page.display();
    let text = fs::read_to_string(page).map_err(|error| format!("{name}: {error}"))?;
    let (before, rest) = text
        .split_once(begin)
        .ok_or_else(|| format!("{name} has no line {begin}"))?;
    let (_, after) = rest
        .split_once(END)
        .ok_or_else(|| format!("{name} has no line {END}"))?;
    let table = table.trim();
    let text = format!("{before}{begin}\n{table}\n\n{END}{after}");
    fs::write(page, text).map_err(|error| format!("{name}: {error}"))
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn say(table: &str) {
    println!("{table}");
}
