//! Tests of lists: pages, selectors, versions.

mod future_reads;

use serde_json::json;

use crate::support::{
    CONFIG_MAPS, ask, config_map, create_config_maps, get, merge, server, website, website_crd,
};

fn names(list: &serde_json::Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_its_kind_and_items() {
    let server = server();
    let empty = get(&server, CONFIG_MAPS).await;
    assert!(empty.text.starts_with(
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""#
    ));
    assert_eq!(empty.expect(200)["items"], json!([]));
    create_config_maps(&server, &["b", "a"]).await;
    let list = get(&server, CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!(list["items"][0]["data"]["k"], "v");
    // Items of a built-in list carry neither kind nor version, those of custom resources do.
    assert_eq!(list["items"][0].get("kind"), None);
    server.install_crd(website_crd()).unwrap();
    server.create(website("one")).unwrap();
    let list = get(&server, "/apis/example.com/v1/websites")
        .await
        .expect(200);
    assert_eq!(list["items"][0]["kind"], "Website");
    assert_eq!(list["metadata"]["continue"], "");
}

#[tokio::test(start_paused = true)]
async fn later_pages_show_the_revision_of_the_first() {
    let server = server();
    create_config_maps(&server, &["a", "b", "c"]).await;
    let first = get(&server, &format!("{CONFIG_MAPS}?limit=2"))
        .await
        .expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    create_config_maps(&server, &["d"]).await;
    let rest = get(&server, &format!("{CONFIG_MAPS}?limit=2&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert_eq!(rest["metadata"].get("continue"), None);
}

#[tokio::test(start_paused = true)]
async fn a_page_after_a_compaction_expires() {
    let server = server();
    create_config_maps(&server, &["a", "b"]).await;
    let first = get(&server, &format!("{CONFIG_MAPS}?limit=1"))
        .await
        .expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    create_config_maps(&server, &["c"]).await;
    server.compact();
    let expired = get(&server, &format!("{CONFIG_MAPS}?limit=1&continue={token}"))
        .await
        .expect(410);
    assert_eq!(expired["reason"], "Expired");
}

#[tokio::test(start_paused = true)]
async fn selectors_filter_lists() {
    let server = server();
    create_config_maps(&server, &["a", "b"]).await;
    let label = json!({ "metadata": { "labels": { "on": "yes" } } });
    merge(&server, &format!("{CONFIG_MAPS}/b"), &label)
        .await
        .expect(200);
    let by_label = get(
        &server,
        &format!("{CONFIG_MAPS}?labelSelector=on%20in%20(yes)"),
    )
    .await;
    assert_eq!(names(&by_label.expect(200)), ["b"]);
    let by_name = format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da");
    assert_eq!(names(&get(&server, &by_name).await.expect(200)), ["a"]);
    let everywhere = get(
        &server,
        "/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault",
    );
    assert_eq!(names(&everywhere.await.expect(200)), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_arrives_in_pieces_and_whole() {
    let server = server();
    let filler = "x".repeat(1000);
    for number in 0..500 {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": format!("m{number:03}") },
            "data": { "filler": filler },
        });
        server.create(object).unwrap();
    }
    let list = get(&server, CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&list).len(), 500);
    let indented = get(&server, &format!("{CONFIG_MAPS}?pretty=true")).await;
    assert!(indented.text.lines().count() > 500);
    assert_eq!(indented.json(), list);
    // Browsers and curl get indented JSON by default; an explicit wish for other clients is
    // ignored.
    for (agent, query, is_indented) in [
        ("curl/8.5.0", "", true),
        ("curl/8.5.0", "?pretty=0", false),
        ("kubectl/v1.36.0", "", false),
        ("kubectl/v1.36.0", "?pretty=maybe", false),
    ] {
        let (path, headers) = (format!("{CONFIG_MAPS}{query}"), [("user-agent", agent)]);
        let answer = ask(&server, "GET", &path, &headers, "").await;
        assert_eq!(
            answer.text.lines().count() > 500,
            is_indented,
            "{agent} {query}"
        );
        assert_eq!(answer.json(), list);
    }
}

/// SRV-STORE-5, for two namespaces with one name that is a prefix of the other.
#[tokio::test(start_paused = true)]
async fn pages_over_all_namespaces_lose_nothing() {
    let server = server();
    for namespace in ["web", "web-2"] {
        let made = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": namespace },
        });
        server.create(made).unwrap();
        for name in ["x", "y"] {
            let mut object = config_map(name);
            object["metadata"]["namespace"] = json!(namespace);
            server.create(object).unwrap();
        }
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("/api/v1/configmaps?limit=1&continue={token}");
        let page = get(&server, &path).await.expect(200);
        for item in page["items"].as_array().unwrap() {
            let metadata = &item["metadata"];
            let place = [&metadata["namespace"], &metadata["name"]];
            seen.push(place.map(|part| part.as_str().unwrap()).join("/"));
        }
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => break,
        }
    }
    // As in the store of a real server: `-` comes before `/`.
    assert_eq!(seen, ["web-2/x", "web-2/y", "web/x", "web/y"]);
}
