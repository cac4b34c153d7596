//! Driver: an exploration from parsed flags to its exit code.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use steersman_apiserver::explore::engine::{
    Campaign, CampaignOptions, CampaignResult, PointOutcome, tell as tell_finding,
};
use tokio::time::Instant;

use super::flags::ExploreFlags;
use super::jobs::{AllWorlds, Worlds, run_all};
use super::output::ExploreProgress;
use super::scenario;
use crate::program::problem::{Outcome, ProgramProblem};
use crate::program::process::{say, stopped};

/// Explores, and prints what was found. Returns whether nothing was found.
pub(crate) async fn run(flags: ExploreFlags) -> Outcome<bool> {
    let began = Instant::now();
    let scenario = scenario::read(&flags.scenario)?;
    let stop = stopped()?;
    let folder = WorkFolder::new()?;
    let options = CampaignOptions {
        only: flags.only.clone().map(|only| only.0),
        budget: flags.budget,
        pairs: flags.pairs,
        seed: flags.seed,
        // In real time no two worlds are alike.
        is_repeatable: false,
    };
    let mut campaign = Campaign::new(scenario, options);
    let worlds = Worlds {
        command: flags.command.clone(),
        play: flags.play,
        folder: folder.0.clone(),
    };
    let mut progress = ExploreProgress::new(flags.budget);
    let jobs = usize::from(flags.jobs);
    let done = run_all(&mut campaign, Arc::new(worlds), jobs, stop, &mut progress).await;
    progress.end();
    let done = done?;
    let result = campaign.finish();
    let is_clean = result.findings.is_empty();
    let unreached = result
        .points
        .iter()
        .find(|point| flags.only.is_some() && point.outcome == PointOutcome::NotReached)
        .map(|point| match point.name() {
            only if only.starts_with("desired-state") => ProgramProblem::NoChange { only },
            only => ProgramProblem::NotReached {
                only,
                writes: result.writes.len(),
            },
        });
    let unmatched = result.desired_states.unmatched.clone();
    tell(&flags, result, began.elapsed())?;
    if done == AllWorlds::Stopped && is_clean {
        return Err(ProgramProblem::Stopped);
    }
    if !unmatched.is_empty() && is_clean {
        return Err(ProgramProblem::NoSuchField { fields: unmatched });
    }
    match unreached {
        Some(problem) => Err(problem),
        None => Ok(is_clean),
    }
}

/// A folder for the kubeconfigs and outputs of the worlds. Dropping it removes the folder.
struct WorkFolder(std::path::PathBuf);

impl WorkFolder {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("steersman-explore-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|source| ProgramProblem::Folder {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // A folder that stays is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints the story of each finding and the summary, and writes the report.
fn tell(flags: &ExploreFlags, result: CampaignResult, took: Duration) -> Outcome {
    let words = |words: &[OsString]| words.iter().map(shell_word).collect::<Vec<_>>().join(" ");
    let (scenario, operator) = (flags.scenario.display().to_string(), words(&flags.command));
    let again = again(flags, &operator);
    let report = result.into_report(scenario, operator, took, again);
    for finding in &report.findings {
        say(
            std::io::stdout(),
            &tell_finding(finding, &report.command_for(finding)),
        );
    }
    say(std::io::stdout(), report.summary().trim_end());
    if let Some(folder) = &flags.report {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            let written =
                std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
            written.map_err(|source| ProgramProblem::Folder { path, source })
        };
        write("report.html", report.html())?;
        write("junit.xml", report.junit())?;
        let path = folder.join("report.html");
        say(
            std::io::stdout(),
            &format!("The report is {}.", path.display()),
        );
    }
    Ok(())
}

/// Returns the command that tries a finding again, with `{name}` in place of its name.
fn again(flags: &ExploreFlags, command: &str) -> String {
    let scenario = shell_word(flags.scenario.as_os_str());
    let play = if flags.play { " --play" } else { "" };
    format!("steersman-apiserver explore --scenario {scenario}{play} --only {{name}} -- {command}")
}

/// Returns a word as a shell reads it: in quotes if it has other characters than those of plain paths and flags.
fn shell_word(word: &(impl AsRef<std::ffi::OsStr> + ?Sized)) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./=:,@+{}".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
