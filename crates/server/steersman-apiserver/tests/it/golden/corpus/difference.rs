//! The differences between the answers of two servers to the manifests of a folder, and their report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A folder of manifests, which is one conversation with a server.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The manifests by file name, with a number for the second and later documents of a file.
    pub(super) manifests: Vec<(String, Value)>,
    /// Why files could not be read, with their paths.
    pub(super) unreadable: Vec<String>,
    pub(super) recording: BTreeMap<String, Recorded>,
}

/// The answer to one manifest.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    pub(super) status: u16,
    /// The message of a refusal; empty if it is not compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) warnings: String,
    /// Parts of the object by JSON pointer, null for absent parts; the object without the metadata that
    /// each server chooses has the pointer "".
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) object: BTreeMap<String, Value>,
}

/// A difference between two servers.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// What kind of difference it is, for the table of the report.
    pub(super) class: String,
    pub(super) manifest: String,
    pub(super) what: String,
}

pub(super) fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Compares the answer of the embedded server with the expected one.
pub(super) fn compare(
    manifest: &str,
    object: &Value,
    want: &Recorded,
    got: &Recorded,
) -> Vec<Difference> {
    let noun = if is_definition(object) {
        "definition"
    } else {
        "object"
    };
    let difference = |class: String, what: String| Difference {
        class,
        manifest: manifest.to_owned(),
        what,
    };
    if want.status != got.status {
        let class = match (want.status < 300, got.status < 300) {
            (true, false) => format!("{noun} refused here only"),
            (false, true) => format!("{noun} accepted here only"),
            _ => format!("{noun} answered with another status"),
        };
        let shown = |one: &Recorded| format!("{} {}", one.status, one.message);
        let what = format!("expected {}\n    got {}", shown(want), shown(got));
        return vec![difference(class, what)];
    }
    let mut found = Vec::new();
    let mut texts = |class: &str, want: &str, got: &str| {
        if want != got {
            let what = format!("expected {want}\n    got {got}");
            found.push(difference(format!("{noun}: {class}"), what));
        }
    };
    if !want.message.is_empty() {
        texts("message", &want.message, &got.message);
    }
    texts("warnings", &want.warnings, &got.warnings);
    let whole = got.object.get("").cloned().unwrap_or_default();
    for (pointer, want) in &want.object {
        let part = whole.pointer(pointer).cloned().unwrap_or_default();
        for at in differing(want, &part, pointer) {
            let show = |one: &Value, from: &str| {
                let value = at.strip_prefix(from).and_then(|rest| one.pointer(rest));
                value.map_or_else(|| "absent".to_owned(), Value::to_string)
            };
            let (want, got) = (show(want, pointer), show(&part, pointer));
            let class = format!(
                "{noun}: {}",
                at.split('/').take(3).collect::<Vec<_>>().join("/")
            );
            found.push(difference(
                class,
                format!("{at}: expected {want}\n    got {got}"),
            ));
        }
    }
    found
}

/// Returns the pointers of the smallest parts that differ.
fn differing(want: &Value, got: &Value, at: &str) -> Vec<String> {
    match (want, got) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            let below = names.into_iter().flat_map(|name| {
                let path = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => differing(left, right, &path),
                    _ => vec![path],
                }
            });
            below.collect()
        }
        _ if want == got => Vec::new(),
        _ => vec![at.to_owned()],
    }
}

/// The report: each difference, and the number of differences by class.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) sent: usize,
    pub(super) unknown: usize,
    /// Number of manifests of objects that the second server had before.
    pub(super) existing: usize,
    unreadable: usize,
    pub(super) classes: BTreeMap<String, usize>,
    /// The manifests that were answered differently, by folder and file.
    pub(super) differ: BTreeSet<String>,
    text: String,
}

impl Report {
    pub(super) fn add(
        &mut self,
        folder: &Folder,
        want: &BTreeMap<String, Recorded>,
        got: &BTreeMap<String, Recorded>,
    ) {
        self.unreadable += folder.unreadable.len();
        for why in &folder.unreadable {
            let _ = writeln!(self.text, "not sent: {why}");
        }
        for (name, object) in &folder.manifests {
            self.sent += 1;
            let (Some(want), Some(got)) = (want.get(name), got.get(name)) else {
                self.unknown += 1;
                continue;
            };
            if want.status == 409 && got.status < 300 && want.message.ends_with("already exists") {
                self.existing += 1;
                continue;
            }
            for one in compare(name, object, want, got) {
                let place = folder.path.join(&one.manifest);
                let short = folder.path.file_name().unwrap_or_default();
                let short = format!("{}/{}", short.to_string_lossy(), one.manifest);
                self.differ.insert(short);
                let _ = writeln!(
                    self.text,
                    "{}: {}\n    {}",
                    place.display(),
                    one.class,
                    one.what
                );
                *self.classes.entry(one.class).or_default() += 1;
            }
        }
    }

    pub(super) fn summary(&self) -> String {
        let mut out = format!("{}{} manifests were sent", self.text, self.sent);
        if self.unknown > 0 {
            let _ = write!(out, ", {} without a recorded answer", self.unknown);
        }
        if self.existing > 0 {
            let _ = write!(
                out,
                ", {} of objects that exist on the second server",
                self.existing
            );
        }
        if self.unreadable > 0 {
            let _ = write!(out, "; {} files could not be read", self.unreadable);
        }
        out.push('\n');
        for (class, count) in &self.classes {
            let _ = writeln!(out, "{count:6}  {class}");
        }
        out
    }
}
