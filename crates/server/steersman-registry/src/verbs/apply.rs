//! Machine: server-side apply to an object, to its status, or to its scale.

use serde_json::{Map, Value};
use steersman_apimachinery::status::Status;
use steersman_patch::apply::{
    Manager, ManagerEntries, ManagerOperation, OwnershipContext, apply_over_client_side,
    check_configuration, follow_apply, parse_configuration, refuse_conflicts, update_field,
};
use steersman_patch::check_restorable;
use steersman_schema::resource::Resource;
use steersman_schema::types::TypeRef;

use super::create::CreateRequest;
use super::update::ObjectWrite;
use crate::objects::field_owners::own_changes;
use crate::objects::managed::{self, Ownership};
use crate::objects::scale;
use crate::requests::intake::{self, FieldValidation, ObjectOrigin, is_definition};
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, StoredWrite, Subresource, WriteOptions};
use crate::state::registry::Registry;
use crate::values::text;

/// The field manager that becomes the owner of all fields of an object without managedFields at its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

struct ApplyBody<'a> {
    target: ObjectTarget<'a>,
    configuration: Value,
    warnings: Vec<String>,
    options: &'a WriteOptions,
    checked: (bool, FieldValidation),
}

impl ApplyBody<'_> {
    fn manager(&self, version: &str, part: &str) -> Manager {
        let name = self.options.field_manager.as_deref().unwrap_or_default();
        Manager::new(name, ManagerOperation::Apply, version, part)
    }

    fn is_forced(&self) -> bool {
        self.options.force.unwrap_or_default()
    }
}

impl Registry {
    /// Applies a configuration (YAML or JSON) to an object, or creates the object. 409 with each field in conflict and
    /// its manager, 400 for a body that is no object of this resource, 500 for a body that does not fit the type of the
    /// resource, and the errors of create and update.
    pub(crate) fn apply(
        &mut self,
        target: ObjectTarget<'_>,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<StoredWrite, Status> {
        let checked = intake::apply_options(options)?;
        let (configuration, mut warnings) =
            parse_configuration(body).map_err(Status::bad_request)?;
        if checked.1 == FieldValidation::Ignore {
            warnings.clear();
        }
        let ObjectTarget { resource, name, .. } = target;
        let subresource = target.subresource;
        let request = ApplyBody {
            target,
            configuration,
            warnings,
            options,
            checked,
        };
        let found = self.store.get(&resource.storage, target.scope(), name);
        let Some(stored) = found.cloned() else {
            if subresource != Subresource::Main {
                return Err(Status::not_found(resource.group_resource(), name));
            }
            return self.apply_new(&request);
        };
        check(&request)?;
        let shown = self.present(resource, &stored)?;
        let live = shown.lean();
        let mut entries = ManagerEntries::stored(shown.stored.managed()).map_err(|why| {
            Status::internal_plain(format!("failed to decode managed fields: {why}"))
        })?;
        let new = if subresource == Subresource::Scale {
            Some(apply_scale(&request, &mut entries, live)?)
        } else {
            if entries.is_empty() {
                self.note_before_first(&request, &mut entries, live);
            }
            self.applied(&request, &mut entries, live)?
        };
        let origin = ObjectOrigin::Apply;
        let managed = entries.write();
        let ownership = Ownership::Given(managed.clone());
        let write = ObjectWrite::new(target, stored, origin, options, ownership);
        if new.is_none() && self.is_unwritten(&write, live, managed.as_deref()) {
            self.note_warnings(request.warnings);
            let (object, created) = (shown, false);
            return Ok(StoredWrite { object, created });
        }
        let mut new = new.unwrap_or_else(|| live.clone());
        super::create::check_name(&new, name)?;
        super::create::place(target, &mut new)?;
        let place = place_of(&request.configuration);
        let read = self.read(resource, &mut new, origin, checked.1);
        let written = read.and_then(|sent| self.write(&write, (new, sent)));
        self.note_warnings(request.warnings);
        written.map_err(|status| refuse_undecodable(target, &place, status))
    }

    /// Returns whether an apply to a CRD changes nothing and would not be refused, so that the write can be skipped: it
    /// would copy the whole CRD several times, and operators apply all their CRDs at each start. `managed` are the
    /// managedFields after the apply.
    fn is_unwritten(&self, write: &ObjectWrite<'_>, live: &Value, managed: Option<&str>) -> bool {
        is_definition(write.resource)
            && write.subresource == Subresource::Main
            && !self.is_changed()
            && !self.is_judged()
            && managed::differ_in_times(managed, write.stored.managed())
            && self.check(write, live, live, &mut Vec::new()).is_ok()
            && self.keeps_names(live)
    }

    fn apply_new(&mut self, request: &ApplyBody<'_>) -> Result<StoredWrite, Status> {
        let target = request.target;
        let ObjectTarget { resource, name, .. } = target;
        check(request)?;
        let mut entries = ManagerEntries::default();
        let empty = Value::Object(Map::new());
        let applied = self.applied(request, &mut entries, &empty)?;
        let mut new = applied.unwrap_or_else(|| request.configuration.clone());
        // As in upstream's `applyPatch`, the uid is checked before the name. So a configuration with the uid of a
        // removed object is a conflict, even if it has no name.
        let uid = metadata::text(&new, "uid").to_owned();
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(resource.group_resource(), name, &why));
        }
        super::create::check_name(&new, name)?;
        super::create::place(target, &mut new)?;
        metadata::of(&mut new).remove("resourceVersion");
        let ownership = Ownership::Given(entries.write());
        let place = place_of(&request.configuration);
        let asked = (request.checked, request.options, ownership);
        let created = self.create_owned(target, new, CreateRequest::Apply, asked);
        self.note_warnings(request.warnings.clone());
        created.map_err(|status| refuse_undecodable(target, &place, status))
    }

    /// Applies the configuration of a request to the object `live`, and updates `entries`. Returns the new object;
    /// `None` if the configuration changes nothing.
    fn applied(
        &self,
        request: &ApplyBody<'_>,
        entries: &mut ManagerEntries,
        live: &Value,
    ) -> Result<Option<Value>, Status> {
        let (resource, subresource) = (request.target.resource, request.target.subresource);
        let version = resource.api_version();
        let part = managed::subresource_name(subresource);
        let manager = request.manager(&version, part);
        let configured = &request.configuration;
        let mut ignored = managed::ignored(resource, subresource, live);
        ignored.extend(managed::ignored(resource, subresource, configured));
        let reach = OwnershipContext {
            ty: TypeRef::of(resource),
            version: &version,
            versions: &self.versions_of(resource),
            ignored: &ignored,
        };
        let configuration = managed::without_kept(resource, subresource, &request.configuration);
        let states = (live, &*configuration);
        let (force, time) = (request.is_forced(), metadata::time(self.now));
        let applied = apply_over_client_side(&reach, entries, &manager, states, force, &time)
            .map_err(|conflicts| refuse_conflicts(&conflicts))?;
        let applied = follow_apply(&manager, live, applied, &request.configuration);
        if let Some(new) = applied.as_ref().filter(|_| resource.built_in)
            && let Err(why) = check_restorable(new, reach.ty)
        {
            let place = place_of(&request.configuration);
            return Err(unrestorable(resource, &place, &why));
        }
        let twice = request.warnings.first();
        if let Some(twice) = twice.filter(|_| request.checked.1 == FieldValidation::Strict) {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                 errors:\n  {twice}"
            )));
        }
        Ok(applied)
    }

    /// Makes [`BEFORE_FIRST_APPLY`] the owner of all fields of an object that has no managedFields yet.
    fn note_before_first(
        &self,
        request: &ApplyBody<'_>,
        entries: &mut ManagerEntries,
        live: &Value,
    ) {
        let (resource, subresource) = (request.target.resource, request.target.subresource);
        let live = managed::without_kept(resource, subresource, live);
        let states = (&Value::Object(Map::new()), &*live);
        let owner = (BEFORE_FIRST_APPLY, &*self.versions_of(resource));
        own_changes((resource, subresource), owner, states, entries, self.now);
    }
}

/// Applies a Scale to an object: the field manager becomes the owner of the object's field with the number of replicas.
fn apply_scale(
    request: &ApplyBody<'_>,
    entries: &mut ManagerEntries,
    live: &Value,
) -> Result<Value, Status> {
    let resource = request.target.resource;
    let mut shown = scale::scale_of(resource, live)?;
    let old = scale::wanted(resource, live);
    let configured = &request.configuration;
    let version = resource.api_version();
    let manager = request.manager(&version, "scale");
    if let Some(replicas) = configured.get("spec").and_then(|spec| spec.get("replicas")) {
        let path = managed::replicas_path(resource);
        let (changed, force) = (old != Some(replicas), request.is_forced());
        update_field(entries, &manager, (&path, &version), changed, force)
            .map_err(|conflicts| refuse_conflicts(&conflicts))?;
        shown["spec"]["replicas"] = replicas.clone();
    } else {
        entries.remove(&manager);
    }
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = configured.get("metadata").and_then(|m| m.get(field)) {
            metadata::of(&mut shown).insert(field.to_owned(), value.clone());
        }
    }
    super::create::check_name(&shown, request.target.name)?;
    scale::rescale(resource, live, &shown)
}

fn check(request: &ApplyBody<'_>) -> Result<(), Status> {
    let configuration = &request.configuration;
    let (resource, subresource) = (request.target.resource, request.target.subresource);
    let [version, kind] = ["apiVersion", "kind"].map(|field| text(&configuration[field]));
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    let named = format!("{group}/{short}, Kind={kind}");
    let (expected_version, expected_kind) = match subresource {
        Subresource::Scale => ("autoscaling/v1".to_owned(), "Scale"),
        _ => (resource.api_version(), resource.kind.as_str()),
    };
    if version != expected_version || kind != expected_kind {
        return Err(Status::bad_request(format!("invalid object type: {named}")));
    }
    if managed::sent(configuration).is_some_and(|sent| !sent.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let ty = scale::type_of(resource, subresource);
    check_configuration(ty, configuration).map_err(|wrong| {
        let place = place_of(configuration);
        Status::internal_plain(format!(
            "failed to create typed patch object ({place}; {named}): {wrong}"
        ))
    })
}

fn place_of(configuration: &Value) -> String {
    let text = |field: &str| metadata::text(configuration, field);
    format!("{}/{}", text("namespace"), text("name"))
}

/// Builds the 500 for an apply, if its result does not decode, for instance because of an invalid quantity.
fn unrestorable(resource: &Resource, place: &str, why: &str) -> Status {
    let named = format!("{}, Kind={}", resource.api_version(), resource.kind);
    Status::internal_plain(format!(
        "failed to convert new object ({place}; {named}) to proper version: unable to convert \
         unstructured object to {named}: {why}"
    ))
}

/// Replaces the decoder's refusal of the result of an apply by upstream's 500 for built-in kinds. Other errors stay.
fn refuse_undecodable(target: ObjectTarget<'_>, place: &str, status: Status) -> Status {
    let resource = target.resource;
    if !resource.built_in || target.subresource == Subresource::Scale {
        return status;
    }
    let of_patch = || {
        let patch = status.message.strip_prefix(" \"\" is invalid: patch: ")?;
        // The message quotes the whole object in JSON, which ends with the last `}`; the reason comes after it.
        patch.rsplit_once("}\": ").map(|(_, why)| why)
    };
    let why = intake::undecodable_reason(&resource.kind, &status);
    match why.or_else(of_patch) {
        Some(why) => unrestorable(resource, place, why),
        None => status,
    }
}
