//! Driver: at a deadline without an event, asks the machine whether the watch is kept, or checks with a list request
//! that the server has reached the resource version of the watch.

use std::time::Duration;

use steersman_api::{ListWatch, PageRequest, Paging, Projection, VersionMatch};
use steersman_object::ResourceVersion;

use super::{DeltaSink, Reflector, ReflectorHost, now};
use crate::reflector::failure::RequestFailure;
use crate::reflector::step::WatchEnd;

/// The timeout of the request that checks whether the server has reached the version of a silent watch (REFL-12).
/// Meanwhile the events of the watch wait.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

impl<L: ListWatch, S: DeltaSink, H: ReflectorHost> Reflector<L, S, H> {
    /// Asks at a deadline without an event whether the watch is kept. A watch that is not kept has ended or failed.
    pub(super) async fn is_quiet_watch_kept(&mut self, after: &ResourceVersion) -> bool {
        if self.version_check.is_due(now()) {
            let unknown = self.check_version(after).await;
            if let Some(unknown) = &unknown {
                self.fail(unknown);
            }
            return unknown.is_none();
        }
        if self.machine.handle_tick(now()) {
            self.end(WatchEnd::Silent);
            return false;
        }
        self.host.report(self.machine.problem());
        true
    }

    /// REFL-12: lists one object at the version of the watch. Returns a failure if the server has not reached `after`.
    async fn check_version(&mut self, after: &ResourceVersion) -> Option<RequestFailure> {
        let mut paging = Paging::new().page_size(1);
        paging.version_match = Some(VersionMatch::NotOlderThan);
        paging.resource_version = Some(after.clone());
        let mut request = PageRequest::new(paging);
        request.labels.clone_from(&self.options.labels);
        request.fields.clone_from(&self.options.fields);
        request.shard_selector = self.host.shard_selector(&self.host.followed_slots());
        request.projection = Projection::Metadata;
        match tokio::time::timeout(LONGEST_CHECK, self.list_watch.list(&request)).await {
            Ok(Ok(_)) => self.version_check.note_reached(),
            Ok(Err(error)) if error.is_version_too_large() => {
                return Some(RequestFailure::of(&error));
            }
            Ok(Err(_)) | Err(_) => self.version_check.note_failure(now()),
        }
        None
    }
}
