//! Driver: the state that all handles of one client share (cache, client configuration, options), and the requests that
//! several of the handles send.

pub(crate) mod apply;

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{Api, ClientConfig, Mapper, kube_client};
use steersman_cache::Cache;
use steersman_cache::internal::CacheInternals as _;
use steersman_object::{Kind, ListOptions, Object, ObjectKey};
use tokio::sync::OnceCell;

use crate::applied::{AppliedIntents, IntentKey};
use crate::ensure::{EnsurePlan, Ensured};
use crate::error::Error;
use crate::field_manager;
use crate::options::{ClientOptions, OptimisticLock};
use crate::own_writes::unseen_writes::{Note, Read, WriterHash};
use crate::own_writes::write_tracker::{RequiredWrites, Unstored, WaitOutcome, WriteTracker};
use crate::patch::change::{ChangedPart, PatchMode, check_version, is_of_another};
use crate::send::RequestSender;
use crate::wait_observer::WaitCause;
use crate::write::RequestId;

/// The state of a client. Its other handles, such as [`Live`](crate::Live), hold it, too. Cheap to clone; clones share
/// the connection to the server.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Shared {{ endpoint: {:?}, options: {:?}, .. }}",
    inner.client_config.endpoint(), sender.options
)]
pub(crate) struct SharedClient {
    inner: Arc<ClientState>,
    sender: RequestSender,
}

struct ClientState {
    cache: Cache,
    client_config: ClientConfig,
    transport: OnceCell<kube_client::Client>,
    applied: Mutex<AppliedIntents>,
    /// Hashes the field managers and options of applies, so that an apply that equals the last apply is recognized.
    intent_key: IntentKey,
}

impl SharedClient {
    pub(crate) fn new(cache: Cache, client_config: ClientConfig, options: ClientOptions) -> Self {
        let mapper = Mapper::new(client_config.clone());
        // CLIENT-12: informers must know the field managers before they list, because they keep a digest of the fields
        // that each of these managers has applied to an object.
        cache.note_field_manager(&client_config.program());
        if let Some(manager) = options.given_field_manager() {
            cache.note_field_manager(manager);
        }
        let own = Arc::new(WriteTracker::new(cache.clone()));
        let host = Arc::from(client_config.host());
        let inner = ClientState {
            cache,
            client_config,
            transport: OnceCell::new(),
            applied: Mutex::default(),
            intent_key: IntentKey::default(),
        };
        let options = Arc::new(options);
        Self {
            inner: Arc::new(inner),
            sender: RequestSender {
                options,
                mapper,
                request: None,
                writer: None,
                own,
                host,
                in_flight: Arc::default(),
            },
        }
    }

    pub(crate) fn with_options(&self, options: ClientOptions) -> Self {
        let mut other = self.clone();
        other.sender.options = Arc::new(options);
        other
    }

    pub(crate) fn with_request(&self, request: RequestId) -> Self {
        let mut other = self.clone();
        other.sender.writer = Some(WriterHash::of(Some(&request)));
        other.sender.request = Some(request);
        other
    }

    pub(crate) fn counting_within(&self, whole: &Self) -> Self {
        let mut other = self.clone();
        other.sender.in_flight = whole.sender.in_flight.part();
        other
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    pub(crate) fn client_config(&self) -> &ClientConfig {
        &self.inner.client_config
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.sender.options
    }

    pub(crate) fn sender(&self) -> &RequestSender {
        &self.sender
    }

    /// Returns false if no remembered write can concern a read of an object of this name. Takes no lock (RYOW-11).
    pub(crate) fn may_owe(&self, name: &str) -> bool {
        let reader = self.sender.reader();
        reader.is_some_and(|reader| self.sender.own.may_owe(reader, Some(name)))
    }

    /// Returns whether a read has to wait for a write, or to ask the server about a write.
    pub(crate) fn owes(&self, kind: &Kind, read: Read<'_>) -> bool {
        let reader = self.sender.reader();
        reader.is_some_and(|reader| self.sender.own.owes(reader, kind.gvk(), read))
    }

    /// Returns the writes that the cache must show to a read, and the writes that the server must be asked about first.
    pub(crate) fn owed(&self, kind: &Kind, read: Read<'_>) -> RequiredWrites {
        let sender = &self.sender;
        let owed = |reader| sender.own.owed(&sender.options, reader, kind, read);
        sender.reader().map(owed).unwrap_or_default()
    }

    /// Waits until the cache has seen the writes in `notes`, at most for [`ClientOptions::own_write_wait`].
    pub(crate) async fn wait(&self, kind: &Kind, read: Read<'_>, notes: Vec<Note>) -> WaitOutcome {
        let sender = &self.sender;
        if notes.is_empty() {
            return WaitOutcome::Cache(Vec::new());
        }
        let key = match read {
            Read::Object(key) => Some(key),
            Read::List(_) => None,
        };
        let _observed = sender.observe(WaitCause::OwnWrites, kind, key);
        sender.own.wait(&sender.options, kind, read, notes).await
    }

    /// Returns whether a result that was read after [`wait`](Self::wait) is valid. The `unstored` objects are absent on
    /// the server; if the cache has not advanced since the wait, the result shows none of these objects.
    pub(crate) fn still_hold(&self, kind: &Kind, unstored: &[Unstored]) -> bool {
        self.sender.own.still_hold(kind.gvk(), unstored)
    }

    /// Sends the request that the closure `question` makes; sends it again if the server names a time (`Retry-After`).
    pub(crate) async fn read_live<T, F>(
        &self,
        kind: &Kind,
        key: Option<&ObjectKey>,
        question: impl Fn(kube_client::Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, steersman_api::Error>>,
    {
        let client = self.transport().await?;
        let ask = || question(client.clone());
        Ok(self.sender.read(kind, key, ask).await?)
    }

    /// Returns the field manager of an apply. The server requires one, so without a field manager of the client this is
    /// the name that the server derives from the program's `User-Agent` for other writes.
    pub(crate) fn manager(&self) -> String {
        let given = self.options().field_manager.clone();
        given.unwrap_or_else(|| field_manager::of_program(&self.client_config().program()))
    }

    /// Returns the list options of a request to the server, with the client's namespace filled in if they name no
    /// namespace.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] if the list options name an index.
    pub(crate) fn live_options<'a>(
        &self,
        kind: &Kind,
        list_options: &'a ListOptions,
    ) -> Result<Cow<'a, ListOptions>, Error> {
        if let Some((index, _)) = list_options.selected_indexes().first() {
            return Err(Error::IndexNeedsCache {
                kind: kind.clone(),
                index: index.clone(),
            });
        }
        self.options().list_in_namespace(kind, list_options)
    }

    /// Returns the request methods of one kind. The first call makes the transport, in the runtime of the caller.
    pub(crate) async fn api<K: Object>(&self, kind: &Kind) -> Result<Api<K>, Error> {
        let api = Api::new(self.transport().await?, kind.clone());
        Ok(api.request_timeout(self.options().request_timeout))
    }

    pub(crate) async fn create<K: Object>(&self, kind: &Kind, object: &K) -> Result<K, Error> {
        let object = self.options().object_in_namespace(kind, object)?;
        let api = self.api::<K>(kind).await?;
        let request = api.create_request(&object, &self.options().write())?;
        let created = self.sender.write(kind, request).await;
        created.map_err(|source| match self.cache().scoped_by(kind) {
            Some(scoped_by) if source.is_already_exists() => Error::Hidden {
                key: object.key(),
                kind: kind.clone(),
                scoped_by,
                source: Box::new(source),
            },
            _ => Error::Api(source),
        })
    }

    /// Replaces an object or its status by `object`, unless the object on the server has another resource version.
    pub(crate) async fn replace<K: Object>(
        &self,
        kind: &Kind,
        object: &K,
        part: ChangedPart,
    ) -> Result<K, Error> {
        // CLIENT-6: the transform of a kind may have removed fields from `object`, and a replacement would remove these
        // fields on the server. The object does not show that, so no object of the kind is replaced.
        if let Some(transform) = self.cache().transformed(kind) {
            return Err(Error::Transformed {
                kind: kind.clone(),
                key: object.key(),
                transform,
            });
        }
        check_version(kind, object)?;
        let object = self.options().object_in_namespace(kind, object)?;
        let (api, options) = (self.api::<K>(kind).await?, self.options().write());
        let key = object.key();
        let request = match part {
            ChangedPart::Object | ChangedPart::WithoutStatus => {
                api.update_request(&object, &options)?
            }
            ChangedPart::Status => api.update_status_request(&*object, &options)?,
        };
        let answer = self.sender.write(kind, request).await;
        answer.map_err(|refused| match is_of_another(&refused) {
            true => Error::Replaced {
                kind: kind.clone(),
                key,
            },
            false => without_status(Error::Api(refused), kind, key, part),
        })
    }

    /// Changes an existing object: sends the difference that `mutate` makes in a copy of it.
    pub(crate) async fn change<K: Object>(
        &self,
        kind: &Kind,
        object: &K,
        lock: OptimisticLock,
        part: ChangedPart,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let object = self.options().object_in_namespace(kind, object)?;
        let api = self.api::<K>(kind).await?;
        let plan = self.plan(&api, kind, lock, part);
        let changed = Box::pin(plan.modify(&object, mutate)).await;
        changed.map_err(|refused| without_status(refused, kind, object.key(), part))
    }

    /// Changes `before` into `after`: sends their difference in one request.
    pub(crate) async fn merge<K: Object>(
        &self,
        kind: &Kind,
        before: &K,
        after: &K,
        part: ChangedPart,
    ) -> Result<Ensured<K>, Error> {
        let lock = self.options().lock;
        let api = self.api::<K>(kind).await?;
        let plan = self.plan(&api, kind, lock, part);
        let mut become_it = |object: &mut K| object.clone_from(after);
        let merged = Box::pin(plan.once(before, &mut become_it)).await;
        merged.map_err(|refused| without_status(refused, kind, before.key(), part))
    }

    /// Creates an object, or changes the existing object; `present` is the existing object as it was read, and `None`
    /// if the object is absent.
    pub(crate) async fn ensure<K: Object>(
        &self,
        kind: &Kind,
        initial: &K,
        present: Option<Arc<K>>,
        part: ChangedPart,
        mutate: &mut (dyn FnMut(&mut K) + Send),
    ) -> Result<Ensured<K>, Error> {
        let initial = self.options().object_in_namespace(kind, initial)?;
        let api = self.api::<K>(kind).await?;
        let plan = self.plan(&api, kind, self.options().lock, part);
        plan.ensure(&initial, present, mutate).await
    }

    fn plan<'a, K: Object>(
        &'a self,
        api: &'a Api<K>,
        kind: &'a Kind,
        lock: OptimisticLock,
        part: ChangedPart,
    ) -> EnsurePlan<'a, K> {
        let strategic = self.options().strategic;
        EnsurePlan {
            api,
            sender: &self.sender,
            kind,
            mode: PatchMode {
                part,
                lock,
                strategic,
            },
        }
    }

    async fn transport(&self) -> Result<kube_client::Client, Error> {
        let connect = || self.inner.client_config.connect();
        Ok(self.inner.transport.get_or_try_init(connect).await?.clone())
    }
}

/// CLIENT-8: turns the server's answer that the kind has no status subresource (404) into [`Error::NoStatus`]. Returns
/// other errors unchanged.
fn without_status(refused: Error, kind: &Kind, key: ObjectKey, part: ChangedPart) -> Error {
    match refused {
        Error::Api(refused) if part == ChangedPart::Status && refused.is_kind_not_served() => {
            Error::NoStatus {
                kind: kind.clone(),
                key,
                source: Some(Box::new(refused)),
            }
        }
        refused => refused,
    }
}
