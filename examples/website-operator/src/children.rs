//! Machine: the desired state of the children of a `Website`.
//!
//! Each function writes the fields that this operator owns into an object and leaves every other
//! field unchanged. It also writes the API server's defaults of those fields, so that a child that
//! needs no change compares equal and causes no request.

use std::collections::BTreeMap;
use std::hash::Hasher;

use fnv::FnvHasher;
use steersman::ObjectKey;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, Service, ServicePort, Volume,
    VolumeMount,
};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use steersman::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::website::Website;

/// Pages by file name.
pub type Pages = BTreeMap<String, String>;

/// The annotation on Pods with a digest of their pages: new pages cause a rollout of the
/// Deployment.
const PAGES_DIGEST: &str = "web.example.com/pages-digest";

const WEB: &str = "web";
const PAGES: &str = "pages";

/// Returns the name of the site's own copy of its pages.
///
/// The Pods mount a copy, so that a user who edits the ConfigMap does not change the pages of
/// running Pods.
#[must_use]
pub fn served_pages_key(site: &ObjectKey) -> ObjectKey {
    site.sibling(format!("{}-site", site.name()))
}

/// Writes the copy of the pages into its ConfigMap.
pub fn fill_config_map(site: &ObjectKey, pages: &Pages, config_map: &mut ConfigMap) {
    config_map
        .metadata
        .labels
        .get_or_insert_default()
        .extend(labels(site));
    config_map.data = Some(pages.clone());
}

/// Writes the web servers: image, replicas, and the mounted pages.
pub fn fill_deployment(key: &ObjectKey, site: &Website, pages: &Pages, child: &mut Deployment) {
    child
        .metadata
        .labels
        .get_or_insert_default()
        .extend(labels(key));
    let spec = child.spec.get_or_insert_default();
    spec.replicas = Some(site.spec.replicas);
    spec.selector = LabelSelector {
        match_labels: Some(labels(key)),
        ..LabelSelector::default()
    };

    let metadata = spec.template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend(labels(key));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(PAGES_DIGEST.to_owned(), digest(pages));

    let pod = spec.template.spec.get_or_insert_default();
    let web = entry_named(
        &mut pod.containers,
        WEB,
        |c: &Container| &c.name,
        || Container {
            name: WEB.to_owned(),
            ..Container::default()
        },
    );
    web.image = Some(site.spec.image.clone());
    web.ports = Some(vec![ContainerPort {
        name: Some("http".to_owned()),
        container_port: 80,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }]);
    web.volume_mounts = Some(vec![VolumeMount {
        name: PAGES.to_owned(),
        mount_path: "/usr/share/nginx/html".to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }]);
    let volumes = pod.volumes.get_or_insert_default();
    let volume = entry_named(
        volumes,
        PAGES,
        |v: &Volume| &v.name,
        || Volume {
            name: PAGES.to_owned(),
            ..Volume::default()
        },
    );
    volume.config_map = Some(ConfigMapVolumeSource {
        name: served_pages_key(key).name().to_owned(),
        default_mode: Some(0o644),
        ..ConfigMapVolumeSource::default()
    });
}

/// Writes the Service in front of the web servers.
pub fn fill_service(site: &ObjectKey, service: &mut Service) {
    service
        .metadata
        .labels
        .get_or_insert_default()
        .extend(labels(site));
    let spec = service.spec.get_or_insert_default();
    spec.selector = Some(labels(site));
    spec.ports = Some(vec![ServicePort {
        name: Some("http".to_owned()),
        port: 80,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String("http".to_owned())),
        ..ServicePort::default()
    }]);
}

/// Returns the address under which users reach a site: its host, or else its Service.
#[must_use]
pub fn address(key: &ObjectKey, site: &Website) -> String {
    match &site.spec.host {
        Some(host) => format!("https://{host}"),
        None => format!(
            "http://{}.{}.svc",
            key.name(),
            key.namespace().unwrap_or("default")
        ),
    }
}

fn labels(site: &ObjectKey) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "website".to_owned()),
        (
            "app.kubernetes.io/instance".to_owned(),
            site.name().to_owned(),
        ),
    ])
}

/// Returns a hash of the pages, the same in every run and on every machine.
fn digest(pages: &Pages) -> String {
    let mut hasher = FnvHasher::default();
    for text in pages.iter().flat_map(|(file, page)| [file, page]) {
        hasher.write(text.as_bytes());
        // A byte that no text contains, as a separator: ("a", "bc") and ("ab", "c") have different
        // digests.
        hasher.write_u8(0xff);
    }
    format!("{:016x}", hasher.finish())
}

/// Returns the entry of a list that is keyed by name, and appends it if it is missing.
fn entry_named<'a, T>(
    list: &'a mut Vec<T>,
    name: &str,
    name_of: impl Fn(&T) -> &String,
    new: impl FnOnce() -> T,
) -> &'a mut T {
    let at = list
        .iter()
        .position(|entry| name_of(entry) == name)
        .unwrap_or_else(|| {
            list.push(new());
            list.len() - 1
        });
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::website::WebsiteSpec;

    fn key() -> ObjectKey {
        ObjectKey::namespaced("web", "hello")
    }

    fn site() -> Website {
        let spec = WebsiteSpec {
            image: "nginx:1".into(),
            replicas: 2,
            pages: "hello-pages".into(),
            host: None,
        };
        Website::new("hello", spec)
    }

    fn pages(text: &str) -> Pages {
        Pages::from([("index.html".to_owned(), text.to_owned())])
    }

    #[test]
    fn filling_twice_changes_nothing() {
        let mut child = Deployment::default();
        fill_deployment(&key(), &site(), &pages("hi"), &mut child);
        let first = child.clone();
        fill_deployment(&key(), &site(), &pages("hi"), &mut child);
        assert_eq!(child, first);
    }

    #[test]
    fn fields_of_other_writers_are_unchanged() {
        let mut child = Deployment::default();
        fill_deployment(&key(), &site(), &pages("hi"), &mut child);
        let pod = child.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        pod.containers.insert(
            0,
            Container {
                name: "sidecar".into(),
                ..Default::default()
            },
        );
        pod.containers[1].termination_message_path = Some("/dev/termination-log".into());
        let edited = child.clone();
        fill_deployment(&key(), &site(), &pages("hi"), &mut child);
        assert_eq!(child, edited);
    }

    #[test]
    fn new_pages_mean_new_pods() {
        let template = |text: &str| {
            let mut child = Deployment::default();
            fill_deployment(&key(), &site(), &pages(text), &mut child);
            child.spec.unwrap().template
        };
        assert_ne!(template("old"), template("new"));
        let split = |a: &str, b: &str| digest(&Pages::from([(a.into(), b.into())]));
        assert_ne!(split("a", "bc"), split("ab", "c"));
    }
}
