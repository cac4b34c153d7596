//! Driver: the requests about one definition on the server.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_api::{Api, ClientConfig, Error, Patch, WriteOptions, kube_client};
use steersman_object::{Kind, ObjectKey};

use crate::crd::MANAGER_SUFFIX;
use crate::progress::ANNOTATION;

/// Sends requests about the definition with one name.
pub(crate) struct CrdRequests {
    key: ObjectKey,
    pub(crate) client: kube_client::Client,
    definitions: Api<DynamicObject>,
    field_manager: String,
}

pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(30);

impl CrdRequests {
    pub(crate) fn new(
        name: &str,
        client_config: &ClientConfig,
        client: kube_client::Client,
    ) -> Self {
        let kind = Kind::of::<CustomResourceDefinition>();
        Self {
            key: ObjectKey::cluster_scoped(name),
            definitions: Api::new(client.clone(), kind).request_timeout(REQUEST_LIMIT),
            client,
            field_manager: format!("{}{MANAGER_SUFFIX}", client_config.program()),
        }
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions::new().field_manager(&*self.field_manager)
    }

    pub(crate) async fn read(&self) -> Result<Option<Value>, Error> {
        let object = self.definitions.get_opt(&self.key).await?;
        // The conversion cannot fail, because the object was decoded from JSON.
        Ok(object.map(|object| serde_json::to_value(object).unwrap_or_default()))
    }

    /// Applies the definition, with force: fields of other managers are taken over.
    pub(crate) async fn apply(&self, content: Value) -> Result<(), Error> {
        let (patch, options) = (Patch::Apply(content), self.write_options().force(true));
        self.definitions.patch(&self.key, &patch, &options).await?;
        Ok(())
    }

    /// Replaces `storedVersions`. Fails if the definition has another resource version than the one that was read.
    pub(crate) async fn set_stored_versions(
        &self,
        read_at: &Value,
        version: &str,
    ) -> Result<(), Error> {
        let patch = Patch::Json(json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": read_at},
            {"op": "replace", "path": "/status/storedVersions", "value": [version]},
        ]));
        let options = self.write_options();
        self.definitions
            .patch_status(&self.key, &patch, &options)
            .await?;
        Ok(())
    }

    /// Sets or removes the progress annotation.
    pub(crate) async fn annotate(&self, value: Option<String>) -> Result<(), Error> {
        let value = value.map_or(Value::Null, Value::from);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: value}}}));
        let options = self.write_options();
        self.definitions.patch(&self.key, &patch, &options).await?;
        Ok(())
    }
}
