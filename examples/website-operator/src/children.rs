//! Machine: the children of a `Website`.
//!
//! Each function sets the fields that this operator owns, and no others: the API server fills in the
//! rest, and other writers may set other fields.

use std::collections::BTreeMap;
use std::hash::Hasher;

use fnv::FnvHasher;
use steersman::ObjectKey;
use steersman::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use steersman::k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use steersman::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::website::Website;

/// Pages by file name.
pub type Pages = BTreeMap<String, String>;

/// The annotation on Pods with a digest of their pages: new pages cause a rollout of the
/// Deployment.
const PAGES_DIGEST: &str = "web.example.com/pages-digest";

const PAGES: &str = "pages";

/// Returns the name of the site's own copy of its pages.
///
/// The Pods mount a copy, so that a user who edits the ConfigMap does not change the pages of
/// running Pods.
#[must_use]
pub fn served_pages_key(site: &ObjectKey) -> ObjectKey {
    site.sibling(format!("{}-site", site.name()))
}

/// Returns the copy of the pages.
#[must_use]
pub fn config_map(site: &ObjectKey, pages: &Pages) -> ConfigMap {
    ConfigMap {
        metadata: metadata(&served_pages_key(site), site),
        data: Some(pages.clone()),
        ..ConfigMap::default()
    }
}

/// Returns the web servers: image, replicas, and the mounted pages.
#[must_use]
pub fn deployment(key: &ObjectKey, site: &Website, pages: &Pages) -> Deployment {
    let digest = (PAGES_DIGEST.to_owned(), digest(pages));
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(key)),
            annotations: Some(BTreeMap::from([digest])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![web_server(site)],
            volumes: Some(vec![served_pages(key)]),
            ..PodSpec::default()
        }),
    };
    Deployment {
        metadata: metadata(key, key),
        spec: Some(DeploymentSpec {
            replicas: Some(site.spec.replicas),
            selector: LabelSelector {
                match_labels: Some(labels(key)),
                ..LabelSelector::default()
            },
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn web_server(site: &Website) -> Container {
    Container {
        name: "web".to_owned(),
        image: Some(site.spec.image.clone()),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: 80,
            ..ContainerPort::default()
        }]),
        volume_mounts: Some(vec![VolumeMount {
            name: PAGES.to_owned(),
            mount_path: "/usr/share/nginx/html".to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn served_pages(site: &ObjectKey) -> Volume {
    Volume {
        name: PAGES.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: served_pages_key(site).name().to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns the Service in front of the web servers.
#[must_use]
pub fn service(site: &ObjectKey) -> Service {
    Service {
        metadata: metadata(site, site),
        spec: Some(ServiceSpec {
            selector: Some(labels(site)),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: 80,
                target_port: Some(IntOrString::String("http".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the host name of a site within its cluster.
#[must_use]
pub fn address(site: &ObjectKey) -> String {
    format!(
        "http://{}.{}.svc",
        site.name(),
        site.namespace().unwrap_or("default")
    )
}

fn metadata(key: &ObjectKey, site: &ObjectKey) -> ObjectMeta {
    ObjectMeta {
        labels: Some(labels(site)),
        ..key.to_meta()
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
        };
        Website::new("hello", spec)
    }

    fn pages(text: &str) -> Pages {
        Pages::from([("index.html".to_owned(), text.to_owned())])
    }

    #[test]
    fn new_pages_mean_new_pods() {
        let template = |text: &str| {
            let child = deployment(&key(), &site(), &pages(text));
            child.spec.unwrap().template
        };
        assert_ne!(template("old"), template("new"));
        let split = |a: &str, b: &str| digest(&Pages::from([(a.into(), b.into())]));
        assert_ne!(split("a", "bc"), split("ab", "c"));
    }
}
