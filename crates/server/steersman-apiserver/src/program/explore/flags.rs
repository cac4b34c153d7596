//! Words: the command line of `steersman-apiserver explore`. The comments below are its help text.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use steersman_apimachinery::go;
use steersman_apiserver::explore::engine::Perturbation;

/// The description of a scenario, behind the flags.
const SCENARIO: &str = "\
The scenario is a YAML file. Only initial and steps are needed; paths are relative to the file:

  initial: [crd.yaml]                # files or folders
  steps:                             # apply, merge, delete, quiet or pass
  - apply: site.yaml
  - quiet: {}                        # waits until the operator is quiet
  - merge: {apiVersion: example.com/v1, kind: Site, namespace: default, name: a, patch: {spec: {size: 2}}}
  - pass: 5s
  - delete: {apiVersion: example.com/v1, kind: Site, namespace: default, name: a}
  quiet: 2s                          # without a write for so long, the operator is quiet
  patience: 60s                      # the longest wait for the expected state
  always: [{name: few, rule: \"objects.size() < 100\"}]  # CEL, after each write; finally: at the end
  constant: [{kind: Secret, path: data.password}]      # stays as first set
  ignore: [{kind: Event}]                              # not compared; with path: only that field
  replicas: 1
  perturbations: [crash-after-write, refuse]           # all that fit if left out
  desiredStates: {skip: [{kind: Site, path: spec.id}]} # fields that desired-state leaves alone; only: those that it changes";

/// Explores an operator: runs it in many worlds, each on an API server of its own. Kills it at each of its writes,
/// loses answers, shows it old states, and so on, and compares each world with an undisturbed one.
///
/// The command starts the operator. It gets the kubeconfig of its world in KUBECONFIG, and the number of its
/// world in STEERSMAN_WORLD; {world} in an argument is replaced by that number. With --jobs it must not need a
/// port that another world uses.
///
/// Exit codes: 0 nothing found, 1 findings, 2 the exploration could not run, the point of --only was not reached,
/// or a signal ended it before anything was found.
#[derive(Debug, Parser)]
#[command(
    name = "steersman-apiserver explore",
    bin_name = "steersman-apiserver explore",
    version,
    verbatim_doc_comment,
    after_long_help = SCENARIO
)]
pub(crate) struct ExploreFlags {
    /// The file of the scenario: initial objects, steps of a user, and what must hold.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: PathBuf,

    /// Try only this perturbation, such as crash-after-write@3, a pair with + between, or reference for the
    /// undisturbed worlds alone.
    #[arg(long, value_name = "NAME", value_parser = only)]
    pub(crate) only: Option<OnlyPerturbations>,

    /// The number of worlds at once.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) jobs: u16,

    /// The time after which no further point is tried.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,

    /// The number of pairs of perturbations to try after all single ones.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) pairs: usize,

    /// The seed that chooses the pairs.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,

    /// Folder for a report: report.html and junit.xml.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    /// Act as the controllers of workloads, the scheduler and the kubelets, too.
    #[arg(long)]
    pub(crate) play: bool,

    /// The command that starts the operator, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The perturbations of `--only`.
#[derive(Debug, Clone)]
pub(crate) struct OnlyPerturbations(pub(crate) Vec<Perturbation>);

fn only(text: &str) -> Result<OnlyPerturbations, String> {
    let parsed = Perturbation::parse_all(text);
    parsed
        .map(OnlyPerturbations)
        .map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanos = go::parse_duration(text)?;
    let nanos = u64::try_from(nanos).map_err(|_| format!("{text} is negative"))?;
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        ExploreFlags::command().debug_assert();
        let line = [
            "explore", "--scenario", "a.yaml", "--budget", "10m", "--only",
            "refuse@2:409+throttled", "--", "python3", "-u", "a.py",
        ];
        let flags = ExploreFlags::parse_from(line);
        assert_eq!(flags.command.len(), 3);
        assert_eq!(flags.budget, Some(Duration::from_secs(600)));
        assert_eq!(flags.only.unwrap().0.len(), 2);
        assert!(ExploreFlags::try_parse_from(["explore", "--scenario", "a.yaml"]).is_err());
    }
}
