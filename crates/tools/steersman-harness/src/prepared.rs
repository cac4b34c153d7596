//! Handle: the surroundings of a test before the operator starts.

use steersman_client::Client;
use steersman_object::ObjectKey;

/// The client and the namespace of a test, for objects that exist before the operator starts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Prepared {
    /// Returns a client with all permissions. It is not the operator's client and has no cache: read with
    /// [`live`](Client::live).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the key of an object with this name in the namespace of the test.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }
}
