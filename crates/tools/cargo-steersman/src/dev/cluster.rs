//! Driver: the API server of `dev`, with the definitions and the samples.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::{ClientConfig, WriteOptions};
use steersman_description::Description;
use steersman_object::json_text;
use steersman_testenv::apiserver::play::{Played, Speed};
use steersman_testenv::apiserver::status::Status;
use steersman_testenv::apiserver::{ApiServer, Authorization, Serving, User, manifests};

use super::answered::OpenRequests;
use super::samples::{Samples, documents};
use crate::add::EXTERNAL;
use crate::error::Error;
use crate::files::write_private;
use crate::generate::dev_objects;
use crate::kubeconfig::AGENT;
use crate::project::Project;

#[derive(Debug)]
pub(crate) struct DevCluster {
    pub(crate) server: ApiServer,
    pub(crate) serving: Serving,
    pub(crate) open: OpenRequests,
}

/// The time that a Pod takes to become ready.
const STARTUP: Duration = Duration::from_secs(1);
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl DevCluster {
    /// Starts the server on a local port, and writes a kubeconfig for it.
    pub(crate) async fn start(port: u16, kubeconfig: &Path) -> Result<Self, Error> {
        let played = Played::everything().speed(Speed::brisk().start(STARTUP));
        let server = ApiServer::builder().play(played);
        // RBAC applies to the operator, as in a real cluster; the kubeconfig of the developer has all permissions.
        let server = server.authorization(Authorization::Rbac).build();
        let address = ("127.0.0.1", port);
        let serving = server.serve(address).await.map_err(Error::Server)?;
        if let Some(folder) = kubeconfig.parent() {
            std::fs::create_dir_all(folder).map_err(Error::file(folder, "made"))?;
        }
        serving
            .write_kubeconfig(kubeconfig)
            .map_err(Error::Server)?;
        Ok(Self {
            server,
            serving,
            open: OpenRequests::default(),
        })
    }

    /// Creates or replaces the definitions of a program. A definition may accept less than the former one, because this
    /// server keeps no objects after the session.
    pub(crate) fn install(&self, description: &Description) -> Result<(), Error> {
        for definition in &description.definitions {
            let mut definition = definition.clone();
            let name = json_text(&definition["metadata"]["name"]).to_owned();
            let present = self.server.get(DEFINITIONS, "", &name);
            // The definition keeps its conversion, because the program injects the certificates into it.
            let conversion = present.map(|present| present["spec"]["conversion"].clone());
            if let Some(conversion) = conversion.filter(|one| one["strategy"] == "Webhook") {
                definition["spec"]["conversion"] = conversion;
            }
            let installed = self.server.install_crd(definition);
            installed.map_err(refused(format!("the definition {name}")))?;
        }
        Ok(())
    }

    /// Installs the definitions of external kinds, which `add controller` has copied into the operator's folder.
    pub(crate) fn install_external(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(EXTERNAL);
        if !path.exists() {
            return Ok(());
        }
        for manifest in manifests::read(path)? {
            let object = format!("the definition of {manifest}");
            let installed = self.server.install_crd(manifest.object);
            installed.map_err(refused(object))?;
        }
        Ok(())
    }

    /// Grants the service account of the program the roles of `generate`, writes a kubeconfig for the account, and
    /// configures the webhooks of the program.
    pub(crate) fn admit(
        &self,
        project: &Project,
        description: &Description,
        kubeconfig: &Path,
    ) -> Result<(), Error> {
        let account = format!("system:serviceaccount:default:{}", description.name);
        let text = self.serving.kubeconfig_for(User::new(account));
        write_private(kubeconfig, &text)?;
        for (path, text) in dev_objects(project, description)? {
            for object in documents(&path, &text)? {
                self.ensure_namespace(&object["metadata"]["namespace"])?;
                let applied = self.server.apply(&object, AGENT);
                applied.map_err(refused(path.clone()))?;
            }
        }
        Ok(())
    }

    /// Creates the namespace of a role if it is missing.
    fn ensure_namespace(&self, name: &Value) -> Result<(), Error> {
        let Some(name) = name.as_str() else {
            return Ok(());
        };
        if self.server.get("namespaces", "", name).is_some() {
            return Ok(());
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let created = self.server.create(namespace);
        created.map_err(refused(format!("the namespace {name}")))?;
        Ok(())
    }

    /// Applies the samples, also fields that the operator has changed, and returns the number of samples.
    pub(crate) async fn apply(&self, samples: &Samples) -> Result<usize, Error> {
        let client_config = ClientConfig::in_process(self.server.service(), "default")
            .user_agent(AGENT, env!("CARGO_PKG_VERSION"));
        let failed = Error::cluster("the connection to the API server of this program");
        let client = client_config.client().map_err(failed)?;
        let options = WriteOptions::new().field_manager(AGENT).force(true);
        samples.apply(&client_config, &client, &options).await
    }

    pub(crate) fn objects(&self, description: &Description) -> Vec<Value> {
        let definitions = description.definitions.iter();
        let names = definitions.map(|definition| json_text(&definition["metadata"]["name"]));
        names.flat_map(|name| self.server.list(name, "")).collect()
    }
}

fn refused(object: String) -> impl FnOnce(Status) -> Error {
    |status| Error::Refused {
        object,
        problem: status.message,
    }
}
