//! A running replicator with a source, and namespaces for its copies.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use secret_replicator::controller;
use secret_replicator::names::{ACCEPT, NAMESPACES, ROLE, SOURCE};
use serde_json::{Value, json};
use steersman::api::Patch;
use steersman::{CacheOptions, ObjectKey};
use steersman_harness::testenv::TestNamespace;
use steersman_harness::{OperatorTest, RunningOperator};

/// The name of the source and of its copies.
pub(crate) const NAME: &str = "token";

/// Declares the replicator.
pub(crate) fn operator() -> OperatorTest {
    OperatorTest::declared(controller::declare).cache(controller::cache(CacheOptions::new()))
}

pub(crate) struct World {
    pub(crate) operator: RunningOperator,
    /// Two namespaces that accept copies, and one that does not.
    pub(crate) shop: TestNamespace,
    pub(crate) web: TestNamespace,
    pub(crate) private: TestNamespace,
}

impl World {
    /// Starts the operator, and creates the namespaces.
    pub(crate) async fn start(operator: OperatorTest) -> Self {
        let operator = operator.start().await.unwrap();
        let [shop, web, private] =
            ["shop", "web", "private"].map(|name| operator.env().namespace(name));
        let (shop, web, private) = (
            shop.await.unwrap(),
            web.await.unwrap(),
            private.await.unwrap(),
        );
        let world = Self {
            operator,
            shop,
            web,
            private,
        };
        world.accept(&world.shop, "true").await;
        world.accept(&world.web, "true").await;
        world
    }

    /// Creates the source, with copies in these namespaces.
    pub(crate) async fn create_source(&self, namespaces: &str) -> Secret {
        let mut source = Secret {
            metadata: self.operator.key(NAME).to_meta(),
            ..Secret::default()
        };
        source.metadata.labels = Some([(ROLE.to_owned(), SOURCE.to_owned())].into());
        let annotation = (NAMESPACES.to_owned(), namespaces.to_owned());
        source.metadata.annotations = Some([annotation].into());
        source.data = Some([("key".to_owned(), ByteString(b"first".to_vec()))].into());
        self.operator.client().create(&source).await.unwrap()
    }

    /// Returns the names of all namespaces of the test, as an annotation lists them.
    pub(crate) fn everywhere(&self) -> String {
        format!("{},{},{}", &*self.shop, &*self.web, &*self.private)
    }

    pub(crate) async fn accept(&self, namespace: &str, accept: &str) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {ACCEPT: accept}}}));
        let key = ObjectKey::cluster_scoped(namespace);
        let client = self.operator.client();
        client.patch::<Namespace>(&key, &patch).await.unwrap();
    }

    /// Changes the Secret in a namespace.
    pub(crate) async fn patch(&self, namespace: &str, patch: Value) {
        let key = ObjectKey::namespaced(namespace, NAME);
        let client = self.operator.client();
        client
            .patch::<Secret>(&key, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Reads the Secret in a namespace.
    pub(crate) async fn secret(&self, namespace: &str) -> Option<Secret> {
        let key = ObjectKey::namespaced(namespace, NAME);
        self.operator.client().live().get_opt(&key).await.unwrap()
    }

    /// Waits until the Secret in a namespace has this value, or until there is none.
    pub(crate) async fn until(&self, namespace: &str, value: Option<&str>) {
        let holds = self
            .operator
            .expect(format!("the value {value:?} in {namespace}"))
            .about_in(namespace, "secrets")
            .eventually(|| async {
                let found = self.secret(namespace).await;
                let data = found.map(|secret| secret.data.unwrap_or_default());
                let found = data.map(|data| String::from_utf8(data["key"].0.clone()).unwrap());
                match found.as_deref() == value {
                    true => Ok(()),
                    false => Err(format!("{found:?}")),
                }
            });
        holds.await.unwrap();
    }
}
