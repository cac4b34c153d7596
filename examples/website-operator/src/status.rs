//! Machine: the status of a `Website`, computed from its children.

use jiff::Timestamp;
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::status_conditions::{self, FALSE, READY, TRUE};

use crate::website::{Website, WebsiteStatus};

/// The reason of a condition that waits for the site's ConfigMap.
pub const PAGES_MISSING: &str = "PagesMissing";

/// The reason of a condition that waits for a user to remove an obstacle.
pub const REFUSED: &str = "Refused";

/// The progress of a site towards being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The ConfigMap that the site names does not exist.
    PagesMissing {
        /// The name of the ConfigMap.
        config_map: String,
    },
    /// A child cannot be created: its name is taken, or the server refuses it.
    Refused {
        /// The reason and the remedy.
        why: String,
    },
    /// Web servers are starting, stopping or being replaced.
    RollingOut {
        /// The number of ready web servers.
        ready: i32,
        /// The desired number of web servers.
        desired: i32,
        /// The number of web servers beyond `desired`: they serve old pages, or are being deleted.
        surplus: i32,
    },
    /// The desired number of web servers serves the current pages.
    Served {
        /// The number of ready web servers.
        ready: i32,
    },
}

impl Progress {
    /// Computes the progress from the site's Deployment.
    ///
    /// The status of a Deployment counts only if its controller has seen the newest spec.
    #[must_use]
    pub fn of(deployment: &Deployment, desired: i32) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or(0);
        let current = status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == desired
            && status.replicas.unwrap_or(0) == desired;
        if current && ready == desired {
            Self::Served { ready }
        } else {
            let total = status.replicas.unwrap_or(0);
            Self::RollingOut {
                ready: ready.min(desired),
                desired,
                surplus: (total - desired).max(0),
            }
        }
    }

    fn ready(&self) -> i32 {
        match self {
            Self::PagesMissing { .. } | Self::Refused { .. } => 0,
            Self::RollingOut { ready, .. } | Self::Served { ready } => *ready,
        }
    }

    /// Returns the reason of the condition, and of the Event.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PagesMissing { .. } => PAGES_MISSING,
            Self::Refused { .. } => REFUSED,
            Self::RollingOut { .. } => "RollingOut",
            Self::Served { .. } => "Served",
        }
    }

    /// Returns the text of the condition, and of the Event.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::PagesMissing { config_map } => format!(
                "ConfigMap {config_map:?} does not exist: create it, or name another one in .spec.pages"
            ),
            Self::Refused { why } => why.clone(),
            Self::RollingOut {
                ready,
                desired,
                surplus,
            } => {
                let rest = match surplus {
                    0 if ready == desired => ", and the newest spec is being taken up".to_owned(),
                    0 => String::new(),
                    1 => ", and 1 more is going".to_owned(),
                    more => format!(", and {more} more are going"),
                };
                format!("{ready} of {desired} pods are ready{rest}")
            }
            Self::Served { ready } => format!("{ready} of {ready} pods are ready"),
        }
    }
}

/// Returns the status of `site` at `now`.
///
/// Unchanged children give an unchanged status, and no request.
#[must_use]
pub fn status(site: &Website, progress: &Progress, now: Timestamp) -> WebsiteStatus {
    let is_ready = matches!(progress, Progress::Served { .. });
    let before = site.status.as_ref();
    let mut conditions = before.map_or_else(Vec::new, |status| status.conditions.clone());
    let state = if is_ready { TRUE } else { FALSE };
    let (reason, message) = (progress.reason(), progress.message());
    let ready = status_conditions::condition(site, READY, state, reason, message, now);
    status_conditions::set(&mut conditions, ready);
    WebsiteStatus {
        observed_generation: site.metadata.generation,
        ready_replicas: progress.ready(),
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use steersman::k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;
    use crate::website::WebsiteSpec;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn deployment(generation: i64, observed: i64, total: i32, ready: i32) -> Deployment {
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
    fn a_deployment_says_nothing_of_a_spec_it_has_not_seen() {
        assert_eq!(
            Progress::of(&deployment(2, 2, 2, 2), 2),
            Progress::Served { ready: 2 }
        );
        let rolling = |surplus| Progress::RollingOut {
            ready: 2,
            desired: 2,
            surplus,
        };
        assert_eq!(Progress::of(&deployment(3, 2, 2, 2), 2), rolling(0));
        assert!(rolling(0).message().contains("newest spec"));
        // A Pod with the old pages still runs.
        assert_eq!(Progress::of(&deployment(2, 2, 3, 3), 2), rolling(1));
        assert!(rolling(1).message().contains("1 more"));
        let none = Progress::RollingOut {
            ready: 0,
            desired: 2,
            surplus: 0,
        };
        assert_eq!(Progress::of(&Deployment::default(), 2), none);
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let spec = WebsiteSpec {
            image: "i".into(),
            replicas: 2,
            pages: "p".into(),
            host: None,
        };
        let mut site = Website::new("hello", spec);
        let rolling = |ready| Progress::RollingOut {
            ready,
            desired: 2,
            surplus: 0,
        };
        site.status = Some(status(&site, &rolling(0), at(10)));
        site.status = Some(status(&site, &rolling(1), at(20)));
        let condition = site.ready_condition().unwrap();
        assert_eq!(condition.last_transition_time.0, at(10));
        assert_eq!(condition.message, "1 of 2 pods are ready");
        let again = status(&site, &rolling(1), at(25));
        assert_eq!(Some(&again), site.status.as_ref());
        site.status = Some(status(&site, &Progress::Served { ready: 2 }, at(30)));
        assert_eq!(
            site.ready_condition().unwrap().last_transition_time.0,
            at(30)
        );
        assert!(site.is_ready());
        site.metadata.generation = Some(2);
        assert!(!site.is_ready());
    }
}
