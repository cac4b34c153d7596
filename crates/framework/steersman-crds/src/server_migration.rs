//! Driver: makes the server migrate the objects of a kind, with a `StorageVersionMigration`.

use std::time::Duration;

use kube_core::DynamicObject;
use serde_json::{Value, json};
use steersman_api::{Api, DeleteOptions, Error, Mapper, WriteOptions, kube_client};
use steersman_object::{Gvk, Kind, ObjectKey, json_items, json_text};
use tokio::time::{Instant, sleep};
use tracing::info;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerMigration {
    /// Every object is stored in the stored version.
    Succeeded,
    /// The server does not migrate, for this reason.
    Unavailable(String),
}

const GROUP: &str = "storagemigration.k8s.io";
const KIND: &str = "StorageVersionMigration";
/// The API versions, newest first. Up to v1alpha1 (Kubernetes 1.30 to 1.34), the resource names a version.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
/// The pause between two reads of the migration's status.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// How long to wait for the controller-manager to begin; its migration controller may be disabled.
const UNTIL_BEGUN: Duration = Duration::from_secs(30);
/// The pause between two progress lines in the log.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The maximal length in bytes of a definition's name inside a migration's name, which may have 253 bytes.
const LONGEST: usize = 220;

/// Makes the server migrate the objects of a kind, and waits for the end. Continues with an existing migration of the
/// same generation, which a leader has created before an interruption.
///
/// # Errors
///
/// The error of a failed request. If the server refuses the migration, the result is [`ServerMigration::Unavailable`].
///
/// # Cancel safety
///
/// The migration on the server continues, and the next call finds it.
pub(crate) async fn migrate(
    client: &kube_client::Client,
    mapper: &Mapper,
    definition: &str,
    kind: &Kind,
    generation: i64,
) -> Result<ServerMigration, Error> {
    let Some(migrations) = served(client, mapper).await? else {
        let problem = format!("the server does not serve {KIND}");
        return Ok(ServerMigration::Unavailable(problem));
    };
    let prefix: String = definition.chars().take(LONGEST).collect();
    let key = ObjectKey::cluster_scoped(format!("{prefix}-{generation}"));
    let migration = object(migrations.kind(), &key, kind);
    match migrations.create(&migration, &WriteOptions::new()).await {
        Ok(_) => info!(
            definition,
            migration = key.name(),
            "the server migrates the stored objects"
        ),
        Err(error) if error.is_already_exists() => {}
        Err(error) if error.is_transport() || error.is_throttled() => return Err(error),
        Err(error) => return Ok(ServerMigration::Unavailable(error.to_string())),
    }
    let (begun, mut last_line) = (Instant::now(), Instant::now());
    loop {
        let migration = match migrations.get_opt(&key).await {
            Ok(Some(migration)) => migration,
            Ok(None) => {
                let problem = "the StorageVersionMigration was deleted".to_owned();
                return Ok(ServerMigration::Unavailable(problem));
            }
            // Without the permission to read the migration, the operator could not see its end.
            Err(error) if error.is_forbidden() => {
                return Ok(ServerMigration::Unavailable(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        if last_line.elapsed() >= BETWEEN_LINES {
            last_line = Instant::now();
            let seconds = begun.elapsed().as_secs();
            info!(
                definition,
                migration = key.name(),
                seconds,
                "waiting until the server has migrated the objects"
            );
        }
        let is = |kind: &str| condition(&migration.data, kind);
        let outcome = if is("Succeeded").is_some() {
            Some(ServerMigration::Succeeded)
        } else if let Some(message) = is("Failed") {
            let problem = format!("the StorageVersionMigration failed: {message}");
            Some(ServerMigration::Unavailable(problem))
        } else if is("Running").is_none() && begun.elapsed() >= UNTIL_BEGUN {
            let seconds = UNTIL_BEGUN.as_secs();
            let problem = format!("the server began no migration in {seconds} s");
            Some(ServerMigration::Unavailable(problem))
        } else {
            None
        };
        if let Some(outcome) = outcome {
            // The migration is deleted, so that no later migration of the same generation takes it for its own.
            let deleted = migrations.delete(&key, &DeleteOptions::new()).await;
            return match deleted {
                Err(error) if error.is_transport() => Err(error),
                _ => Ok(outcome),
            };
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Returns the verbs for migrations in the newest served API version; `None` if the server has no migrations.
async fn served(
    client: &kube_client::Client,
    mapper: &Mapper,
) -> Result<Option<Api<DynamicObject>>, Error> {
    for version in VERSIONS {
        match mapper.kind(&Gvk::new(GROUP, version, KIND)).await {
            Ok(kind) => {
                let api = Api::new(client.clone(), kind).request_timeout(REQUEST_LIMIT);
                return Ok(Some(api));
            }
            Err(error) if error.is_transport() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}

fn object(migrations: &Kind, key: &ObjectKey, kind: &Kind) -> DynamicObject {
    let gvr = kind.gvr();
    let mut resource = json!({"group": gvr.group(), "resource": gvr.resource()});
    if migrations.gvk().version() == "v1alpha1" {
        resource["version"] = json!(gvr.version());
    }
    let mut object = DynamicObject::new(key.name(), &migrations.api_resource());
    object.data = json!({"spec": {"resource": resource}});
    object
}

/// Returns the message of a condition if its status is `True`.
fn condition(content: &Value, kind: &str) -> Option<String> {
    let mut conditions = json_items(&content["status"]["conditions"]);
    let condition = conditions.find(|one| one["type"] == kind)?;
    (condition["status"] == "True").then(|| json_text(&condition["message"]).to_owned())
}
