//! Handle: the typed verbs of one kind, answered by the API server.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use steersman_object::{Kind, ListOptions, Object, ObjectKey, TypedObject, WholeObject};

use crate::decode::AnswerDecoder;
use crate::decode::bodies::PageBody;
use crate::error::Error;
use crate::event::ListPage;
use crate::options::{DeleteOptions, PageRequest, Paging, Patch, Projection, WriteOptions};
use crate::pages;
use crate::request::transport::{AnswerForms, ApiCall, DEFAULT_REQUEST_TIMEOUT, next_chunk};
use crate::request::url::Url;
use crate::request_info::RequestInfo;

mod requests;

/// The typed verbs of one kind. Each call is one request; a long list is one request per page.
///
/// The kind is a value, so that dynamic and typed kinds use the same code. Cheap to clone. No request is repeated.
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use steersman_api::{Api, ClientConfig};
/// use steersman_apiserver::ApiServer;
/// use steersman_object::ObjectKey;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), steersman_api::Error> {
/// let server = ApiServer::builder().build();
/// let connection = ClientConfig::in_process(server.service(), "default");
/// let namespaces = Api::<Namespace>::typed(connection.client()?);
/// let missing = namespaces.get(&ObjectKey::cluster_scoped("nowhere")).await.unwrap_err();
/// assert!(missing.is_not_found());
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future of a write leaves open whether the server executes the write.
#[derive(Clone, derive_more::Debug)]
#[debug("Api {{ kind: {kind:?}, .. }}")]
pub struct Api<K> {
    client: kube_client::Client,
    kind: Kind,
    decoder: AnswerDecoder,
    limit: Duration,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Api<K> {
    /// Makes the verbs for objects of `kind`.
    pub fn new(client: kube_client::Client, kind: Kind) -> Self {
        Self {
            client,
            decoder: AnswerDecoder::new(kind.clone(), false).metadata_only(K::metadata_api()),
            kind,
            limit: DEFAULT_REQUEST_TIMEOUT,
            of: PhantomData,
        }
    }

    /// Sets the time limit until the server begins to answer a request: [`DEFAULT_REQUEST_TIMEOUT`] by default. Zero
    /// and `Duration::MAX` mean no limit.
    ///
    /// A request past the limit fails with [`Error::Transport`]. An answer that has begun fails if it pauses for 30
    /// s.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Reads an object. For a `PartialObjectMeta`, the server sends metadata only.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the object is absent; any other [`Error`].
    pub async fn get(&self, key: &ObjectKey) -> Result<K, Error> {
        let (info, url) = self.object("get", key)?;
        let mut call = self.asking(info, url);
        call.accept = AnswerForms::OBJECT.of(Projection::of::<K>(), &self.kind);
        self.one(call).await
    }

    /// Reads an object; returns `None` if it is absent.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but [`Error::NotFound`].
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        match self.get(key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns one page of the selected objects.
    ///
    /// # Errors
    ///
    /// [`Error::Expired`] if the continue token is too old, [`Error::InvalidRequest`] if the list options name an
    /// index, or any other [`Error`].
    pub async fn list(
        &self,
        list_options: &ListOptions,
        paging: &Paging,
    ) -> Result<ListPage<K>, Error> {
        let request = PageRequest::of(list_options, paging);
        self.page(list_options, &request).await
    }

    async fn page(
        &self,
        list_options: &ListOptions,
        request: &PageRequest,
    ) -> Result<ListPage<K>, Error> {
        let (info, url) = self.selected("list", list_options)?;
        let mut call = self.asking(info, url.list(request));
        call.accept = AnswerForms::LIST.of(Projection::of::<K>(), &self.kind);
        let answered = call.send(&self.client).await?;
        let (info, mut body) = (answered.info, answered.response.into_body());
        let mut page = PageBody::new(self.decoder.clone(), info.clone(), answered.negotiated);
        let mut items = Vec::new();
        while let Some(chunk) = next_chunk(&info, &mut body).await? {
            page.push(chunk);
            while let Some(item) = page.next_object()? {
                items.push(item);
            }
        }
        Ok(ListPage::of(items, page.finish()?))
    }

    /// Returns all selected objects at one version, as one page.
    ///
    /// If the continue token expires between two pages, the list is requested once more, in a single page and at the
    /// newest version, because the requested version has expired, too.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn list_all(
        &self,
        list_options: &ListOptions,
        paging: &Paging,
    ) -> Result<ListPage<K>, Error> {
        let first = PageRequest::of(list_options, paging);
        let ask = |request| async move { self.page(list_options, &request).await };
        pages::all(first, list_options.selected_limit(), ask).await
    }

    /// Creates an object. If the object has a `generateName`, the server generates the name.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`], [`Error::Invalid`], or any other [`Error`].
    pub async fn create<By>(&self, object: &K, options: &WriteOptions) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        Ok(self.create_request(object, options)?.send().await?.value)
    }

    /// Replaces an object. If its metadata has a resource version, this version must be the current one.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], [`Error::NotFound`], [`Error::Invalid`], or any other [`Error`].
    pub async fn update<By>(&self, object: &K, options: &WriteOptions) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        Ok(self.update_request(object, options)?.send().await?.value)
    }

    /// Replaces the status of an object, and no other part of it.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub async fn update_status<By>(&self, object: &K, options: &WriteOptions) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        let request = self.update_status_request(object, options)?;
        Ok(request.send().await?.value)
    }

    /// Patches an object.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Conflict`] (if the patch names another version, or another manager owns a field
    /// of an apply), [`Error::Invalid`], or any other [`Error`].
    pub async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<K, Error> {
        let request = self.patch_request(key, patch, options)?;
        Ok(request.send().await?.value)
    }

    /// Patches the status of an object, and no other part of it.
    ///
    /// # Errors
    ///
    /// As [`patch`](Self::patch).
    pub async fn patch_status(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<K, Error> {
        let request = self.patch_part_request(key, "status", patch, options)?;
        Ok(request.send().await?.value)
    }

    /// Deletes an object. Returns the object if finalizers still keep it, or if the server answers deletes of the kind
    /// with the object; `None` if the answer is a `Status`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Conflict`] if a precondition failed, or any other [`Error`].
    pub async fn delete(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Option<K>, Error> {
        Ok(self.delete_request(key, options)?.send().await?.value)
    }

    /// Deletes the selected objects in one request; returns the keys of the objects that the server names in its
    /// answer. For a namespaced kind the list options must name a namespace.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn delete_all(
        &self,
        list_options: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Vec<ObjectKey>, Error> {
        let request = self.delete_all_request(list_options, options)?;
        Ok(request.send().await?.value)
    }

    /// Reads a subresource as its own type, such as the subresource `scale` as a `Scale`.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn get_part<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<T, Error> {
        let (info, url) = self.object("get", key)?;
        let call = self.asking(info.part(subresource), url.sub(subresource));
        let (info, body) = call.fetch(&self.client).await?;
        requests::read_part(&info, &body)
    }

    /// Sends a review (SelfSubjectAccessReview, TokenReview and the like) and returns the server's answer. A review has
    /// no name, because it is never stored.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a review changes nothing.
    pub async fn review(&self, review: &K) -> Result<K, Error> {
        let (info, body) = self.review_call(review)?.fetch(&self.client).await?;
        requests::read_part(&info, &body)
    }

    fn object(&self, verb: &'static str, key: &ObjectKey) -> Result<(RequestInfo, Url), Error> {
        let info = RequestInfo::of_object(verb, &self.kind, key);
        let url = Url::object(&self.kind, key)
            .map_err(|problem| Error::invalid_request(info.clone(), problem))?;
        Ok((info, url))
    }

    fn selected(
        &self,
        verb: &'static str,
        list_options: &ListOptions,
    ) -> Result<(RequestInfo, Url), Error> {
        let namespace = list_options.selected_namespace();
        let namespace = namespace.filter(|_| self.kind.is_namespaced());
        let info = RequestInfo::of_collection(verb, &self.kind, namespace);
        if let Some((index, _)) = list_options.selected_indexes().first() {
            let problem = format!("only a cache can select by an index ({index:?})");
            return Err(Error::invalid_request(info, problem));
        }
        let url = Url::collection(&self.kind, namespace)
            .map_err(|problem| Error::invalid_request(info.clone(), problem))?;
        Ok((info, url))
    }

    fn asking(&self, info: RequestInfo, url: Url) -> ApiCall {
        ApiCall {
            limit: self.limit,
            ..ApiCall::get(info, url)
        }
    }

    async fn one(&self, call: ApiCall) -> Result<K, Error> {
        let (info, body) = call.fetch(&self.client).await?;
        requests::read_object(&self.decoder, &info, &body)
    }
}

impl<K: TypedObject> Api<K> {
    /// Makes the verbs of the kind that `K` names.
    pub fn typed(client: kube_client::Client) -> Self {
        Self::new(client, Kind::of::<K>())
    }
}
