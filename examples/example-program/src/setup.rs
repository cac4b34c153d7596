//! Driver: installs definitions, creates samples, and checks that the server serves a kind.

use std::io::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman::cli::Console;
use steersman::crds::{Crd, Crds};
use steersman::object::{TypedObject, WholeObject};
use steersman::{Client, Kind, ListOptions, ObjectKey, client};
use thiserror::Error;

use crate::BoxError;

/// How long the server may take to serve a kind after its definition was installed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server does not serve a kind.
#[derive(Debug, Error)]
#[error("the server at {endpoint} does not serve {kind}: {remedy}")]
pub struct NotServed {
    endpoint: String,
    kind: String,
    remedy: String,
    source: client::Error,
}

/// Prints a definition as YAML.
///
/// # Errors
///
/// An error if the definition cannot be written.
pub fn print_yaml(definition: &impl Serialize) -> Result<(), BoxError> {
    let text = serde_saphyr::to_string(definition)?;
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// Installs a definition, or updates it, waits until the server serves the kind, and prints so.
///
/// # Errors
///
/// Why it is not installed.
pub async fn install(client: &Client, definition: Crd, console: Console) -> Result<(), BoxError> {
    let name = definition.name().to_owned();
    // The leader migrates stored objects, once its webhooks can convert them.
    let definitions = Crds::new().with(definition).without_migration();
    let client_config = client.client_config();
    definitions.install(client_config, PATIENCE).await?;
    console.say(format_args!("the definition {name} is installed"));
    Ok(())
}

/// Creates the object of a manifest if it does not exist, and returns its key.
///
/// # Errors
///
/// The error of the server.
pub async fn create_if_absent<K, By>(client: &Client, manifest: &str) -> Result<ObjectKey, BoxError>
where
    K: TypedObject + WholeObject<By> + DeserializeOwned,
{
    let object: K = serde_saphyr::from_str(manifest)?;
    let key = object.key();
    // An API server calls webhooks before it finds out that an object exists, and they may not run yet.
    if client.live().get_opt::<K>(&key).await?.is_none() {
        match client.create(&object).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(key)
}

/// Checks that the server is reachable and serves a kind in `namespaces`, or in all of them if there are none: with
/// Roles only, a list of all namespaces is forbidden.
///
/// # Errors
///
/// [`NotServed`] with the remedy if the server does not serve the kind; otherwise the error of the request.
pub async fn check_served<K: TypedObject>(
    client: &Client,
    namespaces: &[String],
    remedy: &str,
) -> Result<(), BoxError> {
    let first = ListOptions::new().limit(1);
    let scopes = match namespaces {
        [] => vec![first],
        names => {
            let scopes = names.iter().map(|name| first.clone().namespace(name));
            scopes.collect()
        }
    };
    for scope in &scopes {
        match client.live().list::<K>(scope).await {
            Err(source) if source.is_kind_not_served() => {
                return Err(Box::new(NotServed {
                    endpoint: client.client_config().endpoint(),
                    kind: Kind::of::<K>().qualified_plural(),
                    remedy: remedy.to_owned(),
                    source,
                }));
            }
            listed => listed?,
        };
    }
    Ok(())
}
