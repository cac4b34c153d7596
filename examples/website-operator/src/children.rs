//! Machine: the desired children of a `Website`, and its progress, which the Deployment shows.

use std::collections::BTreeMap;
use std::hash::Hasher;

use fnv::FnvHasher;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman::OwnedKinds;
use steersman::desired::{Child, ChildId, DesiredSet};
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Service};
use steersman::object::Object as _;
use steersman::status_conditions::{self, FALSE, HasConditions as _, READY, TRUE};

use crate::website::{Website, WebsiteStatus};

/// Pages by file name.
pub(crate) type Pages = BTreeMap<String, String>;

/// The label of the children.
const CHILDREN: &str = "web.example.com/children";

/// The annotation on Pods with a digest of their pages: new pages cause a rollout of the Deployment.
const PAGES_DIGEST: &str = "web.example.com/pages-digest";

/// The ConfigMap that the site names does not exist.
pub(crate) const PAGES_MISSING: &str = "PagesMissing";
/// A child cannot be created: its name is taken, or the server refuses it.
pub(crate) const REFUSED: &str = "Refused";
/// Web servers are starting, stopping or being replaced.
const ROLLING_OUT: &str = "RollingOut";
/// The desired number of web servers serves the current pages.
pub(crate) const SERVED: &str = "Served";

/// The reasons of conditions that wait for a user to remove an obstacle.
pub const NEED_USER: [&str; 2] = [PAGES_MISSING, REFUSED];

/// The progress of a site towards being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The reason of the condition, and of the Event.
    pub(crate) reason: &'static str,
    /// The text of the condition, and of the Event.
    pub(crate) message: String,
    /// The number of ready web servers.
    ready: i32,
}

// ANCHOR: children
/// Declares the kinds of the children, for the controller and for the sets.
pub(crate) fn kinds<T: OwnedKinds>(declaration: T) -> T {
    let declaration = declaration.owns::<ConfigMap>();
    declaration.owns::<Deployment>().owns::<Service>()
}

/// Returns the set of a site without children, which deletes those that exist.
pub(crate) fn none(site: &Website) -> DesiredSet {
    kinds(DesiredSet::new(site, CHILDREN))
}

/// Returns the children that serve the pages of a site, and the name of the Deployment in the set.
pub(crate) fn serving(site: &Website, pages: &Pages) -> (DesiredSet, ChildId<Deployment>) {
    let mut set = none(site);
    let copy = set.add(Child::<ConfigMap>::part(&served_pages(site, pages)));
    set.add(Child::<Service>::part(&service(site)));
    let web_servers = Child::<Deployment>::part(&deployment(site, pages));
    let web_servers = set.add(web_servers.after(copy));
    (set, web_servers)
}
// ANCHOR_END: children

/// Returns the name of the site's own copy of its pages.
///
/// The Pods mount a copy, so that a user who edits the ConfigMap does not change the pages of running Pods.
fn served_pages_name(site: &Website) -> String {
    format!("{}-site", site.key().name())
}

fn served_pages(site: &Website, pages: &Pages) -> Value {
    json!({
        "metadata": {"name": served_pages_name(site), "labels": labels(site)},
        "data": pages,
    })
}

fn service(site: &Website) -> Value {
    json!({
        "metadata": {"name": site.key().name(), "labels": labels(site)},
        "spec": {
            "selector": labels(site),
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    })
}

fn deployment(site: &Website, pages: &Pages) -> Value {
    json!({
        "metadata": {"name": site.key().name(), "labels": labels(site)},
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels(site)},
            "template": {
                "metadata": {
                    "labels": labels(site),
                    "annotations": {PAGES_DIGEST: digest(pages)},
                },
                "spec": {
                    "containers": [{
                        "name": "web",
                        "image": site.spec.image,
                        "ports": [{"name": "http", "containerPort": 80}],
                        "volumeMounts": [{
                            "name": "pages",
                            "mountPath": "/usr/share/nginx/html",
                            "readOnly": true,
                        }],
                    }],
                    "volumes": [{
                        "name": "pages",
                        "configMap": {"name": served_pages_name(site)},
                    }],
                },
            },
        },
    })
}

/// Returns the address under which users reach a site: its host, or else its Service.
pub(crate) fn address(site: &Website) -> String {
    let key = site.key();
    let namespace = key.namespace().unwrap_or("default");
    match &site.spec.host {
        Some(host) => format!("https://{host}"),
        None => format!("http://{}.{namespace}.svc", key.name()),
    }
}

fn labels(site: &Website) -> Value {
    json!({
        "app.kubernetes.io/name": "website",
        "app.kubernetes.io/instance": site.key().name(),
    })
}

/// Returns a hash of the pages, the same in every run and on every machine.
fn digest(pages: &Pages) -> String {
    let mut hasher = FnvHasher::default();
    for text in pages.iter().flat_map(|(file, page)| [file, page]) {
        hasher.write(text.as_bytes());
        // A byte that no text contains, as a separator: ("a", "bc") and ("ab", "c") have different digests.
        hasher.write_u8(0xff);
    }
    format!("{:016x}", hasher.finish())
}

// ===== impl Progress =====

impl Progress {
    /// Returns the progress of a site that waits for a user: its ConfigMap does not exist, or a child cannot be created,
    /// because its name is taken or the server refuses it. Web servers that already run stay, and stay counted.
    pub(crate) fn stuck(site: &Website, reason: &'static str, message: String) -> Self {
        let status = site.status.as_ref();
        Self {
            reason,
            message,
            ready: status.map_or(0, |status| status.ready_replicas),
        }
    }

    /// Computes the progress from the site's Deployment.
    ///
    /// The status of a Deployment counts only if its controller has seen the newest spec.
    pub(crate) fn of(deployment: &Deployment, desired: i32) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let total = status.replicas.unwrap_or(0);
        let ready = status.ready_replicas.unwrap_or(0);
        let is_current = status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == desired
            && total == desired;
        let is_served = is_current && ready == desired;
        let ready = ready.min(desired);
        // Web servers beyond the desired number serve old pages, or are being deleted.
        let rest = match total - desired {
            _ if is_served => String::new(),
            1 => ", and 1 more is going".to_owned(),
            more @ 2.. => format!(", and {more} more are going"),
            _ if ready == desired => ", and the newest spec is being taken up".to_owned(),
            _ => String::new(),
        };
        Self {
            reason: if is_served { SERVED } else { ROLLING_OUT },
            message: format!("{ready} of {desired} pods are ready{rest}"),
            ready,
        }
    }

    /// Returns the status of `site` at `now`.
    ///
    /// Unchanged children give an unchanged status, and no request.
    pub(crate) fn status(&self, site: &Website, now: Timestamp) -> WebsiteStatus {
        let mut conditions = site.conditions().to_vec();
        let state = if self.reason == SERVED { TRUE } else { FALSE };
        let ready =
            status_conditions::condition(site, READY, state, self.reason, &self.message, now);
        status_conditions::set(&mut conditions, ready);
        WebsiteStatus {
            observed_generation: site.metadata.generation,
            ready_replicas: self.ready,
            conditions,
        }
    }
}

#[cfg(test)]
mod tests {
    use example_program::once::is_ready;
    use steersman::k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;
    use crate::website::WebsiteSpec;

    fn site() -> Website {
        let spec = WebsiteSpec {
            image: "nginx:1".into(),
            replicas: 2,
            pages: "hello-pages".into(),
            host: None,
        };
        Website::new("hello", spec)
    }

    fn pages(file: &str, text: &str) -> Pages {
        Pages::from([(file.to_owned(), text.to_owned())])
    }

    fn rolled_out(generation: i64, observed: i64, total: i32, ready: i32) -> Deployment {
        let mut deployment = Deployment::default();
        deployment.metadata.generation = Some(generation);
        deployment.status = Some(DeploymentStatus {
            observed_generation: Some(observed),
            replicas: Some(total),
            updated_replicas: Some(2.min(total)),
            ready_replicas: Some(ready),
            ..Default::default()
        });
        deployment
    }

    #[test]
    fn new_pages_mean_new_pods() {
        let template = |text: &str| {
            let child = deployment(&site(), &pages("index.html", text));
            child["spec"]["template"].clone()
        };
        assert_eq!(template("old"), template("old"));
        assert_ne!(template("old"), template("new"));
        assert_ne!(digest(&pages("a", "bc")), digest(&pages("ab", "c")));
    }

    #[test]
    fn children_are_parts_of_their_kinds() {
        let pages = pages("index.html", "hi");
        let child: Deployment = serde_json::from_value(deployment(&site(), &pages)).unwrap();
        let spec = child.spec.unwrap();
        assert_eq!(spec.replicas, Some(2));
        assert_eq!(
            spec.selector.match_labels,
            spec.template.metadata.unwrap().labels
        );
        let child: Service = serde_json::from_value(service(&site())).unwrap();
        assert_eq!(child.spec.unwrap().selector, spec.selector.match_labels);
        let child: ConfigMap = serde_json::from_value(served_pages(&site(), &pages)).unwrap();
        assert_eq!(child.data, Some(pages));
    }

    #[test]
    fn a_deployment_says_nothing_of_a_spec_it_has_not_seen() {
        let of = |deployment| {
            let progress = Progress::of(&deployment, 2);
            assert_eq!(progress.ready == 2, progress.message.starts_with("2 of 2"));
            (progress.reason, progress.message)
        };
        let rolling = |message: &str| (ROLLING_OUT, message.to_owned());
        let served = (SERVED, "2 of 2 pods are ready".to_owned());
        assert_eq!(of(rolled_out(2, 2, 2, 2)), served);
        let unseen = "2 of 2 pods are ready, and the newest spec is being taken up";
        assert_eq!(of(rolled_out(3, 2, 2, 2)), rolling(unseen));
        // A Pod with the old pages still runs.
        let surplus = "2 of 2 pods are ready, and 1 more is going";
        assert_eq!(of(rolled_out(2, 2, 3, 3)), rolling(surplus));
        assert_eq!(of(Deployment::default()), rolling("0 of 2 pods are ready"));
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let with = |ready| Progress::of(&rolled_out(1, 1, 2, ready), 2);
        let mut site = site();
        site.status = Some(with(0).status(&site, at(10)));
        site.status = Some(with(1).status(&site, at(20)));
        let condition = status_conditions::find(site.conditions(), READY).unwrap();
        assert_eq!(condition.last_transition_time.0, at(10));
        assert_eq!(condition.message, "1 of 2 pods are ready");
        let again = with(1).status(&site, at(25));
        assert_eq!(Some(&again), site.status.as_ref());
        site.status = Some(with(2).status(&site, at(30)));
        let condition = status_conditions::find(site.conditions(), READY).unwrap();
        assert_eq!(condition.last_transition_time.0, at(30));
        assert!(is_ready(&site));
        site.metadata.generation = Some(2);
        assert!(!is_ready(&site));
    }
}
