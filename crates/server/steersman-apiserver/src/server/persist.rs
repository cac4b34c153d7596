//! Handle: saves the state of a server, and applies initial objects.

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_registry::{ObjectTarget, PatchKind, Snapshot, WriteOptions};

use super::{ApiServer, of_object, scope};

impl ApiServer {
    /// Returns the whole state of the server, for [`ApiServerBuilder::restore`]. Cheap, because
    /// objects are shared. With a [`WriteAheadLog`](crate::WriteAheadLog) the next transaction starts a
    /// file of the log.
    ///
    /// [`ApiServerBuilder::restore`]: crate::ApiServerBuilder::restore
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.context.snapshot()
    }

    /// Applies an object (server-side apply, with force): creates it, or changes it to what
    /// `manager` now applies. The object's kind and version determine the resource; without a
    /// namespace it is applied in `default`.
    ///
    /// # Errors
    /// Returns the Status of the refusal.
    pub fn apply(&self, object: &Value, manager: &str) -> Result<Value, Status> {
        let now = self.context.now();
        let body = object.to_string();
        self.context.with_registry(|registry| {
            let resource = of_object(registry, object)?;
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap_or("default");
            let name = metadata["name"].as_str().unwrap_or_default();
            let options = WriteOptions {
                field_manager: Some(manager.to_owned()),
                force: Some(true),
                ..WriteOptions::default()
            };
            let target = ObjectTarget::object(&resource, scope(&resource, namespace), name);
            let written =
                registry.patch(target, PatchKind::Apply, body.as_bytes(), &options, now)?;
            Ok(written.object.look().into_owned())
        })
    }
}
