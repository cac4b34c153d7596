//! Driver: decides which definitions `install` and `deploy` leave as they are on the server.

use std::process::Stdio;

use serde_json::Value;
use steersman_crds::{CrdDifference, Error as DefinitionError};

use super::{Objects, kubectl, missing};
use crate::command_line::DeployArgs;
use crate::error::Error;
use crate::screen::complain;

/// Returns the names of the definitions that must not be written to the cluster of the arguments. The rules are
/// those of a leader (DEF-1, DEF-2): a definition of a later release stays, and a definition by which objects could
/// lose fields is not written. `deploy` leaves the second case to the leader, which can migrate the objects first.
///
/// # Errors
///
/// [`Error::DefinitionKept`] for `install`, which deploys no leader; [`Error::Failed`] if the cluster does not answer.
pub(crate) fn kept_definitions(
    args: &DeployArgs,
    wanted: &[Value],
    objects: Objects,
) -> Result<Vec<String>, Error> {
    let mut kept = Vec::new();
    for definition in wanted {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let present = read(args, name)?;
        let (reason, problems) = match CrdDifference::between(present.as_ref(), definition) {
            CrdDifference::Later(fields) => ("it is that of a later release", fields),
            CrdDifference::ToMigrate(problems) | CrdDifference::Refused(problems) => {
                if objects == Objects::Definitions {
                    return Err(Error::DefinitionKept(DefinitionError::Narrowed {
                        definition: name.to_owned(),
                        problems,
                    }));
                }
                let reason = "the leader of the operator migrates its objects first, or refuses it";
                (reason, problems)
            }
            _ => continue,
        };
        let problems = problems.join("; ");
        complain(format_args!(
            "the definition {name} on the server stays: {reason} ({problems})"
        ));
        kept.push(name.to_owned());
    }
    Ok(kept)
}

/// Reads a definition from the cluster; kubectl prints the reason of a failure.
fn read(args: &DeployArgs, name: &str) -> Result<Option<Value>, Error> {
    let mut command = kubectl(args);
    command.args([
        "get", "customresourcedefinition", name, "--ignore-not-found",
    ]);
    command.args(["--output", "json"]).stdin(Stdio::null());
    let answer = command.stderr(Stdio::inherit()).output();
    let answer = answer.map_err(missing)?;
    let unread = |problem: String| Error::Failed {
        program: "kubectl".to_owned(),
        status: problem,
        advice: format!("; the definition {name} must be read before it is changed"),
    };
    if !answer.status.success() {
        return Err(unread(answer.status.to_string()));
    }
    if answer.stdout.trim_ascii().is_empty() {
        return Ok(None);
    }
    let present = serde_json::from_slice(&answer.stdout);
    present.map(Some).map_err(|error| unread(error.to_string()))
}
