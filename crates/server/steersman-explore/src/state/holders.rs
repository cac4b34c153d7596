//! Machine: tells to which object a uid, an address or a resource version belongs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::Value;

use crate::object_id::ObjectId;
use crate::state::texts::TextPlace;

/// What replaces the uid of an owner reference if no object has this uid.
const GONE: &str = "<uid of an object that is gone>";

/// The objects of a server by their uids, addresses and resource versions.
///
/// A server counts addresses and versions up, so that they are equal in undisturbed runs, and different after an
/// additional write or a deletion. Replaced by the name of their object, they are compared by what they refer to.
#[derive(Debug, Default)]
pub(super) struct TextHolders {
    uids: HashMap<String, ObjectId>,
    /// `None` for an address of several objects.
    addresses: HashMap<String, Option<ObjectId>>,
    /// By version and namespace. `None` for a version of several objects.
    versions: HashMap<String, BTreeMap<String, Option<ObjectId>>>,
    /// The members that hold versions; `None` for each member with `version` in its name.
    version_members: Option<BTreeSet<String>>,
}

impl TextHolders {
    /// Adds the texts of an object, as the server stores it.
    pub(super) fn add(&mut self, id: &ObjectId, object: &Value) {
        let metadata = &object["metadata"];
        if let Some(uid) = metadata["uid"].as_str().filter(|uid| !uid.is_empty()) {
            self.uids.insert(uid.to_owned(), id.clone());
        }
        if let Some(version) = metadata["resourceVersion"].as_str() {
            let namespaces = self.versions.entry(version.to_owned()).or_default();
            let holder = namespaces.entry(id.namespace.clone());
            holder
                .and_modify(|holder| share(holder, id))
                .or_insert_with(|| Some(id.clone()));
        }
        for address in addresses(id, object) {
            let holder = self.addresses.entry(address.to_owned());
            holder
                .and_modify(|holder| share(holder, id))
                .or_insert_with(|| Some(id.clone()));
        }
    }

    /// Returns the object that a text in an object of a namespace refers to, with `uid`, `address` or `version`.
    ///
    /// A version is a number in a member that holds versions, and refers to an object of the same namespace.
    pub(super) fn find(
        &self,
        place: &TextPlace<'_>,
        namespace: &str,
        text: &str,
    ) -> Option<(&'static str, &ObjectId)> {
        if let Some(id) = self.uids.get(text) {
            return Some(("uid", id));
        }
        if let Some(id) = self.addresses.get(text) {
            return id.as_ref().map(|id| ("address", id));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || place.is_key() || !self.holds_versions(place.member_name()) {
            return None;
        }
        let id = self.versions.get(text)?.get(namespace)?.as_ref();
        id.map(|id| ("version", id))
    }

    fn holds_versions(&self, member: &str) -> bool {
        match &self.version_members {
            Some(members) => members.contains(member),
            None => member.to_ascii_lowercase().contains("version"),
        }
    }

    /// Keeps versions in these members alone: a number that is a version by chance is then no version in a world.
    pub(super) fn set_version_members(&mut self, members: BTreeSet<String>) {
        self.version_members = Some(members);
    }

    /// Returns what replaces a text in an object of a namespace; `shown` returns the identity to show for an object.
    pub(super) fn replacement(
        &self,
        place: &TextPlace<'_>,
        namespace: &str,
        text: &str,
        shown: impl Fn(&ObjectId) -> ObjectId,
    ) -> Option<String> {
        match self.find(place, namespace, text) {
            Some((what, id)) => Some(format!("<{what} of {}>", shown(id))),
            None => place.is_owner_uid().then(|| GONE.to_owned()),
        }
    }

    /// Replaces the identities of the objects.
    pub(super) fn rename(&mut self, rename: impl Fn(&mut ObjectId)) {
        self.uids.values_mut().for_each(&rename);
        self.addresses.values_mut().flatten().for_each(&rename);
        for (version, mut namespaces) in std::mem::take(&mut self.versions) {
            namespaces.values_mut().flatten().for_each(&rename);
            let renamed = namespaces.into_iter().map(|(namespace, id)| match id {
                Some(id) => (id.namespace.clone(), Some(id)),
                None => (namespace, None),
            });
            self.versions.insert(version, renamed.collect());
        }
    }
}

/// Adds the holder of a text; a text of several objects has no holder.
fn share(holder: &mut Option<ObjectId>, id: &ObjectId) {
    if holder.as_ref() != Some(id) {
        *holder = None;
    }
}

/// Returns the addresses that the server gave an object: those of a Service, and of a Pod with a network of its own.
fn addresses<'a>(id: &ObjectId, object: &'a Value) -> Vec<&'a str> {
    let mut found = match (id.group.as_str(), id.kind.as_str()) {
        ("", "Service") => {
            let spec = &object["spec"];
            let all = spec["clusterIPs"].as_array().into_iter().flatten();
            let ingress = object["status"]["loadBalancer"]["ingress"].as_array();
            let outer = ingress.into_iter().flatten().map(|one| &one["ip"]);
            all.chain([&spec["clusterIP"]])
                .chain(outer)
                .filter_map(Value::as_str)
                .collect()
        }
        ("", "Pod") if object["spec"]["hostNetwork"] != true => {
            let status = &object["status"];
            let all = status["podIPs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| &one["ip"]);
            all.chain([&status["podIP"]])
                .filter_map(Value::as_str)
                .collect()
        }
        _ => Vec::new(),
    };
    found.retain(|text| text.parse::<IpAddr>().is_ok());
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::texts::edit_texts;

    fn replaced(objects: &[Value], value: &Value) -> Value {
        let mut holders = TextHolders::default();
        for object in objects {
            holders.add(&ObjectId::of(object), object);
        }
        let mut value = value.clone();
        edit_texts(&mut value, &mut |place, text| {
            holders.replacement(place, "shop", text, ObjectId::clone)
        });
        value
    }

    fn service(name: &str, address: &str) -> Value {
        let metadata =
            json!({"namespace": "shop", "name": name, "uid": "", "resourceVersion": "7"});
        let spec = json!({"clusterIP": address, "clusterIPs": [address]});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn an_address_of_a_single_object_is_replaced() {
        let objects = [
            service("a", "10.0.0.1"),
            service("b", "None"),
            service("c", "10.0.0.3"),
            service("d", "10.0.0.3"),
        ];
        let value =
            json!({"a": "10.0.0.1", "b": "None", "c": "10.0.0.3", "d": "10.0.0.4", "e": ""});
        let mut expected = value.clone();
        expected["a"] = json!("<address of Service shop/a>");
        assert_eq!(replaced(&objects, &value), expected);
    }

    #[test]
    fn the_address_of_a_pod_is_replaced_but_not_that_of_its_node() {
        let pod = |network: bool| {
            let status =
                json!({"podIP": "10.244.0.5", "podIPs": [{"ip": "10.244.0.5"}, {"ip": "fd00::5"}]});
            let metadata = json!({"namespace": "shop", "name": "a"});
            let spec = json!({"hostNetwork": network});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
        };
        let value = json!(["10.244.0.5", "fd00::5"]);
        let expected = json!(["<address of Pod shop/a>", "<address of Pod shop/a>"]);
        assert_eq!(replaced(&[pod(false)], &value), expected);
        assert_eq!(replaced(&[pod(true)], &value), value);
    }

    #[test]
    fn a_version_is_replaced_in_a_member_that_is_named_so_and_in_its_namespace() {
        let of_shop = service("a", "None");
        let mut of_other = service("b", "None");
        of_other["metadata"]["namespace"] = json!("other");
        of_other["metadata"]["resourceVersion"] = json!("8");
        let value = json!({"config-Version": "7", "versions": ["7", "8", 7], "port": "7"});
        let version = "<version of Service shop/a>";
        let expected =
            json!({"config-Version": version, "versions": [version, "8", 7], "port": "7"});
        assert_eq!(replaced(&[of_shop.clone(), of_other], &value), expected);
        assert_eq!(replaced(&[of_shop, service("c", "None")], &value), value);
    }

    #[test]
    fn a_renamed_object_holds_its_texts() {
        let mut object = service("a", "10.0.0.1");
        object["metadata"]["uid"] = json!("u");
        let mut holders = TextHolders::default();
        holders.add(&ObjectId::of(&object), &object);
        holders.set_version_members(["version".to_owned()].into());
        holders.rename(|id| id.namespace = "renamed".to_owned());
        let mut value = json!({"a": "u", "b": "10.0.0.1", "version": "7", "other-version": "7"});
        edit_texts(&mut value, &mut |place, text| {
            holders.replacement(place, "renamed", text, ObjectId::clone)
        });
        let of = |what: &str| format!("<{what} of Service renamed/a>");
        let expected = json!({
            "a": of("uid"), "b": of("address"), "version": of("version"), "other-version": "7",
        });
        assert_eq!(value, expected);
    }
}
