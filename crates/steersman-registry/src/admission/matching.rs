//! Machine: matches writes to webhooks and admission policies, and builds the request that they
//! get.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/webhook/predicates` and `policy/matching`.

use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_cel::AccessAttributes;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_text::selector::LabelSelector;
use steersman_text::status::{Status, Subject};

use super::attributes::Admission;
use crate::objects::scale::selector_text;
use crate::policies::policy::RequestAuthorizer;
use crate::state::registry::Registry;
use crate::webhook;
use crate::webhook::{Hook, ReviewContent};

/// An object after and before a write.
pub(crate) type States<'a> = (Option<&'a Value>, Option<&'a Value>);

impl Registry {
    /// Returns the resource under which a write matches a webhook or a policy by its rules and
    /// selectors.
    ///
    /// # Errors
    /// 404 if the namespace of the write does not exist.
    pub(crate) fn selected(
        &self,
        hook: &Hook,
        admission: &Admission<'_>,
        (object, old): States<'_>,
    ) -> Result<Option<Arc<Resource>>, Status> {
        let selects = |selector: &Value, object: &Value| {
            let parsed = LabelSelector::parse(&selector_text(selector));
            parsed.is_ok_and(|parsed| parsed.matches(object))
        };
        let of_objects = &hook.objects;
        let all = of_objects.as_object().is_none_or(Map::is_empty);
        let found = |one: Option<&Value>| one.is_some_and(|one| selects(of_objects, one));
        if !all && !found(object) && !found(old) {
            return Ok(None);
        }
        let Some(resource) = self.matched(hook, admission) else {
            return Ok(None);
        };
        let labels = self.namespace_of(admission, object);
        let everywhere = hook.namespaces.as_object().is_none_or(Map::is_empty);
        match labels {
            _ if everywhere => {}
            Ok(Some(namespace)) if !selects(&hook.namespaces, &namespace) => return Ok(None),
            Ok(_) => {}
            Err(status) => return Err(status),
        }
        Ok(Some(resource))
    }

    /// Returns the resource in the version that a rule of the webhook names: the request's own, or
    /// an equivalent one of another version.
    pub(crate) fn matched(&self, hook: &Hook, admission: &Admission<'_>) -> Option<Arc<Resource>> {
        let own = admission.target.resource;
        if hook.is_about(admission.rule_attributes(own)) {
            let found = self.resource(&own.group, &own.version, &own.plural);
            return Some(found.unwrap_or_else(|| Arc::new(own.clone())));
        }
        if !hook.equivalent {
            return None;
        }
        let same = self.catalogue.all().iter().filter(|other| {
            other.storage == own.storage && other.api_version() != own.api_version()
        });
        let mut named = same.filter(|other| hook.is_about(admission.rule_attributes(other)));
        named.next().cloned()
    }

    /// Returns the Namespace that namespace selectors match; `None` for cluster-scoped objects.
    fn namespace_of(
        &self,
        admission: &Admission<'_>,
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
        match self
            .store
            .get(&StorageKey::new("", "namespaces"), "", &name)
        {
            Some(found) => Ok(Some((*found.value).clone())),
            None => Err(Status::not_found(Subject::new("", "namespaces"), &name)),
        }
    }

    /// Builds the review's request for a webhook or a policy, without its uid.
    pub(crate) fn review_request(
        &self,
        resource: &Resource,
        admission: &Admission<'_>,
        (object, old): States<'_>,
    ) -> Result<Map<String, Value>, Status> {
        let own = admission.target.resource;
        let shown = |object: Option<&Value>| match object {
            Some(object) if admission.kind.is_none() => {
                self.to_version(own, resource, object).map(Some)
            }
            other => Ok(other.cloned()),
        };
        let (object, old) = (shown(object)?, shown(old)?);
        let kind_of = |resource: &'_ Resource| -> (String, String, String) {
            match admission.kind {
                Some((group, version, kind)) => (group.into(), version.into(), kind.into()),
                None => (
                    resource.group.clone(),
                    resource.version.clone(),
                    resource.kind.clone(),
                ),
            }
        };
        let (kind, request_kind) = (kind_of(resource), kind_of(own));
        let namespace = admission.namespace(object.as_ref());
        let about = ReviewContent {
            kind: (&kind.0, &kind.1, &kind.2),
            resource: (&resource.group, &resource.version, &resource.plural),
            request_kind: (&request_kind.0, &request_kind.1, &request_kind.2),
            request_resource: (&own.group, &own.version, &own.plural),
            subresource: admission.subresource,
            name: admission.name,
            namespace: &namespace,
            operation: admission.operation,
            user: admission.user,
            object: object.as_ref(),
            old: old.as_ref(),
            dry: admission.dry,
            options: &admission.options,
        };
        Ok(webhook::request(&about))
    }

    /// Returns the Namespace of a write; null for cluster-scoped objects.
    pub(crate) fn namespace_object(&self, admission: &Admission<'_>) -> Value {
        let namespaced = admission.target.resource.namespaced;
        let storage = StorageKey::new("", "namespaces");
        let name = Some(admission.target.scope()).filter(|_| namespaced);
        let namespace = name.and_then(|name| self.store.get(&storage, "", name));
        namespace.map_or(Value::Null, |found| (*found.value).clone())
    }

    /// Returns the authorizer for expressions, which decides about the author of a write.
    pub(crate) fn asker<'a>(
        &'a self,
        admission: &'a Admission<'_>,
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
