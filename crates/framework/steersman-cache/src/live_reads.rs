//! Driver: reads the objects in the scope of an informer from the API server, for reads that must not wait for the
//! informer.

use std::sync::Arc;

use steersman_api::{
    ApiListWatch, Decoded, Error as ApiError, ListPage, PageRequest, Paging, Projection, RawObject,
    decode_raw_object, kube_client,
};
use steersman_informer::UntypedInformer;
use steersman_object::{FieldSelector, Kind, Object, ObjectKey, ResourceVersion};

use crate::error::Error;
use crate::settings::Settings;

/// The number of objects in one page, as in the lists of informers.
const PAGE: u32 = 500;

/// Reads from the API server in the scope of one informer: its namespace, its selectors and its transform.
///
/// RYOW-6: the requests need only the permissions of the informer. One object is read by a list of its name: for this
/// list kube-apiserver looks up the key (apiserver, `SelectionPredicate.MatchesSingle`).
///
/// # Cancel safety
///
/// Every read is cancel safe.
#[derive(Debug)]
pub struct LiveReads {
    pub(crate) untyped: UntypedInformer,
    pub(crate) namespace: Option<String>,
    pub(crate) settings: Settings,
}

/// The identity and the version of an object on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveIdentity {
    /// The key of the object. The name in the key is empty if the server's answer has no readable name.
    pub key: ObjectKey,
    /// The uid of the object. An object that is created again under its name has another uid.
    pub uid: String,
    /// The resource version of the object in the server's answer.
    pub version: ResourceVersion,
}

/// The objects of a list by the server. At the version of the list, there was no other object of the requested names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveList {
    /// The objects that the informer would receive.
    pub objects: Vec<LiveIdentity>,
    /// The resource version at which the server listed the objects.
    pub version: ResourceVersion,
}

/// An object on the server, and the result of a cached read of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct LiveObject<K> {
    /// The result of a list by the object's name: unlike a get, a list that finds nothing has a resource version too.
    pub list: LiveList,
    /// The result that [`Cache::get`](crate::Cache::get) would return: the transformed object, or the error.
    pub object: Result<Arc<K>, Error>,
}

impl LiveReads {
    /// Returns the informer with the same namespace and selectors as these reads.
    pub fn untyped(&self) -> &UntypedInformer {
        &self.untyped
    }

    /// Reads the object with this name from the server, with the result that a cached read of it would have.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn object<K: Object>(
        &self,
        client: kube_client::Client,
        name: &str,
    ) -> Result<LiveObject<K>, ApiError> {
        let mut page = self.list(client, self.named(name)).await?;
        self.keep_named(&mut page, name);
        let (list, kind) = (LiveList::of(&page), self.kind());
        let Some(arrived) = page.items.pop() else {
            let not_found = Error::NotFound {
                kind: kind.clone(),
                key: self.key(name),
                scoped_by: self.settings.scoped_by(),
            };
            let object = Err(not_found);
            return Ok(LiveObject { list, object });
        };
        let object = self.decode(arrived);
        Ok(LiveObject { list, object })
    }

    /// Returns an object from the body of another answer of the server, such as the answer to a write, as
    /// [`Cache::get`](crate::Cache::get) would return it: transformed, or the error. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`].
    pub fn answered<K: Object>(&self, body: &[u8]) -> Result<Arc<K>, Error> {
        let keep_managed_fields = self.settings.keeps_managed_fields();
        self.decode(decode_raw_object(self.kind(), keep_managed_fields, body))
    }

    fn decode<K: Object>(&self, arrived: Decoded<RawObject>) -> Result<Arc<K>, Error> {
        let object = self.untyped.decode_foreign(arrived);
        object.map_err(|malformed| Error::malformed(self.kind(), malformed))
    }

    /// Lists the metadata of the object with this name: its identity, or an empty list if the object is absent.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn identity(
        &self,
        client: kube_client::Client,
        name: &str,
    ) -> Result<LiveList, ApiError> {
        let mut page = self.metadata(client, self.named(name)).await?;
        self.keep_named(&mut page, name);
        Ok(LiveList::of(&page))
    }

    /// Lists the metadata of every object that the informer would receive.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn identities(&self, client: kube_client::Client) -> Result<LiveList, ApiError> {
        let mut request = self.everything();
        request.paging = Paging::new().page_size(PAGE);
        Ok(LiveList::of(&self.metadata(client, request).await?))
    }

    async fn metadata(
        &self,
        client: kube_client::Client,
        mut request: PageRequest,
    ) -> Result<ListPage<RawObject>, ApiError> {
        request.projection = Projection::Metadata;
        self.list(client, request).await
    }

    async fn list(
        &self,
        client: kube_client::Client,
        request: PageRequest,
    ) -> Result<ListPage<RawObject>, ApiError> {
        let list_watch = ApiListWatch::new(client, self.kind().clone(), self.namespace.clone())
            .keep_managed_fields(self.settings.keeps_managed_fields());
        list_watch.list_all(request).await
    }

    fn everything(&self) -> PageRequest {
        let settings = &self.settings;
        let mut request = PageRequest::default();
        request.labels = settings.sent_labels().map(Into::into);
        request.fields = settings.sent_fields().map(Into::into);
        request
    }

    /// Returns the request for the object with this name under the informer's selectors.
    fn named(&self, name: &str) -> PageRequest {
        let name = FieldSelector::new().equals("metadata.name", name);
        let mut request = self.everything();
        request.fields = Some(match &request.fields {
            // RBAC for single names checks the first name in the selector, so the informer's own selector comes first.
            Some(fields) => format!("{fields},{name}"),
            None => name.into(),
        });
        request
    }

    /// Removes objects with other names from a page, because not every server applies the field selector. Keeps objects
    /// with an unreadable name, because each may be the requested object (CACHE-4).
    fn keep_named(&self, page: &mut ListPage<RawObject>, name: &str) {
        let key = self.key(name);
        page.items.retain(|arrived| {
            let arrived = key_of(arrived);
            *arrived == key || arrived.name().is_empty()
        });
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_deref().unwrap_or_default(), name)
    }

    fn kind(&self) -> &Kind {
        self.untyped.kind()
    }
}

impl LiveList {
    fn of(page: &ListPage<RawObject>) -> Self {
        Self {
            objects: page.items.iter().map(LiveIdentity::of).collect(),
            version: page.version.clone(),
        }
    }
}

impl LiveIdentity {
    fn of(arrived: &Decoded<RawObject>) -> Self {
        let (uid, version) = match arrived {
            Decoded::Good(object) => (&object.head().uid, &object.head().version),
            Decoded::Malformed(object) => (&object.uid, &object.version),
        };
        Self {
            key: key_of(arrived).clone(),
            uid: uid.clone(),
            version: version.clone(),
        }
    }
}

fn key_of(arrived: &Decoded<RawObject>) -> &ObjectKey {
    match arrived {
        Decoded::Good(object) => &object.head().key,
        Decoded::Malformed(object) => &object.key,
    }
}
