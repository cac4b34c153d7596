//! Driver: puts the kind and the sample on a server, and checks that what the operator needs is there.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman::k8s_openapi;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::{Object as _, TypedObject, WholeObject};
use steersman::{Client, ObjectKey, Selection};
use thiserror::Error;

use crate::website::Website;

/// The sample as its users would apply it.
pub const SAMPLE: &str = include_str!("../manifests/sample.yaml");

/// Why the operator cannot begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not know the kind.
    #[error(
        "the server at {endpoint} does not serve websites.web.example.com: run again with --install, \
         or install the definition with `kubectl apply -f manifests/crd.yaml`"
    )]
    NotInstalled {
        /// The server's address.
        endpoint: String,
        /// What the server said.
        source: steersman::client::Error,
    },
    /// The sample in this file cannot be read.
    #[error("manifests/sample.yaml cannot be read")]
    Sample(#[from] serde_saphyr::Error),
    /// The server refused, or could not be reached.
    #[error(transparent)]
    Client(#[from] steersman::client::Error),
}

/// Installs the definition of the kind, or brings the one that is there up to date.
///
/// # Errors
///
/// When the server refuses it.
pub async fn install(client: &Client) -> Result<(), Error> {
    let wanted = Website::crd();
    create_if_absent(client, &wanted).await?;
    let present: CustomResourceDefinition = client.live().get(&wanted.key()).await?;
    let update = |crd: &mut CustomResourceDefinition| {
        crd.spec.versions.clone_from(&wanted.spec.versions);
        crd.spec
            .names
            .short_names
            .clone_from(&wanted.spec.names.short_names);
        crd.spec
            .names
            .categories
            .clone_from(&wanted.spec.names.categories);
    };
    client.modify(&present, update).await?;
    wait_until_served(client).await
}

/// Creates the sample's objects that are not there.
///
/// # Errors
///
/// When the server refuses one.
pub async fn sample(client: &Client) -> Result<ObjectKey, Error> {
    let mut documents = SAMPLE.split("\n---\n");
    let pages: ConfigMap = serde_saphyr::from_str(documents.next().unwrap_or_default())?;
    let site: Website = serde_saphyr::from_str(documents.next().unwrap_or_default())?;
    create_if_absent(client, &pages).await?;
    create_if_absent(client, &site).await?;
    Ok(site.key())
}

/// Checks that the server is there and serves the kind.
///
/// # Errors
///
/// [`Error::NotInstalled`] when it does not serve it; else what the server says, or why it cannot be
/// reached.
pub async fn check(client: &Client) -> Result<(), Error> {
    match client.live().list::<Website>(&Selection::new()).await {
        Ok(_) => Ok(()),
        Err(source) if is_not_served(&source) => Err(Error::NotInstalled {
            endpoint: client.connection().endpoint(),
            source,
        }),
        Err(error) => Err(error.into()),
    }
}

/// A server accepts a definition a moment before it serves the kind.
async fn wait_until_served(client: &Client) -> Result<(), Error> {
    let patience = std::time::Duration::from_secs(30);
    let interval = std::time::Duration::from_millis(100);
    let served = async {
        loop {
            match check(client).await {
                Err(Error::NotInstalled { .. }) => tokio::time::sleep(interval).await,
                other => return other,
            }
        }
    };
    match tokio::time::timeout(patience, served).await {
        Ok(result) => result,
        // Once more, for the error that says why.
        Err(_) => check(client).await,
    }
}

async fn create_if_absent<K: TypedObject + WholeObject<By>, By>(
    client: &Client,
    object: &K,
) -> Result<(), Error> {
    match client.create(object).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_not_served(error: &steersman::client::Error) -> bool {
    error.is_kind_not_served()
}
