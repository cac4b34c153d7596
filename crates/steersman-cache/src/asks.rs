//! Driver: asks the server what an informer asks it, for those who cannot wait until it is told.

use std::sync::Arc;

use steersman_api::{
    ApiListWatch, Decoded, Error as ApiError, ListPage, PageRequest, Paging, RawObject, kube_client,
};
use steersman_informer::Mirror;
use steersman_object::{FieldSelector, Kind, Object, ObjectKey, ResourceVersion};

use crate::error::Error;
use crate::settings::Settings;

/// So many objects a page holds, as those that an informer asks for.
const PAGE: u32 = 500;

/// What one informer asks of its server, in one namespace: see [`Cache::asks_in`](crate::Cache::asks_in).
///
/// RYOW-6: the questions need no rights but the informer's. One object is a list of the one name, which
/// kube-apiserver looks up by its key (apiserver, `SelectionPredicate.MatchesSingle`).
#[derive(Debug)]
pub struct Asks {
    pub(crate) mirror: Mirror,
    pub(crate) namespace: Option<String>,
    pub(crate) settings: Settings,
}

/// An object as the server showed it, by what tells it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shown {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub version: ResourceVersion,
}

/// What the server showed, and when: there was nothing else then of what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sight {
    /// The objects that the informer would be told of.
    pub objects: Vec<Shown>,
    /// The version of the whole answer.
    pub at: ResourceVersion,
}

/// What the server said of one object, and what the cache would make of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer<K> {
    /// Which object the server showed, if any, and when.
    pub sight: Sight,
    /// What [`Cache::get`](crate::Cache::get) would answer if it were told: transformed, and with the same
    /// errors.
    pub read: Result<Arc<K>, Error>,
}

impl Asks {
    /// The informer.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// The object of a name.
    ///
    /// # Errors
    ///
    /// What the server says.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn object<K: Object>(
        &self,
        client: kube_client::Client,
        name: &str,
    ) -> Result<Answer<K>, ApiError> {
        let mut page = self.list(client, self.named(name)).await?;
        self.keep_named(&mut page, name);
        let (sight, kind) = (Sight::of(&page), self.kind());
        let Some(arrived) = page.items.pop() else {
            let not_found = Error::NotFound {
                kind: kind.clone(),
                key: self.key(name),
                scoped_by: self.settings.scoped_by(),
            };
            let read = Err(not_found);
            return Ok(Answer { sight, read });
        };
        let read = self.mirror.look_at(arrived);
        let read = read.map_err(|malformed| Error::Malformed {
            kind: kind.clone(),
            key: malformed.key,
            problem: malformed.error,
        });
        Ok(Answer { sight, read })
    }

    /// Whether there is an object of a name, and which: its metadata is asked for.
    ///
    /// # Errors
    ///
    /// What the server says.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn one(&self, client: kube_client::Client, name: &str) -> Result<Sight, ApiError> {
        let mut page = self.metadata(client, self.named(name)).await?;
        self.keep_named(&mut page, name);
        Ok(Sight::of(&page))
    }

    /// All objects that the informer would be told of: their metadata is asked for.
    ///
    /// # Errors
    ///
    /// What the server says.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn all(&self, client: kube_client::Client) -> Result<Sight, ApiError> {
        let mut request = self.everything();
        request.paging = Paging::new().page_size(PAGE);
        Ok(Sight::of(&self.metadata(client, request).await?))
    }

    async fn metadata(
        &self,
        client: kube_client::Client,
        mut request: PageRequest,
    ) -> Result<ListPage<RawObject>, ApiError> {
        request.metadata_only = true;
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

    /// What the informer selects.
    fn everything(&self) -> PageRequest {
        let settings = &self.settings;
        let mut request = PageRequest::default();
        request.labels = settings.sent_labels().map(Into::into);
        request.fields = settings.sent_fields().map(Into::into);
        request
    }

    /// What the informer selects, of one name.
    fn named(&self, name: &str) -> PageRequest {
        let name = FieldSelector::new().equals("metadata.name", name);
        let mut request = self.everything();
        request.fields = Some(match &request.fields {
            // First, because it is the first name that rights for single names are judged by.
            Some(fields) => format!("{fields},{name}"),
            None => name.into(),
        });
        request
    }

    /// Keeps the object of a name alone: not every server selects by the fields that it is asked to. One whose name
    /// cannot be read may be the one (CACHE-4).
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
        self.mirror.kind()
    }
}

impl Sight {
    fn of(page: &ListPage<RawObject>) -> Self {
        Self {
            objects: page.items.iter().map(Shown::of).collect(),
            at: page.version.clone(),
        }
    }
}

impl Shown {
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
