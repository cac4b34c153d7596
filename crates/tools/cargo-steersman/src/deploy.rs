//! Driver: `cargo steersman install`, `deploy` and their opposites, with kubectl; and `image`.

mod kept_definitions;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use steersman_manifests::Files;

use crate::command_line::{DeployArgs, ImageArgs};
use crate::error::Error;
use crate::generate::described;
use crate::project::{Project, run_to_end, silent};
use kept_definitions::kept_definitions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManifestAction {
    /// The objects are created or changed.
    Apply,
    /// The objects are deleted; an object that does not exist is no error.
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    Definitions,
    /// The definitions and the operator with all it needs.
    All,
}

const BUILDERS: [&str; 2] = [DOCKER, "podman"];
const DOCKER: &str = "docker";
/// The line of a document with a definition.
const DEFINITION: &str = "kind: CustomResourceDefinition";
/// The text between two documents of YAML.
const BETWEEN: &str = "\n---\n";

/// Applies or deletes objects of the operator in the present folder.
pub(crate) fn deploy(
    args: &DeployArgs,
    action: ManifestAction,
    objects: Objects,
) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    // Before a build that takes minutes.
    find_kubectl()?;
    let (_, manifests) = described(&project, &args.manifests)?;
    if let (ManifestAction::Apply, Objects::All, Some(namespace)) =
        (action, objects, manifests.required_namespace())
    {
        find_namespace(args, namespace, &project.name)?;
    }
    let files = match objects {
        Objects::Definitions => manifests.crds(),
        Objects::All => manifests.install(),
    };
    let mut documents = documents(&files);
    match action {
        ManifestAction::Apply => {
            let kept = kept_definitions(&kubectl(args), &manifests.definitions(), objects)?;
            remove_definitions(&mut documents, &kept);
        }
        ManifestAction::Delete => order_for_deletion(&mut documents),
    }
    if documents.is_empty() {
        return Ok(());
    }
    let text = documents.join(BETWEEN) + "\n";
    let mut command = kubectl(args);
    match action {
        ManifestAction::Apply => command.args(["apply", "--server-side", "--force-conflicts"]),
        ManifestAction::Delete => command.args(["delete", "--ignore-not-found"]),
    };
    command.args(["--filename", "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // kubectl says itself why it reads no more.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(missing)?;
    Error::check("kubectl", status)
}

fn kubectl(args: &DeployArgs) -> Command {
    let mut command = Command::new("kubectl");
    if let Some(context) = &args.context {
        command.args(["--context", context]);
    }
    command
}

fn find_kubectl() -> Result<(), Error> {
    let mut command = Command::new("kubectl");
    silent(command.args(["version", "--client"])).map_err(missing)?;
    Ok(())
}

fn missing(source: std::io::Error) -> Error {
    Error::start("kubectl, which must be on the PATH,")(source)
}

/// Fails if a cluster has no such namespace. If the cluster does not tell, as without a permission, the next command
/// reports that better.
fn find_namespace(args: &DeployArgs, namespace: &str, program: &str) -> Result<(), Error> {
    let mut command = kubectl(args);
    let command = command.args(["get", "namespace", namespace, "--ignore-not-found"]);
    let answer = command.args(["--output", "name"]).stdin(Stdio::null());
    let answer = answer.output().map_err(missing)?;
    match answer.status.success() && answer.stdout.is_empty() {
        true => Err(Error::NoNamespace {
            namespace: namespace.to_owned(),
            own: format!("{program}-system"),
        }),
        false => Ok(()),
    }
}

pub(crate) fn image(args: &ImageArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let mut command = Command::new(builder(project.sources.is_some())?);
    command.args(build_words(&project, &args.image));
    command.current_dir(&project.folder);
    run_to_end(&mut command)
}

/// Returns the first builder on the PATH. Docker passes a second context to a build only with its plugin buildx.
fn builder(needs_context: bool) -> Result<&'static str, Error> {
    let answers = |builder: &str, words: &[&str]| {
        let answer = silent(Command::new(builder).args(words));
        answer.is_ok_and(|status| status.success())
    };
    let mut present = BUILDERS.to_vec();
    present.retain(|builder| answers(builder, &["--version"]));
    let is_usable = |builder: &&&str| {
        !needs_context || **builder != DOCKER || answers(DOCKER, &["buildx", "version"])
    };
    match (present.iter().find(is_usable), present.is_empty()) {
        (Some(builder), _) => Ok(builder),
        (None, true) => Err(Error::NoBuilder(BUILDERS.join(" or "))),
        (None, false) => Err(Error::NoBuildx),
    }
}

/// Returns the words after the name of the program that builds an image.
fn build_words(project: &Project, image: &str) -> Vec<String> {
    let mut words = ["build", "--tag", image].map(str::to_owned).to_vec();
    if let Some(sources) = &project.sources {
        // The Dockerfile of a new operator copies the sources to their place.
        let context = format!("steersman={}", sources.display());
        words.extend(["--build-context".to_owned(), context]);
    }
    words.push(".".to_owned());
    words
}

/// Returns the documents of files, without those that only kustomize reads.
fn documents(files: &Files) -> Vec<&str> {
    let files = files.iter();
    let objects = files.filter(|(path, _)| !path.ends_with("kustomization.yaml"));
    let documents = objects.flat_map(|(_, text)| text.trim_end().split(BETWEEN));
    documents.collect()
}

/// Removes the definitions of these names.
fn remove_definitions(documents: &mut Vec<&str>, names: &[String]) {
    let is_named = |document: &&str| {
        let mut names = names.iter();
        names.any(|name| has_line(document, &format!("  name: {name}")))
    };
    documents.retain(|document| !(has_line(document, DEFINITION) && is_named(document)));
}

/// Orders the documents as their objects are deleted: definitions first, while the operator still handles the
/// finalizers of their objects. The namespace stays, because it may hold more than the operator.
fn order_for_deletion(documents: &mut Vec<&str>) {
    documents.retain(|document| !has_line(document, "kind: Namespace"));
    documents.sort_by_key(|document| !has_line(document, DEFINITION));
}

fn has_line(document: &str, line: &str) -> bool {
    document.lines().any(|known| known == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_gets_the_sources_that_the_crate_depends_on_by_path() {
        let mut project = Project {
            folder: ".".into(),
            name: "greeter".to_owned(),
            edition: "2024".to_owned(),
            metadata: serde_json::Value::Null,
            sources: None,
        };
        let words = |project: &Project| build_words(project, "greeter:1").join(" ");
        assert_eq!(words(&project), "build --tag greeter:1 .");
        project.sources = Some("/src".into());
        let expected = "build --tag greeter:1 --build-context steersman=/src .";
        assert_eq!(words(&project), expected);
    }

    #[test]
    fn definitions_are_deleted_first_and_the_namespace_stays() {
        let text = "kind: Namespace\n---\nkind: Deployment\nspec:\n  kind: CustomResourceDefinition\n---\n\
                    # Note.\nkind: CustomResourceDefinition\n";
        let expected = "# Note.\nkind: CustomResourceDefinition\n---\n\
                        kind: Deployment\nspec:\n  kind: CustomResourceDefinition\n";
        let files = Files::from([("dist/install.yaml".to_owned(), text.to_owned())]);
        let mut documents = documents(&files);
        order_for_deletion(&mut documents);
        assert_eq!(documents.join(BETWEEN) + "\n", expected);
    }
}
