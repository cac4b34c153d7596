//! Machine: builds the request of each writing verb, and reads its answer.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steersman_object::{ListOptions, Object, ObjectKey, json_error_position};

use super::Api;
use crate::decode::AnswerDecoder;
use crate::decode::raw;
use crate::error::{Error, parse_status};
use crate::event::Decoded;
use crate::options::{DeleteOptions, PageRequest, Paging, Patch, Projection, WriteOptions};
use crate::request::PreparedRequest;
use crate::request::answered_object::answered_object;
use crate::request::transport::{AnswerForms, ApiCall};
use crate::request::url::Url;
use crate::request_info::RequestInfo;

const JSON: &str = "application/json";

/// The verbs as requests, to be sent later or by another task.
impl<K: Object> Api<K> {
    /// Returns the request of [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the object lacks the namespace that its kind needs, or does not encode.
    pub fn create_request(
        &self,
        object: &K,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<K>, Error> {
        let key = object.key();
        let mut info = RequestInfo::of_object("create", &self.kind, &key);
        let generate_name = object.meta().generate_name.clone();
        info.generate_name = generate_name.filter(|_| key.name().is_empty());
        if self.kind.is_namespaced() && key.namespace().is_none() {
            let problem = "its metadata names no namespace";
            return Err(Error::invalid_request(info, problem));
        }
        let url = Url::collection(&self.kind, key.namespace())
            .map_err(|problem| Error::invalid_request(info.clone(), problem))?;
        let body = self.encode(&info, object)?;
        Ok(self.with_object(Method::POST, info, url.write(options), body))
    }

    /// Returns the request of [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the object has no key that fits its kind, names another kind (as metadata alone
    /// does), or does not encode.
    pub fn update_request(
        &self,
        object: &K,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<K>, Error> {
        let (info, url) = self.object("update", &object.key())?;
        let body = self.encode(&info, object)?;
        let named = answered_object(&body).map(|object| object.gvk);
        if let Some(other) = named.filter(|gvk| gvk != self.kind.gvk()) {
            let problem = format!("it calls itself {other}: send what is to change as a patch");
            return Err(Error::invalid_request(info, problem));
        }
        Ok(self.with_object(Method::PUT, info, url.write(options), body))
    }

    /// Returns the request of [`update_status`](Self::update_status).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the object has no key that fits its kind, or does not encode.
    pub fn update_status_request(
        &self,
        object: &K,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<K>, Error> {
        let (info, url) = self.part("update", &object.key(), "status")?;
        let body = self.encode(&info, object)?;
        Ok(self.with_object(Method::PUT, info, url.write(options), body))
    }

    /// Returns the request of [`patch`](Self::patch).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the key does not fit the kind.
    pub fn patch_request(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<K>, Error> {
        let (info, url) = self.object("patch", key)?;
        Ok(self.whole(patching(info, url, patch, options)))
    }

    /// Returns the request of [`delete`](Self::delete).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the key does not fit the kind.
    pub fn delete_request(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<PreparedRequest<Option<K>>, Error> {
        let (info, url) = self.object("delete", key)?;
        let body = options.to_json().to_string().into();
        let call = call(Method::DELETE, info, url, (JSON, body));
        let decoder = self.decoder.clone();
        let read = move |info: &RequestInfo, body: &Bytes| match parse_status(body) {
            Some(_) => Ok(None),
            None => read_object(&decoder, info, body).map(Some),
        };
        Ok(self.request(call, read))
    }

    /// Returns the request of [`delete_all`](Self::delete_all).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the list options name an index, or no namespace for a namespaced kind: the server
    /// deletes in one namespace at a time.
    pub fn delete_all_request(
        &self,
        list_options: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<PreparedRequest<Vec<ObjectKey>>, Error> {
        let (info, url) = self.selected("deletecollection", list_options)?;
        if self.kind.is_namespaced() && list_options.selected_namespace().is_none() {
            let problem = "collections are deleted in one namespace at a time, and none is named";
            return Err(Error::invalid_request(info, problem));
        }
        let url = url.list(&PageRequest::of(list_options, &Paging::new()));
        let body = options.to_json().to_string().into();
        let call = call(Method::DELETE, info, url, (JSON, body));
        Ok(self.request(call, read_keys))
    }

    /// Returns the request of a POST to a subresource: an eviction, a binding, a request for a token.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the key does not fit the kind, or the body does not encode.
    pub fn create_part_request<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<T>, Error> {
        let (info, url) = self.part("create", key, subresource)?;
        let body = encode(&info, body)?.into();
        let call = call(Method::POST, info, url.write(options), (JSON, body));
        Ok(self.other(call))
    }

    /// Returns the request of a PUT to a subresource.
    ///
    /// # Errors
    ///
    /// As [`create_part_request`](Self::create_part_request).
    pub fn update_part_request<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<T>, Error> {
        let (info, url) = self.part("update", key, subresource)?;
        let body = encode(&info, body)?;
        // A dynamic object may lack its kind, so the kind is added; a body of another kind names its own.
        let body = self.with_kind(body);
        let call = call(Method::PUT, info, url.write(options), (JSON, body.into()));
        Ok(self.other(call))
    }

    /// Returns the request of a PATCH of a subresource.
    ///
    /// # Errors
    ///
    /// As [`patch_request`](Self::patch_request).
    pub fn patch_part_request<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<PreparedRequest<T>, Error> {
        let (info, url) = self.part("patch", key, subresource)?;
        Ok(self.other(patching(info, url, patch, options)))
    }

    fn part(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<(RequestInfo, Url), Error> {
        let (info, url) = self.object(verb, key)?;
        Ok((info.part(subresource), url.sub(subresource)))
    }

    /// Returns a request with an object of the kind in its body; one of Kubernetes' own kinds may be sent in protobuf.
    fn with_object(
        &self,
        method: Method,
        info: RequestInfo,
        url: Url,
        object: Bytes,
    ) -> PreparedRequest<K> {
        let mut call = call(method, info, url, (JSON, object));
        call.object = Some(self.kind.clone());
        self.whole(call)
    }

    /// Returns a request that is answered with an object of the kind.
    fn whole(&self, mut call: ApiCall) -> PreparedRequest<K> {
        // Servers answer a write with the whole object.
        let projection = Projection::of::<K>().max(Projection::Whole);
        call.accept = AnswerForms::OBJECT.of(projection, &self.kind);
        let decoder = self.decoder.clone();
        self.request(call, move |info, body| read_object(&decoder, info, body))
    }

    /// Returns a request that is answered with another type.
    fn other<T: DeserializeOwned>(&self, call: ApiCall) -> PreparedRequest<T> {
        self.request(call, |info, body| read_part(info, body))
    }

    fn request<T>(
        &self,
        call: ApiCall,
        read: impl Fn(&RequestInfo, &Bytes) -> Result<T, Error> + Send + Sync + 'static,
    ) -> PreparedRequest<T> {
        PreparedRequest::new(self.client.clone(), call, read).request_timeout(self.limit)
    }

    pub(super) fn review_call(&self, review: &K) -> Result<ApiCall, Error> {
        let key = review.key();
        let info = RequestInfo::of_collection("create", &self.kind, key.namespace());
        let url = Url::collection(&self.kind, key.namespace())
            .map_err(|problem| Error::invalid_request(info.clone(), problem))?;
        let body = self.encode(&info, review)?;
        let mut call = call(Method::POST, info, url, (JSON, body));
        call.limit = self.limit;
        Ok(call)
    }

    /// Encodes the object, and adds `apiVersion` and `kind` if a dynamic object lacks them.
    fn encode(&self, info: &RequestInfo, object: &impl Serialize) -> Result<Bytes, Error> {
        let bytes = encode(info, object)?;
        Ok(self.with_kind(bytes).into())
    }

    /// Adds `apiVersion` and `kind` to an encoded object.
    fn with_kind(&self, object: Vec<u8>) -> Vec<u8> {
        match raw::prepare(&object, self.kind.gvk(), false).json {
            Cow::Owned(typed) => typed,
            Cow::Borrowed(_) => object,
        }
    }
}

pub(super) fn read_object<K: Object>(
    decoder: &AnswerDecoder,
    info: &RequestInfo,
    body: &[u8],
) -> Result<K, Error> {
    match decoder.object(body) {
        Decoded::Good(object) => Ok(object),
        Decoded::Malformed(malformed) => Err(Error::decode(info, malformed.error)),
    }
}

/// Decodes a subresource. The error has only the position of the problem, because a subresource may hold a secret (a
/// token).
pub(super) fn read_part<T: DeserializeOwned>(info: &RequestInfo, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::decode(info, json_error_position(&error)))
}

/// Returns the keys of the objects in a list; none if the answer is no list.
fn read_keys(_: &RequestInfo, body: &Bytes) -> Result<Vec<ObjectKey>, Error> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<ListItem>,
    }
    #[derive(Deserialize)]
    struct ListItem {
        #[serde(default)]
        metadata: Meta,
    }
    /// The two members that are read; those of an `ObjectMeta`, such as the managed fields, are skipped.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Meta {
        name: String,
        namespace: String,
    }
    let list = serde_json::from_slice::<List>(body).map_or_else(|_| Vec::new(), |list| list.items);
    let key = |item: ListItem| ObjectKey::namespaced(item.metadata.namespace, item.metadata.name);
    Ok(list.into_iter().map(key).collect())
}

fn encode(info: &RequestInfo, body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| {
        let problem = format!("it does not encode: {}", json_error_position(&error));
        Error::invalid_request(info.clone(), problem)
    })
}

fn call(method: Method, info: RequestInfo, url: Url, body: (&'static str, Bytes)) -> ApiCall {
    let mut call = ApiCall::get(info, url);
    call.method = method;
    call.body = Some(body);
    call
}

fn patching(info: RequestInfo, url: Url, patch: &Patch, options: &WriteOptions) -> ApiCall {
    let (content_type, value) = match patch {
        Patch::Merge(value) => ("application/merge-patch+json", value),
        Patch::Json(value) => ("application/json-patch+json", value),
        Patch::Strategic(value) => ("application/strategic-merge-patch+json", value),
        Patch::Apply(value) => ("application/apply-patch+yaml", value),
    };
    let url = match patch {
        Patch::Apply(_) => url.apply(options),
        _ => url.write(options),
    };
    let body = value.to_string().into();
    call(Method::PATCH, info, url, (content_type, body))
}
