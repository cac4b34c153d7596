//! Machine: writes objects and lists in the requested shape: whole, as a Table, or metadata alone.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_registry::{StoredPage, StoredWrite, VersionedObject};
use steersman_schema::resource::Resource;
use steersman_tables::{IncludeObject, MetaVersion, TableMaker, TableMeta, partial};

use crate::http::requests::negotiate::{Format, Media, ResponseShape};
use crate::http::requests::query::Query;
use crate::http::responses::events::one_row;
use crate::http::responses::list::{ListBody, ListItems};
use crate::http::responses::protobuf::{self, PROTOBUF, UnencodedList};
use crate::http::responses::reply::{Answered, JSON, Reply, ReplyBody};

/// Makes replies in the requested shape (whole object, Table or metadata). Ages in Tables are counted until `now`.
///
/// As in a kube-apiserver, a shape that cannot be produced is refused only when the answer is written, after the
/// request was carried out.
#[derive(Debug, Clone)]
pub(crate) struct ReplyMaker {
    pub(crate) media: Media,
    /// The part of each object in the rows of a Table (`includeObject`), or the refusal of an invalid parameter.
    include: Result<IncludeObject, Box<Status>>,
    pub(crate) pretty: bool,
    pub(crate) now: Timestamp,
}

impl ReplyMaker {
    pub(crate) fn new(media: Media, query: &Query, user_agent: &str, now: Timestamp) -> Self {
        let include = match media.shape {
            ResponseShape::Table(_) => query.include_object().map_err(Box::new),
            ResponseShape::Whole | ResponseShape::Partial { .. } => Ok(IncludeObject::default()),
        };
        Self {
            media,
            include,
            pretty: query.is_pretty(user_agent),
            now,
        }
    }

    pub(crate) fn include(&self) -> Result<IncludeObject, Status> {
        self.include.clone().map_err(|status| *status)
    }

    /// Refuses `PartialObjectMetadataList` for one object, and `PartialObjectMetadata` for a list, by 406.
    fn check(&self, resource: &Resource, is_list: bool) -> Result<(), Status> {
        let asked = match self.media.shape {
            ResponseShape::Partial { is_list: true, .. } if !is_list => "PartialObjectMetadataList",
            ResponseShape::Partial { is_list: false, .. } if is_list => "PartialObjectMetadata",
            _ => return Ok(()),
        };
        let package = match resource.group.split('.').next() {
            Some(group) if !group.is_empty() => group,
            _ => "core",
        };
        let (package, kind, list_kind) = if resource.built_in {
            (package, resource.kind.as_str(), resource.list_kind.as_str())
        } else {
            ("unstructured", "Unstructured", "UnstructuredList")
        };
        let what = if is_list {
            format!("a list (*{package}.{list_kind})")
        } else {
            format!("not a list (*{package}.{kind})")
        };
        let message = format!("you requested {asked}, but the requested object is {what}");
        Err(Status::failure(406, "NotAcceptable", message))
    }

    pub(crate) fn written(&self, resource: &Resource, written: &StoredWrite) -> Answered {
        let code = if written.created { 201 } else { 200 };
        self.object(code, resource, &written.object)
    }

    pub(crate) fn object(
        &self,
        code: u16,
        resource: &Resource,
        object: &VersionedObject,
    ) -> Answered {
        let include = self.include()?;
        self.check(resource, false)?;
        let unencoded = || ReplyBody::UnencodedObject(object.clone());
        if self.media.format == Format::Protobuf {
            let body = match self.media.shape {
                ResponseShape::Partial { version, .. } => {
                    ReplyBody::Whole(protobuf::metadata(object, version)?)
                }
                ResponseShape::Whole | ResponseShape::Table(_) => unencoded(),
            };
            return Ok(Reply::of(code, PROTOBUF, body));
        }
        let value = match self.media.shape {
            ResponseShape::Whole if self.is_stored_form() => {
                return Ok(Reply::of(code, JSON, unencoded()));
            }
            ResponseShape::Whole => return Ok(self.rewritten(code, object.bytes())),
            ResponseShape::Table(version) => {
                let value = object.look();
                let is_scale = resource.built_in && value["kind"] == "Scale";
                let maker = if is_scale {
                    TableMaker::of_scale(version, include)
                } else {
                    TableMaker::new(resource, version, include)
                };
                one_row(&maker, &value, true, self.now)
            }
            ResponseShape::Partial { version, .. } => metadata_alone(object, version),
        };
        Ok(self.value(code, &value))
    }

    pub(crate) fn page(&self, resource: &Resource, page: StoredPage) -> Answered {
        let include = self.include()?;
        self.check(resource, true)?;
        if self.media.format == Format::Protobuf {
            return Ok(self.unencoded_page(resource, page));
        }
        Ok(match self.media.shape {
            ResponseShape::Whole => self.whole_page(resource, page),
            ResponseShape::Table(version) => {
                let meta = TableMeta {
                    resource_version: page.resource_version(),
                    continue_token: page.continue_token.clone(),
                    remaining: page.remaining,
                };
                let objects = page.items.iter().map(VersionedObject::look);
                let table = TableMaker::new(resource, version, include)
                    .table(objects, &meta, true, self.now);
                self.value(200, &table)
            }
            ResponseShape::Partial { version, .. } => {
                self.value(200, &partial_page(&page, version))
            }
        })
    }

    /// Builds the answer with one page of a list in protobuf. The page is encoded after the registry is unlocked.
    fn unencoded_page(&self, resource: &Resource, page: StoredPage) -> Reply {
        let list = match self.media.shape {
            ResponseShape::Partial { version, .. } => UnencodedList {
                api_version: version.api_version().to_owned(),
                kind: "PartialObjectMetadataList".to_owned(),
                metadata: list_metadata(&page, false),
                items: page.items,
                metadata_version: Some(version),
            },
            ResponseShape::Whole | ResponseShape::Table(_) => UnencodedList {
                api_version: resource.api_version(),
                kind: resource.list_kind.clone(),
                metadata: whole_list_metadata(&page, false),
                items: page.items,
                metadata_version: None,
            },
        };
        Reply::of(200, PROTOBUF, ReplyBody::UnencodedList(Box::new(list)))
    }

    fn whole_page(&self, resource: &Resource, page: StoredPage) -> Reply {
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(resource.list_kind.as_str()),
            Value::from(resource.api_version()),
            whole_list_metadata(&page, !resource.built_in),
        );
        let list = ListBody {
            head: head.into(),
            items: ListItems::Objects {
                with_type: !resource.built_in,
                items: page.items.into_iter(),
            },
            tail: Bytes::from_static(b"]}\n"),
        };
        if self.is_stored_form() {
            return Reply::of(200, JSON, ReplyBody::List(list));
        }
        self.rewritten(200, list.collect())
    }

    /// Returns whether whole objects are sent as the stored bytes: as JSON without indentation.
    fn is_stored_form(&self) -> bool {
        self.media.format == Format::Json && !self.pretty
    }

    fn rewritten(&self, code: u16, bytes: Bytes) -> Reply {
        match serde_json::from_slice(&bytes) {
            Ok(value) => self.value(code, &value),
            Err(_) => Reply::new(code, JSON, bytes),
        }
    }

    fn value(&self, code: u16, value: &Value) -> Reply {
        if self.media.format == Format::Json && self.pretty {
            let text = serde_json::to_vec_pretty(value).unwrap_or_default();
            return Reply::new(code, JSON, text);
        }
        Reply::document(code, value, self.media.format)
    }
}

/// Builds the metadata of a list. `always_continue` writes an empty `continue`, as in lists of custom resources.
fn list_metadata(page: &StoredPage, always_continue: bool) -> Value {
    let mut metadata = json!({});
    if page.revision > 0 {
        metadata["resourceVersion"] = page.resource_version().into();
    }
    match &page.continue_token {
        Some(token) => metadata["continue"] = token.as_str().into(),
        None if always_continue => metadata["continue"] = "".into(),
        None => {}
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// Builds the metadata of a list of whole objects. Only such a list repeats the shard selector of the request.
fn whole_list_metadata(page: &StoredPage, always_continue: bool) -> Value {
    let mut metadata = list_metadata(page, always_continue);
    if let Some(shard) = &page.shard {
        metadata["shardInfo"] = json!({ "selector": shard });
    }
    metadata
}

fn metadata_alone(object: &VersionedObject, version: MetaVersion) -> Value {
    // The store serialised this text from a JSON value, so it parses.
    let metadata: Value = serde_json::from_str(object.metadata()).unwrap_or_default();
    partial(&metadata, version)
}

fn partial_page(page: &StoredPage, version: MetaVersion) -> Value {
    let metadata = |object: &VersionedObject| metadata_alone(object, version);
    let items: Vec<Value> = page.items.iter().map(metadata).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": list_metadata(page, false),
        // An empty `PartialObjectMetadataList` has null `items`, as recorded from a kube-apiserver 1.36.
        "items": if items.is_empty() { Value::Null } else { Value::Array(items) },
    })
}
