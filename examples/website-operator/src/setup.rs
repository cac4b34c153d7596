//! Driver: installs the kind and the sample, and checks that the server serves the kind.

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::{Object as _, TypedObject, WholeObject};
use steersman::{Client, ObjectKey, Selection};
use thiserror::Error;

use crate::args::Args;
use crate::narrator::say;
use crate::website::Website;

/// The manifest of the sample.
pub const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// The reason why the operator cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The server does not serve the kind.
    #[error(
        "the server at {endpoint} does not serve websites.web.example.com: run again with --install, \
         or install the definition with `kubectl apply -f manifests/crd.yaml`"
    )]
    NotInstalled {
        /// The server's address.
        endpoint: String,
        /// The server's error.
        source: steersman::client::Error,
    },
    /// The manifest of the sample does not parse.
    #[error("manifests/sample.yaml cannot be read")]
    Sample(#[from] serde_saphyr::Error),
    /// The server refused a request, or is unreachable.
    #[error(transparent)]
    Client(#[from] steersman::client::Error),
}

/// Returns the definition of the kind as YAML.
///
/// # Errors
///
/// An error if the definition cannot be written as YAML.
pub fn definition() -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(&Website::crd())
}

/// Installs what the flags ask for, and on an embedded server both the definition and the sample. The operator
/// reads websites in `namespaces`, or in all of them if there are none.
///
/// Only a run with `--once` needs a server that serves the kind now. An operator that stays waits for a missing
/// definition, a missing permission and an unreachable server, and its probes name them.
///
/// # Errors
///
/// The error of the server, and [`SetupError::NotInstalled`].
pub async fn prepare(
    args: &Args,
    client: &Client,
    namespaces: &[String],
    is_embedded: bool,
) -> Result<(), SetupError> {
    if args.setup.install || is_embedded {
        install(client).await?;
        say("the definition websites.web.example.com is installed");
    } else if args.once {
        check(client, namespaces).await?;
    }
    if args.setup.sample || is_embedded {
        let key = sample(client).await?;
        say(format_args!("the sample Website {key} is there"));
    }
    Ok(())
}

/// Installs the definition of the kind, or updates it, and waits until the server serves the kind.
///
/// # Errors
///
/// The error of the server.
pub async fn install(client: &Client) -> Result<(), SetupError> {
    let patience = std::time::Duration::from_secs(30);
    Ok(client.install(&Website::crd(), patience).await?)
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
        return check_in(client, &Selection::new()).await;
    }
    for namespace in namespaces {
        check_in(client, &Selection::new().namespace(namespace)).await?;
    }
    Ok(())
}

async fn check_in(client: &Client, selection: &Selection) -> Result<(), SetupError> {
    match client
        .live()
        .list::<Website>(&selection.clone().limit(1))
        .await
    {
        Ok(_) => Ok(()),
        Err(source) if is_not_served(&source) => Err(SetupError::NotInstalled {
            endpoint: client.connection().endpoint(),
            source,
        }),
        Err(error) => Err(error.into()),
    }
}

async fn create_if_absent<K: TypedObject + WholeObject<By>, By>(
    client: &Client,
    object: &K,
) -> Result<(), SetupError> {
    match client.create(object).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_not_served(error: &steersman::client::Error) -> bool {
    error.is_kind_not_served()
}
