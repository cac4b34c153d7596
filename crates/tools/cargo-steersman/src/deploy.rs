//! Driver: `cargo steersman install`, `deploy` and their opposites with kubectl, and `image` with docker or podman.

mod kept_definitions;

use std::io::Write as _;
use std::process::{Command, Stdio};

use steersman_manifests::Files;

use crate::command_line::DeployArgs;
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
    /// The definitions of the operator's kinds, and all objects that the operator needs to run.
    All,
}

const BUILDERS: [&str; 2] = [DOCKER, "podman"];
const DOCKER: &str = "docker";
/// The line that marks a YAML document as a CustomResourceDefinition.
const DEFINITION: &str = "kind: CustomResourceDefinition";
/// The separator of YAML documents.
const BETWEEN: &str = "\n---\n";

/// Applies or deletes the objects of the operator in the current folder.
pub(crate) fn deploy(
    args: &DeployArgs,
    action: ManifestAction,
    objects: Objects,
) -> Result<(), Error> {
    let project = Project::find()?;
    // kubectl is looked up first, because the build takes minutes.
    silent(Command::new("kubectl").args(["version", "--client"])).map_err(missing)?;
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
            let kept = kept_definitions(args, &manifests.definitions(), objects)?;
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
        // A failed write is ignored: kubectl exits with its own error message.
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

fn missing(source: std::io::Error) -> Error {
    Error::start("kubectl, which must be on the PATH,")(source)
}

/// Fails if the namespace does not exist: `deploy` creates only the operator's own namespace, `<program>-system`.
/// Ignores a failed read, because the next kubectl command reports its cause.
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

pub(crate) fn image(image: &str) -> Result<(), Error> {
    let project = Project::find()?;
    let mut command = Command::new(builder(project.sources.is_some())?);
    command.args(build_words(&project, image));
    command.current_dir(&project.folder);
    run_to_end(&mut command)
}

/// Returns the first usable builder on the PATH. With a second build context, docker needs its plugin buildx.
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

/// Returns the arguments with which docker or podman builds the image.
fn build_words(project: &Project, image: &str) -> Vec<String> {
    let mut words = ["build", "--tag", image].map(str::to_owned).to_vec();
    if let Some(sources) = &project.sources {
        // The Dockerfile of the operator copies the framework's sources from this build context.
        let context = format!("steersman={}", sources.display());
        words.extend(["--build-context".to_owned(), context]);
    }
    words.push(".".to_owned());
    words
}

/// Returns the YAML documents of the files, without the files that only kustomize reads.
fn documents(files: &Files) -> Vec<&str> {
    let files = files.iter();
    let objects = files.filter(|(path, _)| !path.ends_with("kustomization.yaml"));
    let documents = objects.flat_map(|(_, text)| text.trim_end().split(BETWEEN));
    documents.collect()
}

fn remove_definitions(documents: &mut Vec<&str>, names: &[String]) {
    let is_named = |document: &&str| {
        let mut names = names.iter();
        names.any(|name| has_line(document, &format!("  name: {name}")))
    };
    documents.retain(|document| !(has_line(document, DEFINITION) && is_named(document)));
}

/// Orders documents for deletion: definitions first, while the operator still handles the finalizers of the objects.
/// Leaves out the namespace, which may hold more than the operator.
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
