//! A running operator with a service.

use std::time::Duration;

use example_program::once::is_ready;
use external_database::controller;
use external_database::credentials::{self, Credentials};
use external_database::database::{Database, DatabaseSpec};
use external_database::service::{DatabaseClient, DatabaseService, Settings};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use steersman::status_conditions::{self, HasConditions as _, READY};
use steersman::{CacheOptions, Manager};
use steersman_harness::{OperatorTest, RunningOperator};

/// The interval at which the operator of a test looks at the service.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) operator: RunningOperator,
    pub(crate) service: DatabaseService,
}

/// Declares the operator with a client of a service.
pub(crate) fn operator(client: DatabaseClient, interval: Duration) -> OperatorTest {
    let declare = move |manager: &Manager| controller::declare(manager, client.clone(), interval);
    OperatorTest::declared(declare)
        .crd_of::<Database>()
        // Shorter than the interval: an operator that polls rests in between.
        .quiet_for(interval / 2)
        .cache(controller::cache(CacheOptions::new()))
}

impl World {
    /// Starts the operator in process, with the `Database` named `orders`.
    pub(crate) async fn start() -> Self {
        let world = Self::without_database().await;
        world.create().await;
        world
    }

    /// Starts the operator in process, without a `Database`.
    pub(crate) async fn without_database() -> Self {
        let service = DatabaseService::new();
        let client = DatabaseClient::in_process(service.clone());
        let operator = operator(client, INTERVAL).start().await.unwrap();
        Self { operator, service }
    }

    /// Creates the `Database` named `orders`.
    pub(crate) async fn create(&self) {
        let spec = DatabaseSpec {
            owner: "ann".to_owned(),
            connections: 10,
        };
        let mut database = Database::new("orders", spec);
        database.metadata.namespace = Some(self.operator.namespace().to_owned());
        self.operator.client().create(&database).await.unwrap();
    }

    /// Returns the name of the database at the service.
    pub(crate) fn external(&self) -> String {
        format!("{}.orders", self.operator.namespace())
    }

    pub(crate) fn settings(&self) -> Option<Settings> {
        let name = self.external();
        self.service
            .with(|records| records.settings(&name).cloned())
    }

    /// Sends a request to the service, as another client would.
    pub(crate) fn send(&self, method: &Method, body: &Value) {
        let path = format!("/databases/{}", self.external());
        let body = body.to_string();
        let answer = self.service.respond(method, &path, body.as_bytes());
        assert!(answer.0.is_success(), "{answer:?}");
    }

    pub(crate) async fn read(&self) -> Option<Database> {
        let key = self.operator.key("orders");
        self.operator.client().live().get_opt(&key).await.unwrap()
    }

    pub(crate) async fn secret(&self) -> Option<Secret> {
        let key = self.operator.key("orders-credentials");
        self.operator.client().live().get_opt(&key).await.unwrap()
    }

    pub(crate) async fn credentials(&self) -> Option<Credentials> {
        credentials::read(&self.secret().await?)
    }

    /// Returns whether the service accepts the credentials of the Secret.
    pub(crate) async fn can_log_in(&self) -> bool {
        let Some(credentials) = self.credentials().await else {
            return false;
        };
        let client = DatabaseClient::in_process(self.service.clone());
        let (user, password) = (&credentials.user, &credentials.password);
        client
            .accepts(&self.external(), user, password)
            .await
            .unwrap()
    }

    /// Waits until the `Database` is ready, with credentials that work.
    pub(crate) async fn until_ready(&self) {
        let ready = self.operator.expect("a Database that is ready");
        let ready = ready
            .about("databases.db.example.com")
            .eventually(|| async {
                let database = self.read().await.ok_or("no Database")?;
                match is_ready(&database) && self.can_log_in().await {
                    true => Ok(()),
                    false => Err(format!("{:?}", database.status)),
                }
            });
        ready.await.unwrap();
    }

    /// Waits until the condition of the `Database` has this reason, and returns its message.
    pub(crate) async fn until_reason(&self, reason: &str) -> String {
        let told = self.operator.expect(format!("the reason {reason}"));
        let told = told.eventually(|| async {
            let database = self.read().await.ok_or("no Database")?;
            match status_conditions::find(database.conditions(), READY) {
                Some(condition) if condition.reason == reason => Ok(condition.message.clone()),
                other => Err(format!("{other:?}")),
            }
        });
        told.await.unwrap()
    }

    /// Waits until the object and the database at the service are gone.
    pub(crate) async fn until_gone(&self) {
        let gone = self.operator.expect("no Database").eventually(|| async {
            match (self.read().await, self.settings()) {
                (None, None) => Ok(()),
                (_, settings) => Err(format!("at the service: {settings:?}")),
            }
        });
        gone.await.unwrap();
    }
}
