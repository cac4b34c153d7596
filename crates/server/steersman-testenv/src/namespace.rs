//! Handle: a namespace for one test.

use std::ops::Deref;

use serde_json::json;

use crate::environment::TestEnv;
use crate::error::Error;

/// A namespace with a unique name; dereferences to the name.
#[derive(Debug, derive_more::Display)]
#[display("{name}")]
pub struct TestNamespace {
    name: String,
}

impl TestEnv {
    /// Creates a namespace named `prefix` with a random suffix. On an existing cluster it is deleted with the
    /// environment, or earlier by [`delete_namespace`](Self::delete_namespace); other servers end with the environment.
    ///
    /// # Errors
    /// If the server refuses it, for example because of the prefix.
    ///
    /// # Cancel safety
    /// Not cancel safe: the namespace may remain without being deleted at the end.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace, Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"generateName": format!("{prefix}-")},
        });
        let doing = || format!("the creation of a namespace {prefix}-…");
        let rest = self.rest()?;
        let created = rest.create("/api/v1/namespaces", &body, doing).await?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        self.leftovers.add(path(name));
        let name = name.to_owned();
        Ok(TestNamespace { name })
    }

    /// Deletes a namespace. Its objects are deleted later, if the server has a namespace controller.
    ///
    /// # Errors
    /// If the server refuses.
    ///
    /// # Cancel safety
    /// Cancel safe: the namespace may already be deleted.
    pub async fn delete_namespace(&self, namespace: TestNamespace) -> Result<(), Error> {
        let path = path(&namespace.name);
        let deleted = self.rest()?.delete(&path).await;
        deleted.map_err(|source| {
            Error::request(format!("the deletion of the namespace {namespace}"), source)
        })?;
        self.leftovers.forget(&path);
        Ok(())
    }
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

impl Deref for TestNamespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}
