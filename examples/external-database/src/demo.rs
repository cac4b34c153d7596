//! Driver: a run of the operator on an embedded API server, beside a service on a free port.

use std::fmt::Display;
use std::time::Duration;

use example_program::BoxError;
use example_program::once::run_until;
use serde_json::{Value, json};
use steersman::kube_core::CustomResourceExt as _;
use steersman::{CacheOptions, ClientConfig, Manager};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;

use crate::controller;
use crate::database::Database;
use crate::service::{DatabaseClient, DatabaseService, Settings};

/// The interval at which the operator of the demonstration looks at the service.
const INTERVAL: Duration = Duration::from_secs(1);

/// The resource of the kind, and the name of the database at the service.
const DATABASES: &str = "databases.db.example.com";
const EXTERNAL: &str = "default.orders";

/// Runs the operator, and changes the object and the service. Passes one text per step to `say`.
///
/// # Errors
///
/// If a step does not have its effect in time.
pub async fn run(say: impl Fn(&dyn Display)) -> Result<(), BoxError> {
    let server = ApiServer::new();
    server.install_crd(serde_json::to_value(Database::crd())?)?;
    let service = DatabaseService::new();
    let address = service.serve().await?;
    say(&format_args!(
        "a database service listens at http://{address}"
    ));
    let manager = Manager::builder(ClientConfig::in_process(server.service(), "default"))
        .cache(controller::cache(CacheOptions::new()))
        .build()?;
    let client = DatabaseClient::http(address);
    controller::declare(&manager, client, INTERVAL)?;
    run_until(&manager, steps(say, &server, &service)).await
}

async fn steps(
    say: impl Fn(&dyn Display),
    server: &ApiServer,
    service: &DatabaseService,
) -> Result<(), BoxError> {
    server.create(orders())?;
    has(service, Some(10)).await?;
    let password = password(server, None).await?;
    say(&format_args!(
        "the database {EXTERNAL} exists, and a Secret has its credentials"
    ));

    let patch = json!({"spec": {"connections": 20}});
    server.merge_patch(DATABASES, "default", "orders", &patch)?;
    has(service, Some(20)).await?;
    say(&"a change of the spec reached the service");

    let fewer = Settings {
        owner: "ann".to_owned(),
        connections: 1,
    };
    let body = serde_json::to_vec(&fewer)?;
    service.with(|records| records.respond(&http::Method::PUT, &path(), &body));
    has(service, Some(20)).await?;
    say(&"a change at the service was seen by polling, and corrected");

    service.with(|records| records.respond(&http::Method::DELETE, &path(), &[]));
    has(service, Some(20)).await?;
    self::password(server, Some(&password)).await?;
    say(&"a database that was lost was created anew, with new credentials");

    server.delete(DATABASES, "default", "orders")?;
    has(service, None).await?;
    say(&"the object was deleted, and the database with it");

    Ok(())
}

/// Waits until the database has this number of connections, or until there is none.
async fn has(service: &DatabaseService, connections: Option<i32>) -> Result<(), BoxError> {
    let check = || {
        let found = service.with(|records| records.settings(EXTERNAL).cloned());
        let is_right = found.as_ref().map(|found| found.connections) == connections;
        async move { is_right.then_some(()).ok_or_else(|| format!("{found:?}")) }
    };
    let what = format!("{connections:?} connections at the service");
    Ok(eventually(&what, check).await?)
}

/// Waits until the Secret has another password than `before`, and returns it.
async fn password(server: &ApiServer, before: Option<&Value>) -> Result<Value, BoxError> {
    let check = || {
        let secret = server.get("secrets", "default", "orders-credentials");
        let found = secret.map(|secret| secret["data"]["password"].clone());
        let found = found.filter(|found| Some(found) != before);
        async move { found.ok_or_else(|| "no new password".to_owned()) }
    };
    Ok(eventually("credentials in the Secret", check).await?)
}

fn orders() -> Value {
    json!({
        "apiVersion": "db.example.com/v1", "kind": "Database",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"owner": "ann"},
    })
}

fn path() -> String {
    format!("/databases/{EXTERNAL}")
}
