//! Driver: an exploration from parsed flags to its exit code.

use std::sync::Arc;
use std::time::Duration;

use steersman_apiserver::explore::engine::{Campaign, CampaignOptions, CampaignResult};
use tokio::time::Instant;

use super::flags::ExploreFlags;
use super::jobs::{Worlds, run_all};
use super::output::Progress;
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
    };
    let mut campaign = Campaign::new(scenario, options);
    let worlds = Worlds {
        command: flags.command.clone(),
        play: flags.play,
        folder: folder.0.clone(),
    };
    let mut progress = Progress::new(flags.budget);
    let jobs = usize::from(flags.jobs);
    let done = run_all(&mut campaign, Arc::new(worlds), jobs, stop, &mut progress).await;
    progress.end();
    done?;
    let result = campaign.finish();
    tell(&flags, &result, began.elapsed())?;
    Ok(result.findings.is_empty())
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

fn tell(flags: &ExploreFlags, result: &CampaignResult, took: Duration) -> Outcome {
    let _ = took;
    for finding in &result.findings {
        let again = again(flags, &finding.name());
        say(std::io::stdout(), &format!("{}: {}\n  {again}", finding.name(), finding.problem));
        for event in &finding.events {
            say(std::io::stdout(), &format!("   {event:?}").chars().take(300).collect::<String>());
        }
    }
    Ok(())
}

/// Returns the command that tries a finding again.
fn again(flags: &ExploreFlags, name: &str) -> String {
    let mut words = vec!["steersman-apiserver explore --scenario".to_owned(), shell_word(flags.scenario.as_os_str())];
    if flags.play {
        words.push("--play".to_owned());
    }
    words.push(format!("--only {name} --"));
    words.extend(flags.command.iter().map(|word| shell_word(word)));
    words.join(" ")
}

/// Returns a word as a shell reads it: in quotes if it has other characters than those of plain paths and flags.
fn shell_word(word: &(impl AsRef<std::ffi::OsStr> + ?Sized)) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,@+{}".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
