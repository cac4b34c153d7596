//! Machine: reads structs from the Go sources of Kubernetes, with the tags that decide their JSON and protobuf, and
//! with their comments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files;

/// The packages by their folders below `k8s.io`, and the name of each in the tables.
const FOLDERS: &[(&str, &str)] = &[
    ("apimachinery/pkg/apis/meta/v1", "meta.v1"),
    (
        "apiextensions-apiserver/pkg/apis/apiextensions/v1",
        "apiextensions.v1",
    ),
];

/// The packages that declare no messages of the table, by their folders below `k8s.io`. Their types are scalars, and
/// only their comments are read.
const SCALAR_PACKAGES: &[(&str, &str)] = &[
    ("apimachinery/pkg/api/resource", "resource"),
    ("apimachinery/pkg/runtime", "runtime"),
    ("apimachinery/pkg/types", "types"),
    ("apimachinery/pkg/util/intstr", "intstr"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoField {
    /// The type, with the package of each name: `*core.v1.PodSpec`, `map[string]resource.Quantity`.
    pub(super) ty: String,
    /// The name in JSON; empty for an embedded struct, which has its fields in its owner.
    pub(super) json: String,
    /// Whether the JSON leaves out an empty value of a type that is no struct.
    pub(super) omitempty: bool,
    /// Whether the JSON leaves out a zero struct.
    pub(super) omitzero: bool,
    pub(super) number: u32,
    pub(super) comment: Vec<String>,
}

/// A constant with a type and a text as its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoConstant {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) comment: Vec<String>,
}

/// The types of all packages by names such as `core.v1.Pod`.
#[derive(Debug, Default)]
pub(super) struct GoTypes {
    pub(super) structs: BTreeMap<String, Vec<GoField>>,
    /// Names for other types, such as `core.v1.RestartPolicy` for `string`.
    pub(super) named: BTreeMap<String, String>,
    pub(super) comments: BTreeMap<String, Vec<String>>,
    /// The structs with the fields `apiVersion` and `kind`.
    pub(super) kinds: BTreeSet<String>,
    pub(super) constants: BTreeMap<String, Vec<GoConstant>>,
}

impl GoTypes {
    /// Reads the modules `api`, `apimachinery` and `apiextensions-apiserver` below `k8s.io` in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let root = folder.join("k8s.io");
        let mut types = Self::default();
        for (folder, package) in FOLDERS {
            types.read_folder(&root.join(folder), package)?;
        }
        for group in files::names(&root.join("api"))? {
            for version in ["v1", "v1beta1", "v2"] {
                let folder = root.join("api").join(&group).join(version);
                if folder.is_dir() {
                    types.read_folder(&folder, &format!("{group}.{version}"))?;
                }
            }
        }
        let mut scalars = Self::default();
        for (path, package) in SCALAR_PACKAGES {
            scalars.read_folder(&root.join(path), package)?;
        }
        types.comments.append(&mut scalars.comments);
        Ok(types)
    }

    fn read_folder(&mut self, folder: &Path, package: &str) -> Result<(), String> {
        for file in files::names(folder)? {
            let generated = file.contains("generated") || file.contains("_test.");
            if file.ends_with(".go") && !generated {
                self.read_file(&files::text(&folder.join(&file))?, package);
            }
        }
        Ok(())
    }

    fn read_file(&mut self, text: &str, package: &str) {
        let imports = imports(text);
        let qualify = |ty: &str| qualified(ty, package, &imports);
        let mut open: Option<String> = None;
        let mut comment = Vec::new();
        for line in text.lines() {
            if let Some(words) = line.trim_start().strip_prefix("//") {
                let words = words.strip_prefix(' ').unwrap_or(words);
                comment.push(words.trim_end().to_owned());
                continue;
            }
            let comment = std::mem::take(&mut comment);
            if let Some(rest) = line.strip_prefix("type ") {
                let mut words = rest.splitn(2, ' ');
                let name = format!("{package}.{}", words.next().unwrap_or_default());
                let of = words.next().unwrap_or_default().trim_start_matches("= ");
                self.comments.insert(name.clone(), comment);
                if of.starts_with("struct") {
                    self.structs.insert(name.clone(), Vec::new());
                    open = (!of.ends_with('}')).then_some(name);
                } else {
                    self.named.insert(name, qualify(of));
                }
            } else if line == "}" {
                open = None;
            } else if let Some(name) = &open {
                if line.contains("TypeMeta `json:\",inline\"") {
                    self.kinds.insert(name.clone());
                }
                let fields = self.structs.get_mut(name);
                if let (Some(field), Some(fields)) = (field(line.trim(), &qualify), fields) {
                    fields.push(GoField { comment, ..field });
                }
            } else if let Some((ty, constant)) = constant(line.trim(), comment) {
                self.constants
                    .entry(qualify(ty))
                    .or_default()
                    .push(constant);
            }
        }
    }
}

/// Reads a line `Name Type = "value"`, and returns the type and the constant.
fn constant(line: &str, comment: Vec<String>) -> Option<(&str, GoConstant)> {
    let (declared, value) = line.split_once(" = \"")?;
    let declared = declared.strip_prefix("const ").unwrap_or(declared);
    let (name, ty) = declared.split_once(char::is_whitespace)?;
    let constant = GoConstant {
        name: name.to_owned(),
        value: value.split('"').next()?.to_owned(),
        comment,
    };
    Some((ty.trim(), constant))
}

/// Reads a line `Name Type` or `Type` with tags; `None` for any other line, and for a field without a number.
fn field(line: &str, qualify: &dyn Fn(&str) -> String) -> Option<GoField> {
    let (declared, tags) = line.strip_suffix('`')?.split_once('`')?;
    let ty = declared.split_whitespace().last()?;
    let number = tag(tags, "protobuf")?.split(',').nth(1)?.parse().ok()?;
    let mut words = tag(tags, "json")?.split(',');
    let json = words.next()?;
    let options: Vec<&str> = words.collect();
    Some(GoField {
        ty: qualify(ty),
        json: json.to_owned(),
        omitempty: options.contains(&"omitempty"),
        omitzero: options.contains(&"omitzero"),
        number,
        comment: Vec::new(),
    })
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let rest = tags.split_once(&format!("{name}:\""))?.1;
    rest.split('"').next()
}

/// Returns the packages that a file imports: the name in the file, and the name in the tables.
fn imports(text: &str) -> BTreeMap<String, String> {
    let imports = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("import ");
        let (alias, path) = line.split_once("\"k8s.io/")?;
        let path = path.trim_end_matches('"');
        let mut known = FOLDERS.iter().chain(SCALAR_PACKAGES);
        let name = match path.strip_prefix("api/") {
            Some(group) => group.replace('/', "."),
            None => known.find(|(folder, _)| *folder == path)?.1.to_owned(),
        };
        let alias = Some(alias.trim()).filter(|alias| !alias.is_empty());
        let last = path.rsplit('/').next()?;
        Some((alias.unwrap_or(last).to_owned(), name))
    });
    imports.collect()
}

fn qualified(ty: &str, package: &str, imports: &BTreeMap<String, String>) -> String {
    let again = |ty: &str| qualified(ty, package, imports);
    if let Some(inner) = ty.strip_prefix('*') {
        return format!("*{}", again(inner));
    }
    if let Some(inner) = ty.strip_prefix("[]") {
        return format!("[]{}", again(inner));
    }
    if let Some((key, value)) = ty.strip_prefix("map[").and_then(|ty| ty.split_once(']')) {
        return format!("map[{}]{}", again(key), again(value));
    }
    match ty.split_once('.') {
        Some((alias, name)) => match imports.get(alias) {
            Some(package) => format!("{package}.{name}"),
            None => ty.to_owned(),
        },
        None if ty.starts_with(char::is_lowercase) => ty.to_owned(),
        None => format!("{package}.{ty}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
package v1

import (
	\"k8s.io/apimachinery/pkg/api/resource\"
	metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"
)

// Phase is a phase.
// +enum
type Phase string

const (
	// PhaseNew comes first.
	PhaseNew Phase = \"New\"
)

type ResourceList map[ResourceName]resource.Quantity

// Thing is a thing.
type Thing struct {
	metav1.TypeMeta `json:\",inline\"`
	// Old string `json:\"old\" protobuf:\"bytes,9,opt,name=old\"`
	metav1.ObjectMeta `json:\"metadata,omitempty\" protobuf:\"bytes,1,opt,name=metadata\"`
	// Ports are open.
	Ports []*Port `json:\"ports\" protobuf:\"bytes,2,rep,name=ports\"`
	Source `json:\",inline\" protobuf:\"bytes,3,opt,name=source\"`
}
";

    #[test]
    fn fields_have_their_tags_and_types_their_packages() {
        let mut types = GoTypes::default();
        types.read_file(SOURCE, "core.v1");
        assert_eq!(types.named["core.v1.Phase"], "string");
        assert_eq!(
            types.named["core.v1.ResourceList"],
            "map[core.v1.ResourceName]resource.Quantity"
        );
        let fields = &types.structs["core.v1.Thing"];
        let seen: Vec<_> = fields
            .iter()
            .map(|field| {
                (
                    field.number,
                    field.json.as_str(),
                    field.ty.as_str(),
                    field.omitempty,
                )
            })
            .collect();
        let wanted = [
            (1, "metadata", "meta.v1.ObjectMeta", true),
            (2, "ports", "[]*core.v1.Port", false),
            (3, "", "core.v1.Source", false),
        ];
        assert_eq!(seen, wanted);
        assert_eq!(fields[1].comment, ["Ports are open."]);
        assert_eq!(
            types.comments["core.v1.Phase"],
            ["Phase is a phase.", "+enum"]
        );
        assert!(types.kinds.contains("core.v1.Thing"));
        let constant = &types.constants["core.v1.Phase"][0];
        assert_eq!((&*constant.name, &*constant.value), ("PhaseNew", "New"));
        assert_eq!(constant.comment, ["PhaseNew comes first."]);
    }
}
