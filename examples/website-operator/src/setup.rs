//! Driver: installs the kind and the sample, and checks that the server serves the kind.

use std::time::Duration;

use serde::de::DeserializeOwned;
use steersman::cli::Console;
use steersman::crds::{Crd, Crds};
use steersman::k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::{Object as _, TypedObject, WholeObject};
use steersman::{Client, ListOptions, ObjectKey};
use thiserror::Error;

use crate::webhooks::{NAME, Webhooks};
use crate::website::{self, Website};

/// The manifest of the sample.
pub const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// The manifest of the Service and the configurations of the webhooks.
const WEBHOOKS: &str = include_str!("../manifests/webhooks.yaml");

/// The namespace in the manifests.
const NAMESPACE: &str = "websites-system";

/// The reason why the operator cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The server does not serve the kind.
    #[error(
        "the server at {endpoint} does not serve websites.web.example.com: run again with --install and \
         --webhook-bind-address, or with --install-newest-version-only, or install the definition with `kubectl apply -f manifests/crd.yaml`"
    )]
    NotInstalled {
        /// The server's address.
        endpoint: String,
        /// The server's error.
        source: steersman::client::Error,
    },
    /// Both versions of the kind would be installed without the webhooks.
    #[error(
        "the program cannot install both versions without its webhook: run again with --webhook-bind-address=:9443, or \
         with --install-newest-version-only in place of --install"
    )]
    Unconverted(#[source] steersman::crds::Error),
    /// A manifest does not parse.
    #[error("the manifests of this program cannot be read")]
    Manifest(#[from] serde_saphyr::Error),
    /// The definition is not installed.
    #[error(transparent)]
    Definition(#[from] steersman::crds::Error),
    /// The server refused a request, or is unreachable.
    #[error(transparent)]
    Client(#[from] steersman::client::Error),
}

/// What is done before the operator starts.
#[derive(Debug)]
pub struct Setup {
    /// Whether the definition and the configurations of the webhooks are installed before the operator starts.
    pub installs_now: bool,
    /// Whether the sample is created.
    pub has_sample: bool,
    /// Whether the server has to serve the kind. An operator that stays waits for a missing definition, a missing
    /// permission and an unreachable server, and its probes name them.
    pub must_be_served: bool,
    /// The webhooks of this program, if it has them.
    pub webhooks: Option<Webhooks>,
    /// Where each step is told.
    pub console: Console,
}

/// Returns the definition as YAML, with the conversion webhook of `manifests/webhooks.yaml`.
///
/// # Errors
///
/// An error if the definition cannot be written as YAML.
pub fn definition() -> Result<String, serde_saphyr::ser::Error> {
    let service = ObjectKey::namespaced(NAMESPACE, NAME);
    let definition = Crd::new(&website::crd()).converted_by(&service);
    serde_saphyr::to_string(definition.content())
}

/// Returns the definitions that the operator installs. Without webhooks it serves the newest version alone, because
/// nothing could convert objects.
pub fn definitions(webhooks: Option<&Webhooks>) -> Crds {
    match webhooks {
        Some(webhooks) => webhooks.definitions(),
        None => Crds::new().with(Website::crd()),
    }
}

/// Checks that the versions of the kind can be installed without the webhooks.
///
/// # Errors
///
/// [`SetupError::Unconverted`] with the fields in which the versions differ, and that would be lost.
pub fn check_unconverted() -> Result<(), SetupError> {
    let definition = Crd::new(&website::crd());
    definition.check().map_err(SetupError::Unconverted)
}

impl Setup {
    /// Installs and creates what is wanted. The operator reads websites in `namespaces`, or in all of them if there
    /// are none.
    ///
    /// The webhooks are configured last: they answer when the operator has started.
    ///
    /// # Errors
    ///
    /// The error of the server, and [`SetupError::NotInstalled`].
    pub async fn run(&self, client: &Client, namespaces: &[String]) -> Result<(), SetupError> {
        if self.installs_now {
            install(client, self.webhooks.as_ref()).await?;
            self.console
                .say("the definition websites.web.example.com is installed");
        } else if self.must_be_served {
            check(client, namespaces).await?;
        }
        if self.has_sample {
            let key = sample(client).await?;
            self.console
                .say(format_args!("the sample Website {key} is there"));
        }
        if let Some(webhooks) = self.webhooks.as_ref().filter(|_| self.installs_now) {
            configure(client, webhooks).await?;
        }
        Ok(())
    }
}

/// Installs the definition of the kind, or updates it, and waits until the server serves the kind.
///
/// # Errors
///
/// Why it is not installed.
pub async fn install(client: &Client, webhooks: Option<&Webhooks>) -> Result<(), SetupError> {
    let patience = Duration::from_secs(30);
    let definitions = definitions(webhooks);
    // The leader migrates stored objects, once its webhooks can convert them.
    let definitions = definitions.without_migration();
    Ok(definitions
        .install(client.client_config(), patience)
        .await?)
}

/// Makes the API server call the webhooks.
async fn configure(client: &Client, webhooks: &Webhooks) -> Result<(), SetupError> {
    let mutating: MutatingWebhookConfiguration =
        manifest("MutatingWebhookConfiguration", &webhooks.namespace)?;
    let validating: ValidatingWebhookConfiguration =
        manifest("ValidatingWebhookConfiguration", &webhooks.namespace)?;
    client.apply(&mutating).await?;
    client.apply(&validating).await?;
    Ok(())
}

/// Returns the object of a kind in `manifests/webhooks.yaml`, for a Service in a namespace.
fn manifest<K: DeserializeOwned>(kind: &str, namespace: &str) -> Result<K, SetupError> {
    let line = format!("kind: {kind}\n");
    let mut documents = WEBHOOKS.split("\n---\n");
    let document = documents.find(|document| document.contains(&line));
    let document = document.unwrap_or_default().replace(NAMESPACE, namespace);
    Ok(serde_saphyr::from_str(&document)?)
}

/// Creates those objects of the sample that do not exist.
///
/// # Errors
///
/// The error of the server.
pub async fn sample(client: &Client) -> Result<ObjectKey, SetupError> {
    let mut documents = SAMPLE.split("\n---\n");
    let pages: ConfigMap = serde_saphyr::from_str(documents.next().unwrap_or_default())?;
    let site: Website = serde_saphyr::from_str(documents.next().unwrap_or_default())?;
    create_if_absent(client, &pages).await?;
    create_if_absent(client, &site).await?;
    Ok(site.key())
}

/// Checks that the server is reachable and serves the kind in `namespaces`, or in all of them if there are none:
/// with Roles only, a list of all namespaces is forbidden.
///
/// # Errors
///
/// [`SetupError::NotInstalled`] if it does not serve the kind; otherwise the error of the request.
pub async fn check(client: &Client, namespaces: &[String]) -> Result<(), SetupError> {
    if namespaces.is_empty() {
        return check_in(client, &ListOptions::new()).await;
    }
    for namespace in namespaces {
        check_in(client, &ListOptions::new().namespace(namespace)).await?;
    }
    Ok(())
}

async fn check_in(client: &Client, list_options: &ListOptions) -> Result<(), SetupError> {
    match client
        .live()
        .list::<Website>(&list_options.clone().limit(1))
        .await
    {
        Ok(_) => Ok(()),
        Err(source) if is_not_served(&source) => Err(SetupError::NotInstalled {
            endpoint: client.client_config().endpoint(),
            source,
        }),
        Err(error) => Err(error.into()),
    }
}

async fn create_if_absent<K: TypedObject + WholeObject<By>, By>(
    client: &Client,
    object: &K,
) -> Result<(), SetupError> {
    // An API server calls webhooks before it finds out that an object exists, and they may not run yet.
    if client.live().get_opt::<K>(&object.key()).await?.is_some() {
        return Ok(());
    }
    match client.create(object).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_not_served(error: &steersman::client::Error) -> bool {
    error.is_kind_not_served()
}
