//! Tests of lists: selectors, pages, revisions.

use proptest::prelude::*;

use super::*;

fn labelled(server: &mut Server, name: &str, label: &str) {
    let mut body = config_map(name);
    body["metadata"]["labels"] = json!({"x": label});
    server.create("configmaps", body).unwrap();
}

fn options(json: &[(&str, &str)]) -> ListQuery {
    let mut options = ListQuery::default();
    for (name, given) in json {
        let value = Some((*given).to_owned());
        match *name {
            "labels" => options.label_selector = value,
            "fields" => options.field_selector = value,
            "rv" => options.resource_version = value,
            "match" => options.resource_version_match = value,
            "continue" => options.continue_token = value,
            "limit" => options.limit = given.parse().unwrap(),
            other => panic!("{other}"),
        }
    }
    options
}

#[test]
fn lists_are_filtered_by_selectors() {
    let mut server = Server::new();
    labelled(&mut server, "a", "1");
    labelled(&mut server, "b", "2");
    assert_eq!(server.names("configmaps", &options(&[])), ["a", "b"]);
    assert_eq!(
        server.names("configmaps", &options(&[("labels", "x=1")])),
        ["a"]
    );
    assert_eq!(
        server.names("configmaps", &options(&[("fields", "metadata.name!=a")])),
        ["b"]
    );
    let other = options(&[("fields", "metadata.namespace=other")]);
    assert!(server.names("configmaps", &other).is_empty());
    server.create("pods", pod("p", Some("n1"))).unwrap();
    server.create("pods", pod("q", None)).unwrap();
    assert_eq!(
        server.names("pods", &options(&[("fields", "spec.nodeName=")])),
        ["q"]
    );
    let fields = "spec.nodeName!=n1,status.phase=Pending";
    assert_eq!(server.names("pods", &options(&[("fields", fields)])), ["q"]);
    for (plural, field, message) in [
        (
            "configmaps",
            "data.a=b",
            "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "services",
            "status.phase=Running",
            "field label not supported: status.phase",
        ),
        (
            "pods",
            "spec.containers=x",
            "field label not supported: spec.containers",
        ),
    ] {
        let done = server.list(plural, &options(&[("fields", field)]));
        assert_eq!(refused(done), (400, message.to_owned()));
    }
}

#[test]
fn all_pages_show_one_revision() {
    let mut server = Server::new();
    for name in ["a", "b", "c", "d", "e"] {
        server.create("configmaps", config_map(name)).unwrap();
    }
    let first = server
        .list("configmaps", &options(&[("limit", "2")]))
        .unwrap();
    assert_eq!(first.remaining, Some(3));
    let token = first.continue_token.unwrap();
    server.create("configmaps", config_map("bb")).unwrap();
    server.delete("configmaps", "d").unwrap();
    let next = options(&[("limit", "2"), ("continue", &token)]);
    let second = server.list("configmaps", &next).unwrap();
    let names: Vec<_> = second
        .items
        .iter()
        .map(|o| o.stored.name.to_string())
        .collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(
        (second.revision, second.remaining),
        (first.revision, Some(1))
    );
    let token = second.continue_token.unwrap();
    assert_eq!(
        server.names("configmaps", &options(&[("continue", &token)])),
        ["e"]
    );
    let misuse = options(&[("continue", &token), ("rv", "5")]);
    let message = "specifying resource version is not allowed when using continue";
    assert_eq!(
        refused(server.list("configmaps", &misuse)),
        (400, message.to_owned())
    );
    server.create("configmaps", config_map("z")).unwrap();
    server.registry.compact();
    let status = server
        .list("configmaps", &options(&[("continue", &token)]))
        .unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let again = status.metadata.continue_token;
    assert_eq!(
        server.names("configmaps", &options(&[("continue", &again)])),
        ["e", "z"]
    );
}

#[test]
fn pages_over_all_namespaces_continue_across_them() {
    let mut server = Server::new();
    let resource = server.resource("configmaps");
    let now = server.now;
    for (namespace, name) in [("default", "a"), ("default", "b"), ("kube-system", "a")] {
        let options = WriteOptions::default();
        let body = config_map(name);
        server
            .registry
            .create(
                ObjectTarget::collection(&resource, Some(namespace)),
                body,
                &options,
                now,
            )
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut wanted = options(&[("limit", "1")]);
    loop {
        let page = server.registry.list(&resource, None, &wanted).unwrap();
        seen.extend(
            page.items
                .iter()
                .map(|o| format!("{}/{}", o.stored.namespace, o.stored.name)),
        );
        wanted.continue_token = page.continue_token;
        if wanted.continue_token.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["default/a", "default/b", "kube-system/a"]);
}

proptest! {
    // SRV-STORE-5: the pages of a list together have the same objects in the same order as the list without pages,
    // even if objects are written between two pages.
    #[test]
    fn the_pages_together_are_the_list(
        objects in prop::collection::btree_set(("[a-c][a-c.-]{0,2}", "[a-c][a-c.-]{0,2}"), 1..12),
        limit in 1..4i64,
        everywhere: bool,
    ) {
        let mut server = Server::new();
        let resource = server.resource("configmaps");
        let put = |server: &mut Server, namespace: &str, name: &str| {
            let body = config_map(name);
            server.registry.put(&resource.storage, namespace, name, body);
        };
        for (namespace, name) in &objects {
            put(&mut server, namespace, name);
        }
        let of = objects.first().filter(|_| !everywhere).map(|(of, _)| of.as_str());
        let place = |object: &VersionedObject| format!("{}/{}", object.stored.namespace, object.stored.name);
        let whole = server.registry.list(&resource, of, &options(&[])).unwrap();
        let whole: Vec<_> = whole.items.iter().map(place).collect();
        let mut seen = Vec::new();
        let mut wanted = ListQuery { limit, ..ListQuery::default() };
        loop {
            let page = server.registry.list(&resource, of, &wanted).unwrap();
            seen.extend(page.items.iter().map(place));
            for (namespace, name) in &objects {
                put(&mut server, namespace, &format!("{name}b"));
            }
            wanted.continue_token = page.continue_token;
            if wanted.continue_token.is_none() {
                break;
            }
        }
        prop_assert!(whole.is_sorted());
        prop_assert_eq!(seen, whole);
    }
}

#[test]
fn a_selected_page_has_no_remaining_count_and_zero_ignores_the_limit() {
    let mut server = Server::new();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        labelled(&mut server, name, label);
    }
    let page = server
        .list("configmaps", &options(&[("limit", "1"), ("labels", "x=1")]))
        .unwrap();
    assert!(page.continue_token.is_some() && page.remaining.is_none());
    let all = server
        .list("configmaps", &options(&[("limit", "1"), ("rv", "0")]))
        .unwrap();
    assert_eq!((all.items.len(), all.continue_token), (3, None));
    assert_eq!(
        server
            .names("configmaps", &options(&[("limit", "-1")]))
            .len(),
        3
    );
}

#[test]
fn exact_revisions_list_the_past() {
    let mut server = Server::new();
    // Writes a ConfigMap in another namespace, which must not make the revisions of this list expire.
    let resource = server.resource("configmaps");
    let elsewhere = |server: &mut Server| {
        let (namespace, body) = ("kube-system", config_map("s"));
        server.registry.put(&resource.storage, namespace, "s", body);
    };
    elsewhere(&mut server);
    let first = server.create("configmaps", config_map("a")).unwrap();
    server
        .merge("configmaps", "a", json!({"data": {"a": "2"}}))
        .unwrap();
    server.create("configmaps", config_map("b")).unwrap();
    elsewhere(&mut server);
    let rv = version(&first).to_string();
    let exact = options(&[("rv", &rv), ("match", "Exact")]);
    let page = server.list("configmaps", &exact).unwrap();
    assert_eq!(page.items[0].value(), &first);
    assert_eq!((page.items.len(), page.revision), (1, version(&first)));
    let page = server
        .list("configmaps", &options(&[("rv", &rv), ("limit", "1")]))
        .unwrap();
    assert_eq!(
        (page.items.len(), page.revision, page.continue_token),
        (1, version(&first), None)
    );
    let newer = options(&[("rv", &rv), ("match", "NotOlderThan")]);
    assert_eq!(server.names("configmaps", &newer), ["a", "b"]);
    server.registry.compact();
    assert_eq!(
        refused(server.list("configmaps", &exact)),
        (
            410,
            "The resourceVersion for the provided list is too old.".to_owned()
        )
    );
}

#[test]
fn revisions_are_refused_in_the_servers_words() {
    let server = Server::new();
    let status = server
        .list("configmaps", &options(&[("rv", "999")]))
        .unwrap_err();
    let current = server.registry.revision();
    let message = format!("Timeout: Too large resource version: 999, current: {current}");
    assert_eq!((status.code, status.message), (504, message));
    assert_eq!(status.details.unwrap().retry_after_seconds, 1);
    assert_eq!(
        refused(server.list("configmaps", &options(&[("rv", "abc")]))),
        (
            400,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
                .to_owned()
        )
    );
    let about = |wanted: &[(&str, &str)]| refused(server.list("configmaps", &options(wanted))).1;
    let invalid = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: ";
    assert_eq!(
        about(&[("match", "Exact")]),
        format!(
            "{invalid}Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    );
    assert_eq!(
        about(&[("rv", "5"), ("match", "About")]),
        format!(
            "{invalid}Unsupported value: \"About\": supported values: \"Exact\", \"NotOlderThan\", \"\""
        )
    );
    for (token, why) in [
        (
            "garbage",
            "invalid character '\\u0081' looking for beginning of value",
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjkiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0",
            "server does not recognize this encoded version meta.k8s.io/v9",
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0",
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NTAsInN0YXJ0IjoiLi4vLi4vIn0",
            "../../",
        ),
    ] {
        let wanted = format!("invalid continue token: continue key is not valid: {why}");
        assert_eq!(about(&[("limit", "1"), ("continue", token)]), wanted);
    }
    let namespaces = server.resource("namespaces");
    let done = server.registry.get(
        ObjectTarget::object(&namespaces, None, "default").part(Subresource::Main),
        Some("999"),
    );
    assert_eq!(refused(done).0, 504);
}
