//! Driver: asks a server for its kinds on demand.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use parking_lot::Mutex;
use steersman_object::{Gvk, Gvr, Kind, json_error_position};
use tokio::sync::OnceCell;

use super::document::{self, DiscoveryIndex, GroupDocument, ServedResource, VersionDocument};
use super::table::KindTable;
use crate::client_config::ClientConfig;
use crate::error::{Error, Status};
use crate::request::transport::{Accept, ApiCall};
use crate::request::url::Url;
use crate::request_info::RequestInfo;

const JSON: &str = "application/json";
/// Accepts the aggregated document of all groups or, from a server without it, the list of groups.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";
/// The number of groups that are requested at a time.
const AT_ONCE: usize = 8;

/// Finds the kinds that a server serves, with their plurals. Discovery documents are read on demand and kept.
///
/// Making a mapper does no I/O. A kind costs one request for the document of its group and version, even if many tasks
/// ask at the same time. A missing kind is not remembered: the next lookup reads the document again, and so finds a new
/// definition. Other results are kept until they are [forgotten](Self::forget), which the client does when a server
/// answers that it does not serve a kind. A group with a server that is down is an error of that group alone.
///
/// Cheap to clone; clones share the documents.
///
/// ```
/// use steersman_api::{ClientConfig, Mapper};
/// use steersman_apiserver::ApiServer;
/// use steersman_object::Gvk;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steersman_api::Error> {
/// # let server = ApiServer::new();
/// let mapper = Mapper::new(ClientConfig::in_process(server.service(), "default"));
/// let ingresses = mapper.kind(&Gvk::new("networking.k8s.io", "v1", "Ingress")).await?;
/// assert_eq!((ingresses.plural(), ingresses.is_namespaced()), ("ingresses", true));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every method is cancel safe.
#[derive(Clone, derive_more::Debug)]
#[debug("Mapper {{ client_config: {:?}, .. }}", inner.connection)]
pub struct Mapper {
    inner: Arc<MapperState>,
}

struct MapperState {
    connection: ClientConfig,
    client: OnceCell<kube_client::Client>,
    table: Mutex<KindTable>,
    /// The documents that are being read. All tasks that need the same document wait for one request.
    reading: Mutex<HashMap<String, Reading>>,
}

type Reading = Arc<OnceCell<Result<(), Error>>>;

/// All kinds that a server serves.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServedKinds {
    /// The kinds that could be read, in the server's order of groups and versions.
    pub served: Vec<ServedResource>,
    /// The groups and versions (`apps/v1`) that could not be read, with their errors.
    pub failed: Vec<(String, Error)>,
}

impl Mapper {
    /// Makes a mapper that asks the server of `connection`.
    pub fn new(connection: ClientConfig) -> Self {
        Self {
            inner: Arc::new(MapperState {
                connection,
                client: OnceCell::new(),
                table: Mutex::default(),
                reading: Mutex::default(),
            }),
        }
    }

    /// Finds the kind of this group, version and name, with its plural and scope.
    ///
    /// # Errors
    ///
    /// [`Error::KindNotServed`] if the server does not serve it; any other [`Error`] of the request.
    pub async fn kind(&self, gvk: &Gvk) -> Result<Kind, Error> {
        Ok(self.served(gvk).await?.kind)
    }

    /// Finds a kind as [`kind`](Self::kind) does, with its names, verbs and subresources.
    ///
    /// # Errors
    ///
    /// As [`kind`](Self::kind).
    pub async fn served(&self, gvk: &Gvk) -> Result<ServedResource, Error> {
        let find = |table: &KindTable| table.by_kind(gvk);
        self.find(gvk.group(), gvk.version(), &gvk.to_string(), find)
            .await
    }

    /// Finds the kind with this plural.
    ///
    /// # Errors
    ///
    /// As [`kind`](Self::kind).
    pub async fn kind_of_resource(&self, gvr: &Gvr) -> Result<Kind, Error> {
        let find = |table: &KindTable| table.by_plural(gvr.group(), gvr.version(), gvr.resource());
        let served = self
            .find(gvr.group(), gvr.version(), &gvr.to_string(), find)
            .await?;
        Ok(served.kind)
    }

    /// Finds a kind in the version that the server prefers among the versions that have the kind.
    ///
    /// # Errors
    ///
    /// As [`kind`](Self::kind); an unreadable version is skipped if another version has the kind.
    pub async fn preferred(&self, group: &str, kind: &str) -> Result<Kind, Error> {
        let known = self.inner.table.lock().versions_of(group);
        let (versions, fresh) = match known {
            Some(versions) => (versions, false),
            None => (self.read_group(group).await?, true),
        };
        match self.first_of(group, &versions, kind).await {
            Ok(found) => Ok(found),
            // The group is read again, because a version may have been added since.
            Err(error) if error.is_kind_not_served() && !fresh => {
                let versions = self.read_group(group).await?;
                self.first_of(group, &versions, kind).await
            }
            Err(error) => Err(error),
        }
    }

    /// Finds all kinds that the server serves: with two requests if it has aggregated discovery, otherwise with one
    /// request per group and version. The documents are kept.
    ///
    /// # Errors
    ///
    /// Any [`Error`] of the list of groups. The errors of single groups are in the result.
    pub async fn everything(&self) -> Result<ServedKinds, Error> {
        let mut versions = Vec::new();
        for path in ["/api", "/apis"] {
            let body = self.fetch(path.to_owned(), AGGREGATED).await?;
            let index = document::index(&body).map_err(|error| unreadable(path, &error))?;
            let (groups, known) = match index {
                DiscoveryIndex::Aggregated(groups, known) => (groups, known),
                DiscoveryIndex::Groups(groups) => {
                    let known = groups.iter().flat_map(GroupDocument::unknown).collect();
                    (groups, known)
                }
            };
            let mut table = self.inner.table.lock();
            for group in groups {
                table.note_group(group);
            }
            for version in &known {
                table.note_version(version.clone());
            }
            versions.extend(known);
        }
        let mut read = stream::iter(versions)
            .map(|version| self.complete(version))
            .buffered(AT_ONCE);
        let (mut served, mut failed) = (Vec::new(), Vec::new());
        while let Some((name, answer)) = read.next().await {
            match answer {
                Ok(some) => served.extend(some),
                Err(error) => failed.push((name, error)),
            }
        }
        Ok(ServedKinds { served, failed })
    }

    /// Forgets all versions of a group.
    pub fn forget(&self, group: &str) {
        self.inner.table.lock().forget(group);
    }

    async fn first_of(&self, group: &str, versions: &[String], kind: &str) -> Result<Kind, Error> {
        let mut failed = None;
        for version in versions {
            match self.kind(&Gvk::new(group, version, kind)).await {
                Ok(kind) => return Ok(kind),
                Err(error) if error.is_kind_not_served() => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let what = Gvk::new(group, "*", kind).to_string();
        Err(failed.unwrap_or_else(|| not_served(&what, "no version of the group has it")))
    }

    /// Looks up a kind; if its document is missing, reads the document and looks up the kind again.
    async fn find(
        &self,
        group: &str,
        version: &str,
        what: &str,
        find: impl Fn(&KindTable) -> Option<ServedResource>,
    ) -> Result<ServedResource, Error> {
        let known = find(&self.inner.table.lock());
        if let Some(served) = known {
            return Ok(served);
        }
        match self.read_version(group, version).await {
            Ok(()) => {}
            Err(error) if error.is_kind_not_served() => {
                let because = "the server does not serve this version of the group";
                return Err(not_served(what, because));
            }
            Err(error) => return Err(error),
        }
        let found = find(&self.inner.table.lock());
        found.ok_or_else(|| not_served(what, "this version of the group is served without it"))
    }

    async fn complete(
        &self,
        version: VersionDocument,
    ) -> (String, Result<Vec<ServedResource>, Error>) {
        let name = group_version(&version.group, &version.version);
        if let Some(served) = version.served {
            return (name, Ok(served));
        }
        let path = path_of(&version.group, &version.version);
        let answer = match self.fetch(path, JSON).await {
            Ok(body) => document::version(&version.group, &version.version, &body)
                .map_err(|error| unreadable(&name, &error)),
            Err(error) => Err(error),
        };
        if let Ok(served) = &answer {
            self.inner.table.lock().note_version(VersionDocument {
                served: Some(served.clone()),
                ..version
            });
        }
        (name, answer)
    }

    async fn read_version(&self, group: &str, version: &str) -> Result<(), Error> {
        let path = path_of(group, version);
        let read = async {
            let body = self.fetch(path.clone(), JSON).await;
            let mut table = self.inner.table.lock();
            let body = body.inspect_err(|error| {
                // The server may have removed the version, so the whole group is forgotten.
                if error.is_kind_not_served() {
                    table.forget(group);
                }
            })?;
            let served = document::version(group, version, &body)
                .map_err(|error| unreadable(&path, &error))?;
            table.note_version(VersionDocument {
                group: group.to_owned(),
                version: version.to_owned(),
                served: Some(served),
            });
            Ok(())
        };
        self.once(&path, read).await
    }

    async fn read_group(&self, group: &str) -> Result<Vec<String>, Error> {
        let path = match group {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        let read = async {
            let body = match self.fetch(path.clone(), JSON).await {
                Err(error) if error.is_kind_not_served() => {
                    return Err(not_served(group, "the server has no such group"));
                }
                answer => answer?,
            };
            let groups = match group {
                "" => match document::index(&body) {
                    Ok(DiscoveryIndex::Groups(groups) | DiscoveryIndex::Aggregated(groups, _)) => {
                        groups
                    }
                    Err(error) => return Err(unreadable(&path, &error)),
                },
                _ => vec![document::group(&body).map_err(|error| unreadable(&path, &error))?],
            };
            let mut table = self.inner.table.lock();
            for group in groups {
                table.note_group(group);
            }
            Ok(())
        };
        self.once(&path, read).await?;
        let versions = self.inner.table.lock().versions_of(group);
        Ok(versions.unwrap_or_default())
    }

    /// Runs `read`, or waits for the task that reads the same document.
    async fn once(
        &self,
        path: &str,
        read: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        let reading = {
            let mut all = self.inner.reading.lock();
            Arc::clone(all.entry(path.to_owned()).or_default())
        };
        let answer = reading.get_or_init(|| read).await.clone();
        let mut all = self.inner.reading.lock();
        // The finished read is removed, so that a later lookup reads the document again.
        let kept = all.get(path);
        if kept.is_some_and(|kept| Arc::ptr_eq(kept, &reading)) {
            all.remove(path);
        }
        answer
    }

    async fn fetch(&self, path: String, accept: &'static str) -> Result<bytes::Bytes, Error> {
        let connect = || self.inner.connection.connect();
        let client = self.inner.client.get_or_try_init(connect).await?;
        let mut call = ApiCall::get(RequestInfo::of_document("read", &path), Url::path(path));
        call.accept = Accept::only(accept);
        Ok(call.fetch(client).await?.1)
    }
}

impl GroupDocument {
    /// Returns the versions of a group without their kinds, which are read later.
    fn unknown(&self) -> impl Iterator<Item = VersionDocument> + '_ {
        self.versions.iter().map(|version| VersionDocument {
            group: self.name.clone(),
            version: version.clone(),
            served: None,
        })
    }
}

fn path_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> Error {
    let info = RequestInfo::of_document("read", what);
    Error::decode(&info, json_error_position(error))
}

fn not_served(what: &str, because: &str) -> Error {
    let status = Status {
        code: 404,
        reason: "NotFound".to_owned(),
        message: because.to_owned(),
        ..Status::default()
    };
    Error::from_status(RequestInfo::of_document("find", what), status, None)
}
