//! Handle: a namespace for one test.

use std::fmt;
use std::ops::Deref;

use serde_json::json;

use crate::environment::TestEnv;
use crate::error::Error;
use crate::rest::Rest;

/// A namespace with a name that nobody else has; it reads as that name.
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
}

impl TestEnv {
    /// Makes a namespace whose name is `prefix` and something random. On an existing cluster it is
    /// deleted with the environment, or before by [`delete_namespace`](Self::delete_namespace);
    /// other servers end with theirs.
    ///
    /// # Errors
    ///
    /// When the server refuses it, for instance because of the prefix.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the namespace may be made and not be known.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace, Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"generateName": format!("{prefix}-")},
        });
        let doing = || format!("making a namespace {prefix}-…");
        let created = self
            .rest()?
            .create("/api/v1/namespaces", &body, doing)
            .await?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        self.leftovers.add(path(name));
        Ok(TestNamespace {
            name: name.to_owned(),
        })
    }

    /// Deletes a namespace; its contents go later, where somebody empties namespaces.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it may be deleted by then.
    pub async fn delete_namespace(&self, namespace: TestNamespace) -> Result<(), Error> {
        let path = path(&namespace.name);
        let rest: Rest = self.rest()?;
        rest.delete(&path).await.map_err(|source| Error::Request {
            doing: format!("deleting the namespace {namespace}"),
            source: Box::new(source),
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

impl fmt::Display for TestNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
