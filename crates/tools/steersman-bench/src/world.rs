//! Driver: servers with objects to measure against: own servers in processes, or namespaces of an external server.

mod foreign;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use serde::de::DeserializeOwned;

use crate::process::{Actor, BenchResult, progress};
use crate::samples::Sample;
use crate::server::role::ServerRole;
use crate::server::serve::Order;
use crate::stops::Stops;
use crate::wire::ServerAddress;
use crate::world::foreign::{Cluster, Namespace};

/// The servers of the worlds of a measurement.
pub(crate) enum Worlds {
    /// Each world has its own server.
    Own,
    /// Each world is a namespace of this server.
    Foreign(Cluster),
}

/// A server with objects of one kind.
pub(crate) struct World {
    side: Side,
    pub(crate) of: Sample,
    pub(crate) kubeconfig: PathBuf,
}

enum Side {
    Own {
        actor: Box<Actor>,
        /// The file is deleted when this is dropped.
        _kubeconfig: tempfile::NamedTempFile,
    },
    Foreign(Namespace),
}

impl Worlds {
    /// Returns own servers, or namespaces of the server in `against`.
    pub(crate) async fn of(against: Option<&Path>) -> BenchResult<Self> {
        Ok(match against {
            Some(kubeconfig) => Self::Foreign(Cluster::connect(kubeconfig).await?),
            None => Self::Own,
        })
    }

    pub(crate) async fn start(&mut self, of: Sample, objects: u64) -> BenchResult<World> {
        progress(format!("a server with {objects} {}", of.resource()));
        let (side, kubeconfig) = match self {
            Self::Own => {
                let mut actor = Actor::start(&ServerRole::Serve { objects, of })?;
                let (_, text): (ServerAddress, String) = actor.receive().await?;
                let kubeconfig = tempfile::NamedTempFile::new()?;
                std::fs::write(kubeconfig.path(), text)?;
                let path = kubeconfig.path().to_owned();
                let side = Side::Own {
                    actor: Box::new(actor),
                    _kubeconfig: kubeconfig,
                };
                (side, path)
            }
            Self::Foreign(cluster) => {
                let mut namespace = cluster.namespace(of).await?;
                namespace.grow(objects).await?;
                (Side::Foreign(namespace), cluster.kubeconfig.clone())
            }
        };
        Ok(World {
            side,
            of,
            kubeconfig,
        })
    }

    /// Passes the worlds to a measurement, and removes its objects from an external server whether
    /// the measurement succeeds, fails, panics or is interrupted. A second interrupt during the
    /// removal leaves the remaining objects and names them.
    pub(crate) async fn lend<T>(
        mut self,
        stops: &mut Stops,
        measure: impl AsyncFnOnce(&mut Self) -> BenchResult<T>,
    ) -> BenchResult<T> {
        let measured = tokio::select! {
            measured = AssertUnwindSafe(measure(&mut self)).catch_unwind() => {
                measured.unwrap_or_else(|_| Err("a measurement panicked".into()))
            }
            Some(()) = stops.recv() => Err("interrupted".into()),
        };
        let Self::Foreign(mut cluster) = self else {
            return measured;
        };
        progress("removing created objects from the server; an interrupt leaves them there");
        let removed = tokio::select! {
            removed = cluster.end() => removed,
            Some(()) = stops.recv() => Err(cluster.leftovers_error("interrupted")),
        };
        match (measured, removed) {
            (Err(problem), Err(left)) => Err(format!("{problem}\n{left}").into()),
            (measured, Ok(())) => measured,
            (Ok(_), Err(left)) => Err(left),
        }
    }
}

impl World {
    /// Returns the namespace to read; `None` for all namespaces.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match &self.side {
            Side::Own { .. } => None,
            Side::Foreign(namespace) => Some(namespace.name()),
        }
    }

    /// Creates objects up to this number.
    pub(crate) async fn grow(&mut self, to: u64) -> BenchResult<()> {
        progress(format!("more {}, {to} in all", self.of.resource()));
        match &mut self.side {
            Side::Own { actor, .. } => {
                let _objects: u64 = actor.request(&Order::Grow { to }).await?;
                Ok(())
            }
            Side::Foreign(namespace) => namespace.grow(to).await,
        }
    }

    pub(crate) async fn order<T: DeserializeOwned>(&mut self, order: Order) -> BenchResult<T> {
        match &mut self.side {
            Side::Own { actor, .. } => actor.request(&order).await,
            Side::Foreign(_) => Err("an external server takes no orders".into()),
        }
    }

    pub(crate) async fn end(self) -> BenchResult<()> {
        match self.side {
            Side::Own { actor, .. } => actor.end().await,
            Side::Foreign(namespace) => {
                // The removal is retried at the end of the program.
                if let Err(problem) = namespace.remove().await {
                    progress(problem);
                }
                Ok(())
            }
        }
    }
}
