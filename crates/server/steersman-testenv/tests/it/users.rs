//! Users: the identity that the server reports, and the contents of their kubeconfigs.

use kube_client::config::Kubeconfig;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::{Backend, TestEnv};

use crate::environments::get;

#[tokio::test(start_paused = true)]
async fn roles_and_bindings_grant_the_permissions_of_a_user() {
    let env = TestEnv::in_process();
    let ann = env
        .user("ann")
        .groups(["dev"])
        .allow(["get", "list"], ["pods", "websites.example.com/status"])
        .allow_in("default", ["create"], ["configmaps"])
        .bind("view", "kube-system")
        .bind_everywhere("edit")
        .create()
        .await
        .unwrap();
    assert_eq!(ann.name(), "ann");
    let server = env.server().unwrap();
    let of_ann = |resource: &str, namespace: &str| -> Vec<(String, String)> {
        let all = server.list(resource, namespace);
        let own = all.iter().filter(|one| one["subjects"][0]["name"] == "ann");
        let role = |one: &serde_json::Value| {
            let role = &one["roleRef"];
            let text = |member: &str| role[member].as_str().unwrap_or_default().to_owned();
            (text("kind"), text("name"))
        };
        own.map(role).collect()
    };
    let everywhere = of_ann("clusterrolebindings.rbac.authorization.k8s.io", "");
    assert_eq!(everywhere.len(), 2);
    let bound = ("ClusterRole".to_owned(), "edit".to_owned());
    assert!(everywhere.contains(&bound), "{everywhere:?}");
    let (_, own) = everywhere.iter().find(|role| **role != bound).unwrap();
    let role = server
        .get("clusterroles.rbac.authorization.k8s.io", "", own)
        .unwrap();
    assert_eq!(role["rules"][1]["resources"][0], "websites/status");
    let there = of_ann("rolebindings.rbac.authorization.k8s.io", "kube-system");
    assert_eq!(there, [("ClusterRole".to_owned(), "view".to_owned())]);
    let here = of_ann("rolebindings.rbac.authorization.k8s.io", "default");
    assert_eq!(here[0].0, "Role");
    let client = ann.client().unwrap();
    get(&client, "/api/v1/pods").await.unwrap();
    let refused = get(&client, "/api/v1/nodes").await.unwrap_err();
    assert!(
        matches!(&refused, kube_client::Error::Api(status) if status.code == 403),
        "{refused}"
    );
}

#[tokio::test]
async fn a_kubeconfig_of_a_user_impersonates_that_user() {
    let builder = TestEnv::builder().backend(Backend::Embedded);
    let env = builder.server(ApiServer::new()).start().await.unwrap();
    let ann = env
        .user("ann")
        .groups(["dev", "ops"])
        .create()
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(ann.kubeconfig().unwrap()).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
    assert_eq!(user.impersonate.as_deref(), Some("ann"));
    let groups = user.impersonate_groups.as_deref().unwrap();
    assert_eq!(groups, ["dev", "ops"]);
    let headers = &ann.config().unwrap().headers;
    assert_eq!(headers.len(), 3, "one header for each group: {headers:?}");
    get(&ann.client().unwrap(), "/api/v1/namespaces")
        .await
        .unwrap();
    let own = Kubeconfig::from_yaml(&env.kubeconfig().unwrap()).unwrap();
    assert_eq!(
        own.auth_infos[0].auth_info.as_ref().unwrap().impersonate,
        None
    );
}
