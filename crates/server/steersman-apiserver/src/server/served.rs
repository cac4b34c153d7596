//! Handle: says which resources a server serves.

use super::ApiServer;

impl ApiServer {
    /// Returns whether the server serves a resource now: `serves("apps", "v1", "deployments")`. The group is empty
    /// for core.
    #[must_use]
    pub fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        self.context
            .with_registry(|registry| registry.resource(group, version, plural).is_some())
    }
}
