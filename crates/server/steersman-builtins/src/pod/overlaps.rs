//! Machine: warns of files of one volume with conflicting paths (upstream: `warningsForOverlappingVirtualPaths`).

use serde_json::Value;

use crate::fields::FieldPath;

/// A file of a volume, with the source of a projected volume that has the file.
#[derive(Debug, Clone)]
struct File<'a> {
    path: &'a str,
    source: String,
}

impl<'a> File<'a> {
    fn new(path: &'a str, source: &str) -> Self {
        Self {
            path: path.trim_end_matches('/'),
            source: source.to_owned(),
        }
    }

    /// Returns whether both paths are equal, or one is a folder above the other.
    fn collides(&self, other: &Self) -> bool {
        let (one, other) = (self.path, other.path);
        let below = |path: &str, folder: &str| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !one.is_empty() && !other.is_empty() && (below(one, other) || below(other, one))
    }

    fn shown(&self) -> String {
        let path = Value::from(self.path);
        if self.source.is_empty() {
            path.to_string()
        } else {
            format!("{path} ({})", self.source)
        }
    }
}

/// Warns of volumes with two files at one path, or with a file at the path of a folder.
pub(super) fn warn(volumes: &FieldPath<'_>) {
    for volume in volumes.items() {
        let name = Value::from(volume.at("name").text());
        for (field, kind, named) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ] {
            let source = volume.at(field);
            let mut what = kind.to_owned();
            if !named.is_empty() {
                what = format!("{kind} {}", Value::from(source.at(named).text()));
            }
            warn_of_overlaps(&volume, &files(&source, ""), &name, &what);
        }
        let mut all = Vec::new();
        for source in volume.down("projected.sources").items() {
            if source.is_empty() || !source.value().is_object() {
                volume.warn_as(&format!(
                    "volume {name} (Projected) has no sources provided"
                ));
            }
            all.extend(files_of_source(&source));
        }
        warn_of_overlaps(&volume, &all, &name, "Projected");
    }
}

fn files<'a>(source: &FieldPath<'a>, kind: &str) -> Vec<File<'a>> {
    let items = source.at("items").items();
    items
        .map(|item| File::new(item.at("path").text(), kind))
        .collect()
}

/// Returns the files of one source of a projected volume.
fn files_of_source<'a>(source: &FieldPath<'a>) -> Vec<File<'a>> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        let one = source.at(field);
        if one.at("items").is_set() {
            let kind = format!("{kind} {}", Value::from(one.at("name").text()));
            return files(&one, &kind);
        }
    }
    let [downward, token, bundle, certificate] = source.parts([
        "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate",
    ]);
    if downward.at("items").is_set() {
        return files(&downward, "DownwardAPI");
    }
    if token.is_set() {
        return vec![File::new(token.at("path").text(), "ServiceAccountToken")];
    }
    if bundle.is_set() {
        let named = bundle.parts(["name", "signerName"]);
        let given = named.iter().find(|one| one.is_set());
        let name = given.map_or("", FieldPath::text);
        let kind = format!("ClusterTrustBundle {}", Value::from(name));
        return vec![File::new(bundle.at("path").text(), &kind)];
    }
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.map(|(field, kind)| (certificate.at(field).text(), kind));
    let given = given.into_iter().filter(|(path, _)| !path.is_empty());
    given.map(|(path, kind)| File::new(path, kind)).collect()
}

/// Largest number of files of a volume that are compared with each other.
const MOST: usize = 500;

fn warn_of_overlaps(at: &FieldPath<'_>, files: &[File<'_>], volume: &Value, what: &str) {
    for (index, file) in files.iter().enumerate().take(MOST) {
        for other in files[..index].iter().filter(|other| file.collides(other)) {
            at.warn_as(&format!(
                "volume {volume} ({what}): overlapping paths: {} with {}",
                file.shown(),
                other.shown()
            ));
        }
    }
}
