//! Machine: decides which webhooks and policies match a write, and builds the requests of AdmissionReviews (upstream:
//! `apiserver/pkg/admission/plugin/webhook/predicates` and `policy/matching`).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_apimachinery::status::Status;
use steersman_builtins::selects;
use steersman_cel::AccessAttributes;
use steersman_schema::resource::Resource;

use super::attributes::WriteAdmission;
use crate::policies::policy::{ExpressionVariables, RequestAuthorizer};
use crate::state::registry::Registry;
use crate::webhook::{KindName, RegisteredWebhook, ResourceName, ReviewRequest};

/// The object after a write (`None` for a delete), and before the write (`None` for a create).
pub(crate) type States<'a> = (Option<&'a Value>, Option<&'a Value>);

impl Registry {
    /// Returns the resource in the version in which the rules and selectors of a webhook match a write; `None` if they
    /// do not match. 404 if the namespace of the write does not exist.
    pub(crate) fn selected(
        &self,
        hook: &RegisteredWebhook,
        admission: &WriteAdmission<'_>,
        (object, old): States<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let of_objects = &hook.objects;
        let all = of_objects.as_object().is_none_or(Map::is_empty);
        let found = |one: Option<&Value>| {
            one.is_some_and(|one| selects(of_objects, &one["metadata"]["labels"]))
        };
        if !all && !found(object) && !found(old) {
            return Ok(None);
        }
        let Some(resource) = self.matched(hook, admission) else {
            return Ok(None);
        };
        if hook.namespaces.as_object().is_none_or(Map::is_empty) {
            return Ok(Some(resource));
        }
        let namespace = self.namespace_of(admission, object)?;
        let selected = namespace
            .is_none_or(|namespace| selects(&hook.namespaces, &namespace["metadata"]["labels"]));
        Ok(selected.then_some(resource))
    }

    /// Returns the resource of a write in the version that a rule of the webhook names. This may be another version
    /// than the version of the request, unless `matchPolicy` is `Exact`. `None` if no rule matches.
    pub(crate) fn matched(
        &self,
        hook: &RegisteredWebhook,
        admission: &WriteAdmission<'_>,
    ) -> Option<Arc<Resource>> {
        let own = admission.target.resource;
        let request = (admission.subresource, admission.operation, admission.name);
        if hook.is_about(own, request) {
            let found = self.resource(&own.group, &own.version, &own.plural);
            return Some(found.unwrap_or_else(|| Arc::new(own.clone())));
        }
        if !hook.equivalent {
            return None;
        }
        let all = self.catalogue.all.iter();
        let mut named = all.filter(|other| {
            let same = other.storage == own.storage && !other.has_version_of(own);
            same && hook.is_about(other, request)
        });
        named.next().cloned()
    }

    /// Returns the Namespace object with the labels for `namespaceSelector`; `None` for a write of a cluster-scoped
    /// object, which every `namespaceSelector` matches.
    fn namespace_of(
        &self,
        admission: &WriteAdmission<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Value>, Status> {
        let resource = admission.target.resource;
        let itself = resource.built_in && resource.kind == "Namespace";
        if !itself && !resource.namespaced {
            return Ok(None);
        }
        if itself
            && admission.subresource.is_empty()
            && let Some(object) = object
        {
            return Ok(Some(object.clone()));
        }
        let name = admission.namespace(object);
        let found = self.existing(("", "namespaces"), "", &name)?;
        Ok(Some((*found.value).clone()))
    }

    pub(crate) fn review_request<'a>(
        &self,
        resource: &'a Resource,
        admission: &'a WriteAdmission<'_>,
        (object, old): States<'a>,
    ) -> Result<ReviewRequest<'a>, Status> {
        let own = admission.target.resource;
        let shown = |object: Option<&'a Value>| match object {
            Some(object) if admission.kind.is_none() && !own.has_version_of(resource) => {
                let converted = self.to_version(own, resource, object);
                converted.map(|converted| Some(Cow::Owned(converted)))
            }
            other => Ok(other.map(Cow::Borrowed)),
        };
        let kind_of = |resource: &'a Resource| match admission.kind {
            Some((group, version, kind)) => KindName {
                group,
                version,
                kind,
            },
            None => KindName::of(resource),
        };
        let (object, old_object) = (shown(object)?, shown(old)?);
        Ok(ReviewRequest {
            kind: kind_of(resource),
            resource: ResourceName::of(resource),
            sub_resource: admission.subresource,
            request_kind: kind_of(own),
            request_resource: ResourceName::of(own),
            request_sub_resource: admission.subresource,
            name: admission.name,
            namespace: admission.namespace(object.as_deref()),
            operation: admission.operation,
            user_info: admission.user.info(),
            object,
            old_object,
            dry_run: admission.dry,
            options: &admission.options,
        })
    }

    pub(crate) fn variables<'a>(
        &'a self,
        resource: &Resource,
        admission: &'a WriteAdmission<'_>,
        states: States<'_>,
        params: &'a Value,
    ) -> Result<ExpressionVariables<'a>, Status> {
        Ok(ExpressionVariables {
            request: self.review_request(resource, admission, states)?.to_value(),
            params,
            namespace: self.namespace_object(admission),
            asker: self.asker(admission, states.0),
        })
    }

    /// Returns the Namespace object for the variable `namespaceObject`; null for cluster-scoped objects.
    fn namespace_object(&self, admission: &WriteAdmission<'_>) -> Value {
        let namespaced = admission.target.resource.namespaced;
        let name = Some(admission.target.scope()).filter(|_| namespaced);
        let namespace = name.and_then(|name| self.object(("", "namespaces"), "", name));
        namespace.map_or(Value::Null, |found| (*found.value).clone())
    }

    /// Returns the variable `authorizer`, with which the expressions of a policy check permissions of the write's user.
    pub(crate) fn asker<'a>(
        &'a self,
        admission: &'a WriteAdmission<'_>,
        object: Option<&Value>,
    ) -> RequestAuthorizer<'a> {
        let resource = admission.target.resource;
        RequestAuthorizer {
            authorizer: self.authorizer(),
            user: admission.user,
            resource: AccessAttributes {
                group: resource.group.clone(),
                resource: resource.plural.clone(),
                subresource: admission.subresource.to_owned(),
                namespace: admission.namespace(object),
                name: admission.name.to_owned(),
                ..AccessAttributes::default()
            },
        }
    }
}
