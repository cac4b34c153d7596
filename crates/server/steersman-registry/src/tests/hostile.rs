//! Property tests that no input of a client makes a verb panic or leaves a half-done write.

use proptest::prelude::*;

use super::*;

/// Generates arbitrary JSON in which many field names are those that the server reads.
pub(super) fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "", "a", "v1", "0", "ClusterIP", "RollingUpdate", "ünïcödé"
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata", "spec", "status", "name", "labels", "annotations", "finalizers", "replicas",
        "template", "containers", "ports", "env", "resources", "limits", "strategy", "selector",
        "matchLabels", "data", "stringData", "ownerReferences", "uid", "versions", "names",
        "schema", "openAPIV3Schema", "properties", "conditions", "livenessProbe", "volumes",
        "jobTemplate", "volumeClaimTemplates", "generateName", "storage", "served", "group",
    ]);
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6).prop_map(|members| {
                let named = members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(named.collect())
            }),
        ]
    })
}

/// Returns whether a write was successful, or was refused and has left the store unchanged (at the revision `before`).
pub(super) fn whole<T>(server: &mut Server, before: u64, done: &Done<T>) -> bool {
    done.is_ok()
        || (server.registry.revision() == before && server.registry.take_changed().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // SRV-3, SRV-REG-1: no body makes a verb panic, and a refusal changes nothing.
    #[test]
    fn no_body_breaks_a_verb(
        parts in prop::collection::vec(anything(), 4),
        pick in any::<prop::sample::Index>(),
    ) {
        let mut server = Server::new();
        let all = server.registry.resources().to_vec();
        let resource = Arc::clone(&all[pick.index(all.len())]);
        let namespace = Server::namespace(&resource);
        let (options, now) = (WriteOptions::default(), server.now);
        let shaped = json!({"metadata": {"name": "x"}, "spec": parts[0], "status": parts[1],
            "data": parts[2], "template": parts[3]});
        for body in [parts[0].clone(), shaped] {
            drop(server.registry.take_changed());
            let before = server.registry.revision();
            let done =
                server.registry.create(ObjectTarget::collection(&resource, namespace), body.clone(), &options, now);
            prop_assert!(whole(&mut server, before, &done));
            for part in [Subresource::Main, Subresource::Status, Subresource::Scale] {
                drop(server.registry.take_changed());
                let before = server.registry.revision();
                let body = body.clone();
                let done = server
                    .registry
                    .update(ObjectTarget::object(&resource, namespace, "x").part(part), body, &options, now);
                prop_assert!(whole(&mut server, before, &done));
                for kind in [PatchKind::Merge, PatchKind::Json, PatchKind::Strategic, PatchKind::Apply] {
                    let patch = json!({"spec": parts[1], "metadata": parts[2]});
                    let operation = json!([{"op": "replace", "path": "", "value": parts[3]}]);
                    let document = if kind == PatchKind::Json { operation } else { patch };
                    let bytes = document.to_string();
                    let bytes = bytes.as_bytes();
                    drop(server.registry.take_changed());
                    let before = server.registry.revision();
                    let done = server
                        .registry
                        .patch(ObjectTarget::object(&resource, namespace, "x").part(part), kind, bytes, &options, now);
                    prop_assert!(whole(&mut server, before, &done));
                }
                let _ = server.registry.get(ObjectTarget::object(&resource, namespace, "x").part(part), None);
            }
        }
        let options = DeleteOptions::default();
        drop(server.registry.take_changed());
        let before = server.registry.revision();
        let done = server.registry.delete(ObjectTarget::object(&resource, namespace, "x"), &options, now);
        prop_assert!(whole(&mut server, before, &done));
    }

    #[test]
    fn no_query_breaks_a_list_or_watch(
        texts in prop::collection::vec("[a-c=!,()<> .\\\\0-9é]{0,12}", 6),
        limit in any::<i64>(),
        initial in any::<Option<bool>>(),
    ) {
        let server = Server::new();
        let text = |at: usize| Some(texts[at].clone());
        let query = ListQuery {
            shard_selector: text(5),
            label_selector: text(0), field_selector: text(1), resource_version: text(2),
            resource_version_match: text(3), continue_token: text(4), limit,
            send_initial_events: initial, allow_bookmarks: true,
        };
        let _ = server.list("pods", &query);
        if let Ok(mut cursor) = server.watch("pods", &query) {
            server.poll(&mut cursor);
        }
    }
}
