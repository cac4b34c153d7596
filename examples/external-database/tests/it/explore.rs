//! The operator survives crashes, lost answers and old states at each of its requests, and leaves no database behind.

use std::time::Duration;

use external_database::controller;
use external_database::database::Database;
use external_database::service::{DatabaseClient, DatabaseService};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use steersman::{CacheOptions, ObjectKey};
use steersman_harness::{External, OperatorTest, Scenario};

use crate::world::INTERVAL;

#[tokio::test]
async fn no_crash_and_no_old_state_leaves_a_database_or_loses_a_password() {
    let orders = ObjectKey::namespaced("default", "orders");
    let scenario = Scenario::new("database")
        .apply(database("orders"))
        .quiet()
        .merge::<Database>(&orders, json!({"spec": {"connections": 20}}))
        .quiet()
        // Another user needs other credentials.
        .merge::<Database>(&orders, json!({"spec": {"owner": "bob"}}))
        .quiet()
        .apply(database("bills"))
        .delete::<Database>(&orders)
        // The operator looks at the service once in an interval.
        .patience(INTERVAL + Duration::from_secs(60))
        .finally("the credentials of each Secret work", CREDENTIALS_WORK);
    let service = External::new(DatabaseService::new).records("ServiceDatabase", records);
    let operator = OperatorTest::declared_with(service, |manager, service| {
        let client = DatabaseClient::in_process(service.clone());
        controller::declare(manager, client, INTERVAL)
    });
    let operator = operator.cache(controller::cache(CacheOptions::new()));
    let report = operator.crd_of::<Database>().explore(scenario).await;
    let report = report.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}

const CREDENTIALS_WORK: &str = "objects.filter(one, one.kind == 'Secret').all(secret, objects.exists(one, \
                                one.kind == 'ServiceDatabase' && one.record.password == secret.data.password))";

fn database(name: &str) -> Value {
    json!({
        "apiVersion": "db.example.com/v1",
        "kind": "Database",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"owner": "ann", "connections": 10},
    })
}

/// Returns the databases of the service, with the passwords as Secrets have them.
fn records(service: &DatabaseService) -> Vec<(String, Value)> {
    service.with(|records| {
        let databases = records.list().map(|(name, settings, password)| {
            let password = ByteString(password.as_bytes().to_vec());
            let record = json!({"settings": settings, "password": password});
            (name.to_owned(), record)
        });
        databases.collect()
    })
}
