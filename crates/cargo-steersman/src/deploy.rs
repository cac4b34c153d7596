//! Driver: `cargo steersman install`, `deploy` and their opposites, with kubectl; and `image`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use steersman_manifests::Files;

use crate::command_line::{DeployArgs, ImageArgs};
use crate::error::Error;
use crate::generate::manifests;
use crate::project::{Project, run_to_end};

/// What is done with the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// They are created or changed.
    Apply,
    /// They are deleted; what does not exist is no error.
    Delete,
}

/// Which objects are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// The definitions.
    Definitions,
    /// The definitions and the operator with all it needs.
    All,
}

/// The programs that build images.
const BUILDERS: [&str; 2] = ["docker", "podman"];
/// What is between two documents of YAML.
const BETWEEN: &str = "\n---\n";

/// Applies or deletes objects of the operator in the present folder.
pub(crate) fn deploy(args: &DeployArgs, action: Action, objects: Objects) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let manifests = manifests(&project, &args.manifests)?;
    let files = match objects {
        Objects::Definitions => manifests.crds(),
        Objects::All => manifests.install(),
    };
    let documents = match action {
        Action::Apply => documents(&files),
        Action::Delete => to_delete(documents(&files)),
    };
    let text = documents.join(BETWEEN) + "\n";
    let mut command = Command::new("kubectl");
    match action {
        Action::Apply => command.args(["apply", "--server-side", "--force-conflicts"]),
        Action::Delete => command.args(["delete", "--ignore-not-found"]),
    };
    if let Some(context) = &args.context {
        command.args(["--context", context]);
    }
    command.args(["--filename", "-"]).stdin(Stdio::piped());
    let missing = |source| Error::Start {
        program: "kubectl, which must be on the PATH,".to_owned(),
        source,
    };
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // kubectl says itself why it reads no more.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(missing)?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Failed {
            program: "kubectl".to_owned(),
            status: status.to_string(),
            advice: String::new(),
        }),
    }
}

/// Builds the image of the operator in the present folder.
pub(crate) fn image(args: &ImageArgs) -> Result<(), Error> {
    let project = Project::find(Path::new("."))?;
    let answers = |builder: &&&str| {
        let mut command = Command::new(builder);
        let silent = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        silent.status().is_ok_and(|status| status.success())
    };
    let Some(builder) = BUILDERS.iter().find(answers) else {
        return Err(Error::NoBuilder {
            builders: BUILDERS.join(" or "),
        });
    };
    let mut command = Command::new(builder);
    command
        .args(["build", "--tag", &args.image, "."])
        .current_dir(&project.folder);
    run_to_end(&mut command)
}

/// Returns the documents of files, without those that only kustomize reads.
fn documents(files: &Files) -> Vec<&str> {
    let objects = files
        .iter()
        .filter(|(path, _)| !path.ends_with("kustomization.yaml"));
    objects
        .flat_map(|(_, text)| text.trim_end().split(BETWEEN))
        .collect()
}

/// Returns the documents in the order in which their objects are deleted: definitions first, while the operator still
/// handles the finalizers of their objects. The namespace stays, because it may hold more than the operator.
fn to_delete(documents: Vec<&str>) -> Vec<&str> {
    let is_of = |document: &&str, kind: &str| {
        let line = format!("kind: {kind}");
        document.lines().any(|known| known == line)
    };
    let (definitions, rest): (Vec<&str>, Vec<&str>) = documents
        .into_iter()
        .filter(|document| !is_of(document, "Namespace"))
        .partition(|document| is_of(document, "CustomResourceDefinition"));
    [definitions, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_deleted_first_and_the_namespace_stays() {
        let text = "kind: Namespace\n---\nkind: Deployment\nspec:\n  kind: CustomResourceDefinition\n---\n\
                    # Note.\nkind: CustomResourceDefinition\n";
        let expected = "# Note.\nkind: CustomResourceDefinition\n---\n\
                        kind: Deployment\nspec:\n  kind: CustomResourceDefinition\n";
        let files = Files::from([("dist/install.yaml".to_owned(), text.to_owned())]);
        assert_eq!(to_delete(documents(&files)).join(BETWEEN) + "\n", expected);
    }
}
