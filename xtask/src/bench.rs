//! Runs the benchmarks, and keeps their page of the book.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page, and where in it the table is.
const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- the table of the server -->\n";
const END: &str = "<!-- its end -->\n";

/// Measures the embedded API server, prints the table, and writes it into the page where asked to.
///
/// # Errors
/// Says what could not be built, run or written.
pub(crate) fn run(root: &Path, quick: bool, write: bool) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .args(["run", "--release", "--locked", "--quiet"])
        .args(["--package", "steersman-bench", "--", "server"])
        .args(quick.then_some("--quick"))
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    let table = String::from_utf8_lossy(&output.stdout);
    say(&table);
    if !output.status.success() {
        return Err("the benchmarks did not come to their end".to_owned());
    }
    if write {
        return replace(&root.join(PAGE), &table);
    }
    Ok(())
}

/// Puts the table between its marks.
fn replace(page: &Path, table: &str) -> Result<(), String> {
    let name = page.display();
    let text = fs::read_to_string(page).map_err(|error| format!("{name}: {error}"))?;
    let (before, rest) = text
        .split_once(BEGIN)
        .ok_or_else(|| format!("{name} has no line {BEGIN}"))?;
    let (_, after) = rest
        .split_once(END)
        .ok_or_else(|| format!("{name} has no line {END}"))?;
    let table = table.trim();
    let text = format!("{before}{BEGIN}\n{table}\n\n{END}{after}");
    fs::write(page, text).map_err(|error| format!("{name}: {error}"))
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn say(table: &str) {
    println!("{table}");
}
