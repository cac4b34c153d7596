//! Machine: what each writing verb sends, and how its answer is read.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steersman_object::{Kind, Object, ObjectKey, Selection};

use super::Api;
use crate::asked::Asked;
use crate::decode::{Decoder, error_position};
use crate::error::{Error, parse_status};
use crate::event::Decoded;
use crate::options::{DeleteOptions, PageRequest, Paging, Patch, WriteOptions};
use crate::raw;
use crate::request::Request;
use crate::transport::Call;
use crate::url::Url;

const JSON: &str = "application/json";

/// The verbs as requests that are sent later, or by somebody else.
impl<K: Object> Api<K> {
    /// What [`create`](Self::create) sends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where the object names no namespace and its kind needs one, or does not
    /// encode.
    pub fn create_request(&self, object: &K, options: &WriteOptions) -> Result<Request<K>, Error> {
        let key = object.key();
        let generate_name = object.meta().generate_name.as_deref();
        let generate_name = generate_name.filter(|_| key.name().is_empty());
        let asked = Asked::of_object("create", &self.kind, &key).generating(generate_name);
        if self.kind.is_namespaced() && key.namespace().is_none() {
            let problem = "its metadata names no namespace";
            return Err(Error::invalid_request(asked, problem));
        }
        let url = Url::collection(&self.kind, key.namespace())
            .map_err(|problem| Error::invalid_request(asked.clone(), problem))?;
        let body = self.encode(&asked, object)?;
        let call = call(Method::POST, asked, url.write(options), JSON, body);
        Ok(self.whole(call).generating(generate_name))
    }

    /// What [`update`](Self::update) sends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where the object has no key of its kind, calls itself of another kind (as
    /// metadata alone does), or does not encode.
    pub fn update_request(&self, object: &K, options: &WriteOptions) -> Result<Request<K>, Error> {
        let (asked, url) = self.object("update", &object.key())?;
        let body = self.encode(&asked, object)?;
        if let Some(other) = another_kind(&self.kind, &body) {
            let problem = format!("it calls itself {other}: send what is to change as a patch");
            return Err(Error::invalid_request(asked, problem));
        }
        let call = call(Method::PUT, asked, url.write(options), JSON, body);
        Ok(self.whole(call))
    }

    /// What [`patch`](Self::patch) sends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where the key is none of its kind.
    pub fn patch_request(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Request<K>, Error> {
        let (asked, url) = self.object("patch", key)?;
        Ok(self.whole(patching(asked, url, patch, options)))
    }

    /// What [`delete`](Self::delete) sends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where the key is none of its kind.
    pub fn delete_request(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Request<Option<K>>, Error> {
        let (asked, url) = self.object("delete", key)?;
        let call = call(
            Method::DELETE,
            asked,
            url,
            JSON,
            options.to_json().to_string().into(),
        );
        let decoder = self.decoder.clone();
        let read = move |asked: &Asked, body: &Bytes| match parse_status(body) {
            Some(_) => Ok(None),
            None => read_object(&decoder, asked, body).map(Some),
        };
        Ok(self.request(call, read))
    }

    /// What [`delete_all`](Self::delete_all) sends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where no namespace is given for a namespaced kind: the server deletes in one
    /// namespace at a time.
    pub fn delete_all_request(
        &self,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Request<Vec<ObjectKey>>, Error> {
        let (asked, url) = self.selected("deletecollection", selection)?;
        if self.kind.is_namespaced() && selection.selected_namespace().is_none() {
            let problem = "collections are deleted in one namespace at a time, and none is named";
            return Err(Error::invalid_request(asked, problem));
        }
        let url = url.list(&PageRequest::of(selection, &Paging::new()));
        let call = call(
            Method::DELETE,
            asked,
            url,
            JSON,
            options.to_json().to_string().into(),
        );
        Ok(self.request(call, read_keys))
    }

    /// What a POST to a subresource sends: an eviction, a binding, a request for a token.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] where the key is none of its kind, or the body does not encode.
    pub fn create_part_request<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &impl Serialize,
        options: &WriteOptions,
    ) -> Result<Request<T>, Error> {
        let (asked, url) = self.part("create", key, subresource)?;
        let body = encode(&asked, body)?.into();
        let call = call(Method::POST, asked, url.write(options), JSON, body);
        Ok(self.other(call))
    }

    /// What a PUT to a subresource sends.
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
    ) -> Result<Request<T>, Error> {
        let (asked, url) = self.part("update", key, subresource)?;
        let body = encode(&asked, body)?;
        // A dynamic object may not name its kind; a body of another kind always does.
        let body = self.with_kind(body);
        let call = call(Method::PUT, asked, url.write(options), JSON, body.into());
        Ok(self.other(call))
    }

    /// What a PATCH of a subresource sends.
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
    ) -> Result<Request<T>, Error> {
        let (asked, url) = self.part("patch", key, subresource)?;
        Ok(self.other(patching(asked, url, patch, options)))
    }

    fn part(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<(Asked, Url), Error> {
        let (asked, url) = self.object(verb, key)?;
        Ok((asked.part(subresource), url.sub(subresource)))
    }

    /// The answer is an object of the kind.
    fn whole(&self, call: Call) -> Request<K> {
        let decoder = self.decoder.clone();
        let read = move |asked: &Asked, body: &Bytes| -> Result<K, Error> {
            read_object(&decoder, asked, body)
        };
        self.request(call, read)
    }

    /// The answer has a shape of its own.
    fn other<T: DeserializeOwned>(&self, call: Call) -> Request<T> {
        self.request(call, |asked, body| read_part(asked, body))
    }

    fn request<T>(
        &self,
        call: Call,
        read: impl Fn(&Asked, &Bytes) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Request<T> {
        Request::new(self.client.clone(), call, read).request_timeout(self.limit)
    }

    /// The object as JSON, with the `apiVersion` and `kind` that a dynamic one may lack.
    pub(super) fn review_call(&self, review: &K) -> Result<Call, Error> {
        let key = review.key();
        let asked = Asked::of_collection("create", &self.kind, key.namespace());
        let url = Url::collection(&self.kind, key.namespace())
            .map_err(|problem| Error::invalid_request(asked.clone(), problem))?;
        let body = self.encode(&asked, review)?;
        let mut call = call(Method::POST, asked, url, JSON, body);
        call.limit = self.limit;
        Ok(call)
    }

    fn encode(&self, asked: &Asked, object: &impl Serialize) -> Result<Bytes, Error> {
        let bytes = encode(asked, object)?;
        Ok(self.with_kind(bytes).into())
    }

    /// The object with its `apiVersion` and `kind`.
    fn with_kind(&self, object: Vec<u8>) -> Vec<u8> {
        match raw::prepare(&object, self.kind.gvk(), false).json {
            Cow::Owned(typed) => typed,
            Cow::Borrowed(_) => object,
        }
    }
}

pub(super) fn read_object<K: Object>(
    decoder: &Decoder,
    asked: &Asked,
    body: &[u8],
) -> Result<K, Error> {
    match decoder.object(body) {
        Decoded::Good(object) => Ok(object),
        Decoded::Malformed(malformed) => Err(Error::decode(asked, malformed.error)),
    }
}

/// A subresource may hold a secret (a token), so the error says only where.
pub(super) fn read_part<T: DeserializeOwned>(asked: &Asked, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::decode(asked, error_position(&error)))
}

/// The keys of a list; of any other answer none.
fn read_keys(_: &Asked, body: &Bytes) -> Result<Vec<ObjectKey>, Error> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        #[serde(default)]
        metadata: Meta,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Meta {
        name: String,
        namespace: String,
    }
    let list = serde_json::from_slice::<List>(body).map_or_else(|_| Vec::new(), |list| list.items);
    let key = |item: Item| ObjectKey::namespaced(item.metadata.namespace, item.metadata.name);
    Ok(list.into_iter().map(key).collect())
}

fn encode(asked: &Asked, body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| {
        let problem = format!("it does not encode: {}", error_position(&error));
        Error::invalid_request(asked.clone(), problem)
    })
}

/// What a body calls itself, where that is not the kind it is sent as.
fn another_kind(kind: &Kind, body: &[u8]) -> Option<String> {
    let gvk = crate::about::about(body)?.gvk;
    (gvk != *kind.gvk()).then(|| gvk.to_string())
}

fn call(method: Method, asked: Asked, url: Url, content_type: &'static str, body: Bytes) -> Call {
    let mut call = Call::get(asked, url);
    call.method = method;
    call.body = Some((content_type, body));
    call
}

fn patching(asked: Asked, url: Url, patch: &Patch, options: &WriteOptions) -> Call {
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
    call(Method::PATCH, asked, url, content_type, body)
}
