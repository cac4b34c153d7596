//! Driver: a server in this process, on a runtime of its own, that clients reach over HTTPS.

use std::path::Path;

use serde_json::json;
use steersman_apiserver::{ApiServer, Serving};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::process::BenchResult;

/// A server in the same process, so that both ends share a clock, but on its own thread. The connections are HTTPS over
/// loopback, as with any other server.
pub(super) struct ServerApart {
    pub(super) server: ApiServer,
    pub(super) handle: Handle,
    kubeconfig: NamedTempFile,
    _serving: Serving,
    /// `None` once the server is dropped.
    runtime: Option<Runtime>,
}

impl ServerApart {
    /// Serves a server that holds ConfigMaps of these names.
    pub(super) async fn serve(names: impl IntoIterator<Item = String>) -> BenchResult<Self> {
        let runtime = one_thread()?;
        let server = ApiServer::new();
        for name in names {
            let metadata = json!({"name": name, "namespace": "default"});
            server
                .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
        }
        let serving = {
            let server = server.clone();
            runtime
                .spawn(async move { server.serve("127.0.0.1:0").await })
                .await??
        };
        let kubeconfig = NamedTempFile::new()?;
        serving.write_kubeconfig(kubeconfig.path())?;
        Ok(Self {
            server,
            handle: runtime.handle().clone(),
            kubeconfig,
            _serving: serving,
            runtime: Some(runtime),
        })
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }
}

impl Drop for ServerApart {
    fn drop(&mut self) {
        // A runtime that waits for its tasks must not be dropped inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn one_thread() -> BenchResult<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?)
}
