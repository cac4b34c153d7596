//! Machine: the manifests of definitions.

use crate::files::{FROM_PROGRAM, Files};
use crate::folder::Folder;
use crate::operator::Operator;
use crate::yaml;

/// Returns a file for each definition, and the kustomization of their folder.
pub(crate) fn files(operator: &Operator) -> Files {
    let mut folder = Folder::new("crd");
    for own in &operator.own {
        let name = format!("{}_{}.yaml", own.group, own.plural);
        folder.add(&name, FROM_PROGRAM, &yaml::document(&own.definition));
    }
    folder.finish()
}
