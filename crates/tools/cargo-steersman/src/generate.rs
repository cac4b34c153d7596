//! Driver: `cargo steersman generate`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use steersman_description::Description;
use steersman_manifests::files::{EXTRA, OBSERVED};
use steersman_manifests::{Files, Manifests, Options, RuleList};

use crate::command_line::{GenerateArgs, ManifestArgs, Output};
use crate::comparison::{FileDifference, compare, is_generated};
use crate::error::Error;
use crate::files::{read_present, write};
use crate::project::{Project, describe};
use crate::screen::{complain, say};

const CHART: &str = "dist/chart";

/// Writes the manifests of the operator in the current folder, or with `--check` compares them with the files.
pub(crate) fn generate(args: &GenerateArgs) -> Result<(), Error> {
    let project = Project::find()?;
    let (_, manifests) = described(&project, &args.manifests)?;
    let outputs = outputs(args, &project);
    let mut files = Files::new();
    for output in &outputs {
        files.extend(match output {
            Output::Crds => manifests.crds(),
            Output::Rbac => manifests.rbac(),
            Output::Manifests => {
                let mut files = manifests.kustomize();
                files.extend(manifests.install());
                files
            }
            Output::Helm => manifests.helm(),
        });
    }
    let existing = existing(&project.folder, &files, &outputs)?;
    let differences = compare(&files, &existing);
    if args.check {
        return match differences.is_empty() {
            true => Ok(()),
            false => Err(Error::OutOfDate(
                differences.iter().map(ToString::to_string).collect(),
            )),
        };
    }
    let foreign = existing
        .iter()
        .filter(|(path, text)| files.contains_key(*path) && !is_generated(text));
    let paths: Vec<String> = foreign.map(|(path, _)| path.clone()).collect();
    if !paths.is_empty() {
        return Err(Error::NotGenerated(paths));
    }
    write(&project.folder, &files)?;
    for difference in &differences {
        match difference {
            FileDifference::Missing(path) => say(format_args!("made    {path}")),
            FileDifference::Changed(path, _) => say(format_args!("changed {path}")),
            FileDifference::Stale(path) => {
                let file = project.folder.join(path);
                fs::remove_file(&file).map_err(Error::file(&file, "removed"))?;
                say(format_args!("removed {path}"));
            }
        }
    }
    if differences.is_empty() {
        say("the manifests are up to date");
    }
    Ok(())
}

pub(crate) fn described(
    project: &Project,
    args: &ManifestArgs,
) -> Result<(Description, Manifests), Error> {
    let program = match &args.operator.program {
        Some(program) => program.clone(),
        None => project.build(&args.operator)?,
    };
    let description = describe(&program, Stdio::inherit())?;
    let mut options = options(&project.metadata)?;
    options.namespace = args.namespace.clone().or(options.namespace);
    options.image = args.image.clone().or(options.image);
    if !project.folder.join(OBSERVED).exists() {
        complain(format_args!(
            "{OBSERVED} does not exist, so the role has no rules that tests saw: run the tests with `observe_rbac` first"
        ));
    }
    let manifests = Manifests::new(&description, &file_rules(project)?, &options)?;
    Ok((description, manifests))
}

/// Returns the manifests that `dev` applies, in the namespace `default`: the webhook configurations of a program, and
/// the account of the program with the permissions that `generate` grants.
pub(crate) fn dev_objects(project: &Project, description: &Description) -> Result<Files, Error> {
    let options = Options {
        namespace: Some("default".to_owned()),
        ..Options::default()
    };
    let manifests = Manifests::new(description, &file_rules(project)?, &options)?;
    let mut files = manifests.kustomize();
    files.retain(|path, _| {
        let is_role = path.starts_with("config/rbac/") && !path.ends_with("kustomization.yaml");
        is_role || path.ends_with("webhook/configurations.yaml")
    });
    Ok(files)
}

fn file_rules(project: &Project) -> Result<RuleList, Error> {
    let mut all = RuleList::default();
    for file in [OBSERVED, EXTRA] {
        if let Some(text) = read_present(&project.folder.join(file))? {
            all.merge(&RuleList::parse(file, &text)?);
        }
    }
    Ok(all)
}

/// Returns the outputs of the command line. The default is all outputs, and the chart only if it exists.
fn outputs(args: &GenerateArgs, project: &Project) -> BTreeSet<Output> {
    if !args.outputs.is_empty() {
        return args.outputs.iter().copied().collect();
    }
    let mut all = BTreeSet::from([Output::Crds, Output::Rbac, Output::Manifests]);
    if project.folder.join(CHART).exists() {
        all.insert(Output::Helm);
    }
    all
}

/// Returns the options in `[package.metadata.steersman]` of `Cargo.toml`.
fn options(metadata: &Value) -> Result<Options, Error> {
    if metadata.is_null() {
        return Ok(Options::default());
    }
    let options = serde_path_to_error::deserialize(metadata);
    options.map_err(|problem| {
        let is_key = problem.inner().to_string().starts_with("unknown field");
        let key = match problem.path().to_string() {
            // The problem names an unknown key itself.
            key if is_key || key == "." => String::new(),
            key => key + ": ",
        };
        let problem = problem.into_inner().to_string();
        Error::Metadata { key, problem }
    })
}

/// Reads the existing files in the places of these outputs.
fn existing(
    folder: &Path,
    files: &Files,
    outputs: &BTreeSet<Output>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut paths: BTreeSet<String> = files.keys().cloned().collect();
    for output in outputs {
        let below = match output {
            Output::Crds => "config/crd",
            Output::Rbac => "config/rbac",
            Output::Manifests => "config",
            Output::Helm => CHART,
        };
        find(folder, below, &mut paths)?;
    }
    let mut existing = BTreeMap::new();
    for path in paths {
        let file = folder.join(&path);
        // A file that is not UTF-8 is skipped, because no generated file is like that.
        if let Ok(text) = fs::read_to_string(&file) {
            existing.insert(path, text);
        }
    }
    Ok(existing)
}

fn find(folder: &Path, below: &str, paths: &mut BTreeSet<String>) -> Result<(), Error> {
    let place = folder.join(below);
    if !place.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(&place).map_err(Error::file(&place, "read"))?;
    for entry in entries {
        let entry = entry.map_err(Error::file(&place, "read"))?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        // Symbolic links are not followed, because a link could lead back to this folder.
        let kind = entry.file_type().map_err(Error::file(&place, "read"))?;
        if kind.is_dir() {
            find(folder, &path, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_option_is_named_and_an_unknown_one_with_the_known_ones() {
        let cases = [
            (
                json!({"replicas": "2"}),
                "replicas: invalid type: string \"2\"",
            ),
            (
                json!({"replicas": -1}),
                "replicas: invalid value: integer `-1`",
            ),
            (
                json!({"namespaces": ["a", 1]}),
                "namespaces[1]: invalid type",
            ),
            (
                json!({"netpol": true}),
                "unknown field `netpol`, expected one of `namespace`, `image`",
            ),
            (json!("x"), "invalid type: string \"x\""),
        ];
        for (metadata, expected) in cases {
            let problem = options(&metadata).unwrap_err().to_string();
            let start = format!("[package.metadata.steersman] of Cargo.toml: {expected}");
            assert!(problem.starts_with(&start), "{problem}");
        }
    }
}
