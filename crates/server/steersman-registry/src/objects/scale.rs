//! Machine: the `scale` subresource: reads an `autoscaling/v1` Scale from an object, and writes it back.

use serde_json::{Map, Value, json};
use steersman_apimachinery::selector::selector_text;
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_schema::resource::Resource;
use steersman_schema::types::TypeRef;

use crate::requests::catalogue::Catalogue;
use crate::requests::intake::FieldValidation;
use crate::requests::options::{Subresource, VersionedObject};
use crate::requests::{metadata, request_kinds};
use crate::state::registry::Registry;

pub(crate) fn scale_object(
    resource: &Resource,
    shown: &VersionedObject,
) -> Result<VersionedObject, Status> {
    let scale = scale_of(resource, shown.value())?;
    let (namespace, name, revision) = (&shown.namespace, &shown.name, shown.revision);
    Ok(Registry::answer(namespace, name, scale, revision))
}

/// Returns the desired number of replicas in an object (for most kinds `spec.replicas`; a CRD declares the path);
/// `None` if the object lacks this field.
pub(crate) fn wanted<'a>(resource: &Resource, object: &'a Value) -> Option<&'a Value> {
    let paths = resource.scale.as_ref()?;
    Some(at(object, &paths.spec_replicas)).filter(|wanted| !wanted.is_null())
}

pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let Some(paths) = &resource.scale else {
        return Err(Status::no_such_path());
    };
    let Some(wanted) = at(object, &paths.spec_replicas).as_i64() else {
        let path = paths.spec_replicas.join(".");
        let why = format!("the spec replicas field \".{path}\" does not exist");
        return Err(Status::internal(why));
    };
    let mut fields = Map::new();
    for field in [
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    let observed = at(object, &paths.status_replicas).as_i64();
    let mut status = json!({"replicas": observed.unwrap_or_default()});
    let selector = paths.selector.as_ref();
    let selector = selector.map(|path| selector_text(at(object, path)));
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = Value::String(selector);
    }
    let spec = match wanted {
        0 => json!({}),
        wanted => json!({"replicas": wanted}),
    };
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": fields, "spec": spec, "status": status,
    }))
}

/// Decodes the Scale in the body of a request, and returns warnings about its unknown fields. Fails with 400 if the
/// body is no Scale.
pub(crate) fn read(
    catalogue: &Catalogue,
    resource: &Resource,
    scale: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let kind = if resource.built_in {
        request_kinds::SCALE
    } else {
        request_kinds::CUSTOM_SCALE
    };
    kind.read(catalogue, scale, validation)
}

/// Writes a Scale into a copy of its object: the replicas and, for the checks of an update, name, uid and resource
/// version. 422 for a negative number of replicas.
pub(crate) fn rescale(resource: &Resource, object: &Value, scale: &Value) -> Result<Value, Status> {
    let Some(paths) = &resource.scale else {
        return Err(Status::no_such_path());
    };
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let name = metadata::text(object, "name");
        let value = replicas.to_string();
        if resource.built_in {
            let detail = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &value, detail);
            let group_kind = GroupResource::new("autoscaling", "Scale");
            return Err(Status::invalid(group_kind, name, &[error]));
        }
        let field = format!(".{}", paths.spec_replicas.join("."));
        let error = FieldError::invalid(field, &value, "should be a non-negative integer");
        return Err(Status::invalid(resource.group_kind(), name, &[error]));
    }
    let mut new = object.clone();
    let mut place = &mut new;
    for key in &paths.spec_replicas {
        place = metadata::members(place)
            .entry(key.as_str())
            .or_insert(Value::Null);
    }
    *place = json!(replicas);
    let fields = metadata::of(&mut new);
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        match scale["metadata"].get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None if field == "resourceVersion" => fields.remove(field),
            None => None,
        };
    }
    Ok(new)
}

/// Returns the type of the objects that a subresource reads and writes: Scale for `scale`, else the resource's type.
pub(crate) fn type_of(resource: &Resource, subresource: Subresource) -> TypeRef<'_> {
    let scale = match subresource {
        Subresource::Scale => TypeRef::built_in("autoscaling/v1", "Scale"),
        _ => None,
    };
    scale.unwrap_or_else(|| TypeRef::of(resource))
}

fn at<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, key| &value[key.as_str()])
}
