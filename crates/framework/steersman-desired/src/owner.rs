//! Machine: the owner of a set: completes the documents of children, and recognizes existing children.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Map, Value};
use steersman_client::Error as ClientError;
use steersman_object::owner::{OwnerError, controller_of, is_controlled_by, set_controller};
use steersman_object::{Kind, LabelSelector, ListOptions, Object, ObjectKey};

/// The owner of a set, with the label that its children get.
#[derive(Clone, Debug)]
pub(crate) struct SetOwner {
    /// The name, namespace and uid of the owner. A ConfigMap stands for any type of owner, because only its metadata is
    /// read.
    meta: ConfigMap,
    kind: Kind,
    label: String,
}

impl SetOwner {
    pub(crate) fn new(owner: &impl Object, kind: &Kind, label: String) -> Self {
        let mut meta = carrier(&owner.key());
        meta.metadata.uid = Some(owner.uid_str().to_owned());
        Self {
            meta,
            kind: kind.clone(),
            label,
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.meta.key()
    }

    /// Checks that the owner can have children, for which it needs a uid.
    pub(crate) fn check(&self) -> Result<(), OwnerError> {
        let mut child = carrier(&self.key());
        set_controller(&self.meta, &self.kind, &mut child)
    }

    /// Returns the key of a child: with the namespace of the owner if the given key has none, and without a namespace
    /// if the kind is cluster-scoped.
    pub(crate) fn key_of(&self, kind: &Kind, key: &ObjectKey) -> ObjectKey {
        let key = key.placed(kind);
        match (key.namespace(), self.key().namespace()) {
            (None, Some(namespace)) if kind.is_namespaced() => {
                ObjectKey::namespaced(namespace, key.name())
            }
            _ => key.into_owned(),
        }
    }

    /// Returns list options for the children of a kind: objects with the set's label, in the owner's namespace.
    pub(crate) fn list_options(&self, kind: &Kind) -> ListOptions {
        let label = LabelSelector::label(&self.label, self.meta.uid_str());
        let list_options = ListOptions::new().labels(label);
        match self.key().namespace() {
            Some(namespace) if kind.is_namespaced() => list_options.namespace(namespace),
            _ => list_options,
        }
    }

    /// SET-1: returns whether the owner's uid is that of the object's controller.
    pub(crate) fn owns(&self, object: &impl Object) -> bool {
        is_controlled_by(object, &self.meta)
    }

    /// SET-1: returns whether an object is a child of this set: the owner controls it, and it has the set's label.
    pub(crate) fn is_in_set(&self, object: &impl Object) -> bool {
        let labels = object.meta().labels.as_ref();
        let label = labels.and_then(|labels| labels.get(&self.label));
        self.owns(object) && label.map(String::as_str) == Some(self.meta.uid_str())
    }

    /// Checks that the owner controls an object with the name of a child. Objects of other owners, or without an owner,
    /// are left alone.
    pub(crate) fn check_own(&self, object: &impl Object) -> Result<(), OwnerError> {
        if self.owns(object) {
            return Ok(());
        }
        let key = object.key();
        Err(match controller_of(object.meta()) {
            None => OwnerError::NotControlled { object: key },
            Some(controller) => OwnerError::AlreadyControlled {
                object: key,
                controller: controller.name.clone(),
                controller_kind: controller.kind.clone(),
            },
        })
    }

    /// Adds the namespace, the controller reference and the label to the document of a child. Returns the document and
    /// the key. A cluster-scoped child gets no namespace.
    pub(crate) fn complete(
        &self,
        kind: &Kind,
        document: Value,
    ) -> Result<(ObjectKey, Value), ClientError> {
        let refused = |problem: &str| ClientError::NotApplicable {
            kind: kind.clone(),
            key: ObjectKey::cluster_scoped(""),
            problem: problem.to_owned(),
        };
        let Value::Object(mut members) = document else {
            return Err(refused("it is no object"));
        };
        let Some(Value::Object(metadata)) = members.get_mut("metadata") else {
            return Err(refused("it has no metadata"));
        };
        let text = |name: &str| {
            let text = metadata.get(name).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let key = ObjectKey::namespaced(text("namespace"), text("name"));
        if key.name().is_empty() {
            return Err(refused("its metadata has no name, and apply works by name"));
        }
        let key = self.key_of(kind, &key);
        match key.namespace() {
            Some(namespace) => metadata.insert("namespace".to_owned(), namespace.into()),
            // The namespace of a cluster-scoped child is removed, because the server would ignore it.
            None => metadata.remove("namespace"),
        };
        self.own(&key, metadata)?;
        Ok((key, Value::Object(members)))
    }

    /// Adds the controller reference and the label to a child's metadata.
    fn own(&self, key: &ObjectKey, metadata: &mut Map<String, Value>) -> Result<(), OwnerError> {
        let mut child = carrier(key);
        set_controller(&self.meta, &self.kind, &mut child)?;
        let uid = self.meta.uid_str();
        let mut references = match metadata.remove("ownerReferences") {
            Some(Value::Array(references)) => references,
            _ => Vec::new(),
        };
        references.retain(|reference| reference["uid"] != uid);
        let ours = child.metadata.owner_references.into_iter().flatten();
        // The encoding cannot fail, because an owner reference has only texts and booleans.
        references.extend(ours.filter_map(|ours| serde_json::to_value(ours).ok()));
        metadata.insert("ownerReferences".to_owned(), Value::Array(references));
        let mut labels = match metadata.remove("labels") {
            Some(Value::Object(labels)) => labels,
            _ => Map::new(),
        };
        labels.insert(self.label.clone(), uid.into());
        metadata.insert("labels".to_owned(), Value::Object(labels));
        Ok(())
    }
}

fn carrier(key: &ObjectKey) -> ConfigMap {
    ConfigMap {
        metadata: key.to_meta(),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;

    const LABEL: &str = "example.com/set";

    fn owner(uid: &str) -> SetOwner {
        let mut owner = carrier(&ObjectKey::namespaced("a", "owner"));
        owner.metadata.uid = Some(uid.to_owned());
        SetOwner::new(&owner, &Kind::of::<ConfigMap>(), LABEL.to_owned())
    }

    fn complete(document: Value) -> Result<(ObjectKey, Value), ClientError> {
        owner("u").complete(&Kind::of::<ConfigMap>(), document)
    }

    fn reference() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    #[test]
    fn a_document_gets_namespace_reference_and_label() {
        let (key, document) =
            complete(json!({"metadata": {"name": "c"}, "data": {"k": "v"}})).unwrap();
        assert_eq!(key, ObjectKey::namespaced("a", "c"));
        assert_eq!(
            document,
            json!({
                "metadata": {
                    "name": "c", "namespace": "a",
                    "labels": {LABEL: "u"}, "ownerReferences": [reference()],
                },
                "data": {"k": "v"},
            })
        );
        // Completing a document twice changes nothing, and keeps other owners and labels.
        let other = json!({"uid": "o"});
        let mut given = document;
        given["metadata"]["ownerReferences"] = json!([reference(), other]);
        given["metadata"]["labels"]["app"] = json!("web");
        let (_, again) = complete(given).unwrap();
        assert_eq!(
            again["metadata"]["ownerReferences"],
            json!([other, reference()])
        );
        assert_eq!(
            again["metadata"]["labels"],
            json!({LABEL: "u", "app": "web"})
        );
    }

    #[test]
    fn a_child_outside_the_namespace_of_its_owner_is_refused() {
        let elsewhere = complete(json!({"metadata": {"name": "c", "namespace": "b"}}));
        let kind = Kind::of::<Namespace>();
        let cluster = owner("u").complete(&kind, json!({"metadata": {"name": "c"}}));
        let named = json!({"metadata": {"name": "c", "namespace": "a"}});
        let with_namespace = owner("u").complete(&kind, named);
        for refused in [elsewhere, cluster, with_namespace] {
            let refused = refused.unwrap_err();
            let is_outside = matches!(
                refused,
                ClientError::Owner(
                    OwnerError::AcrossNamespaces { .. } | OwnerError::ClusterScoped { .. }
                )
            );
            assert!(is_outside, "{refused}");
        }
    }

    #[test]
    fn a_cluster_scoped_child_loses_its_namespace() {
        let mut owner = carrier(&ObjectKey::cluster_scoped("owner"));
        owner.metadata.uid = Some("u".to_owned());
        let kind = Kind::of::<Namespace>();
        let owner = SetOwner::new(&owner, &kind, LABEL.to_owned());
        let document = json!({"metadata": {"name": "c", "namespace": "a"}});
        let (key, document) = owner.complete(&kind, document).unwrap();
        assert_eq!(key, ObjectKey::cluster_scoped("c"));
        assert!(document["metadata"]["namespace"].is_null(), "{document}");
        let absent = owner.key_of(&kind, &ObjectKey::namespaced("a", "c"));
        assert_eq!(absent, ObjectKey::cluster_scoped("c"));
    }

    #[test]
    fn a_document_without_a_name_is_refused() {
        for document in [
            json!([]),
            json!({}),
            json!({"metadata": {"generateName": "c-"}}),
        ] {
            let refused = complete(document).unwrap_err();
            let is_refused = matches!(refused, ClientError::NotApplicable { .. });
            assert!(is_refused, "{refused}");
        }
        assert!(matches!(
            owner("").check(),
            Err(OwnerError::OwnerWithoutUid { .. })
        ));
        assert_eq!(owner("u").check(), Ok(()));
    }

    /// SET-1: only a child of the owner is deleted.
    #[test]
    fn a_child_is_told_by_the_uid_of_its_controller() {
        let mut child = carrier(&ObjectKey::namespaced("a", "c"));
        let foreign = owner("u").check_own(&child);
        assert!(matches!(foreign, Err(OwnerError::NotControlled { .. })));
        child.metadata.owner_references = Some(vec![serde_json::from_value(reference()).unwrap()]);
        assert!(owner("u").owns(&child));
        // The owner was deleted and created again with the same name, so its uid differs.
        assert!(!owner("v").owns(&child) && !owner("").owns(&child));
        let foreign = owner("v").check_own(&child);
        assert!(matches!(foreign, Err(OwnerError::AlreadyControlled { .. })));
    }
}
