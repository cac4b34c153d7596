//! Tests of `kubectl create` for each kind it can generate. kubectl sends them in protobuf.

use serde_json::{Value, json};

use super::world::World;

/// Runs `kubectl create` with these arguments, and reads the object from the server.
async fn create(world: &World, arguments: &str, resource: &str, name: &str) -> Value {
    let words = ["create"].into_iter().chain(arguments.split(' '));
    world.run(&words.collect::<Vec<_>>()).await;
    let namespace = match resource {
        "namespaces"
        | "clusterroles.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io"
        | "priorityclasses.scheduling.k8s.io" => "",
        _ => "default",
    };
    let found = world.server.get(resource, namespace, name);
    found.unwrap_or_else(|| panic!("kubectl create {arguments} left nothing"))
}

#[tokio::test]
async fn workloads() {
    let Some(world) = World::new().await else {
        return;
    };
    let arguments = "deployment web --image=site:1 --replicas=3 --port=80";
    let found = create(&world, arguments, "deployments.apps", "web").await;
    assert_eq!(found["spec"]["replicas"], 3);
    assert_eq!(found["metadata"]["labels"], json!({ "app": "web" }));
    let container = &found["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["name"], &container["image"]),
        (&json!("site"), &json!("site:1"))
    );
    assert_eq!(container["ports"][0]["containerPort"], 80);
    assert_eq!(container["resources"], json!({}));

    let arguments = "job once --image=task -- do it";
    let found = create(&world, arguments, "jobs.batch", "once").await;
    let pod = &found["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["containers"][0]["command"], json!(["do", "it"]));

    let arguments = "cronjob nightly --image=task --schedule=0/5";
    let mut words: Vec<&str> = ["create"].into_iter().chain(arguments.split(' ')).collect();
    words.pop();
    words.push("--schedule=*/5 * * * *");
    world.run(&words).await;
    let found = world.server.get("cronjobs.batch", "default", "nightly");
    let found = found.unwrap();
    assert_eq!(found["spec"]["schedule"], "*/5 * * * *");
    let arguments = "job manual --from=cronjob/nightly";
    let found = create(&world, arguments, "jobs.batch", "manual").await;
    let owner = &found["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("CronJob"), &json!("nightly"))
    );
    let pod = &found["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "task");

    world
        .run(&["run", "single", "--image=shell", "--env=A=b"])
        .await;
    let found = world.server.get("pods", "default", "single").unwrap();
    let container = &found["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{ "name": "A", "value": "b" }]));
}

#[tokio::test]
async fn services_and_ingresses() {
    let Some(world) = World::new().await else {
        return;
    };
    let arguments = "service clusterip inside --tcp=80:8080";
    let found = create(&world, arguments, "services", "inside").await;
    let port = &found["spec"]["ports"][0];
    assert_eq!(
        (&port["port"], &port["targetPort"]),
        (&json!(80), &json!(8080))
    );
    assert_eq!(found["spec"]["selector"], json!({ "app": "inside" }));
    assert!(port.get("nodePort").is_none());

    let arguments = "service clusterip headless --clusterip=None";
    let found = create(&world, arguments, "services", "headless").await;
    assert_eq!(found["spec"]["clusterIP"], "None");
    let arguments = "service nodeport node --tcp=80:8080 --node-port=30123";
    let found = create(&world, arguments, "services", "node").await;
    assert_eq!(found["spec"]["ports"][0]["nodePort"], 30123);
    let arguments = "service loadbalancer outside --tcp=443";
    let found = create(&world, arguments, "services", "outside").await;
    assert_eq!(found["spec"]["type"], "LoadBalancer");
    let arguments = "service externalname away --external-name=away.example.com";
    let found = create(&world, arguments, "services", "away").await;
    assert_eq!(found["spec"]["externalName"], "away.example.com");

    let arguments = "ingress site --class=nginx --rule=a.example.com/x*=inside:80,tls=cert";
    let found = create(&world, arguments, "ingresses.networking.k8s.io", "site").await;
    assert_eq!(found["spec"]["ingressClassName"], "nginx");
    assert_eq!(
        found["spec"]["tls"],
        json!([{ "hosts": ["a.example.com"], "secretName": "cert" }])
    );
    assert_eq!(
        found["spec"]["rules"],
        json!([{ "host": "a.example.com", "http": { "paths": [{
            "path": "/x", "pathType": "Prefix",
            "backend": { "service": { "name": "inside", "port": { "number": 80 } } },
        }] } }])
    );

    world
        .run(&["create", "deployment", "web", "--image=site"])
        .await;
    world
        .run(&[
            "expose", "deployment", "web", "--port=80", "--target-port=http",
        ])
        .await;
    let found = world.server.get("services", "default", "web").unwrap();
    assert_eq!(found["spec"]["ports"][0]["targetPort"], "http");
}

#[tokio::test]
async fn configuration() {
    let Some(world) = World::new().await else {
        return;
    };
    let arguments = "configmap settings --from-literal=a=1 --from-literal=b=";
    let found = create(&world, arguments, "configmaps", "settings").await;
    assert_eq!(found["data"], json!({ "a": "1", "b": "" }));
    let arguments = "secret generic key --from-literal=k=v";
    let found = create(&world, arguments, "secrets", "key").await;
    assert_eq!(found["data"], json!({ "k": "dg==" }));
    assert_eq!(found["type"], "Opaque");
    let arguments =
        "secret docker-registry pull --docker-username=u --docker-password=p --docker-server=s";
    let found = create(&world, arguments, "secrets", "pull").await;
    assert_eq!(found["type"], "kubernetes.io/dockerconfigjson");
    let found = create(&world, "namespace team", "namespaces", "team").await;
    assert_eq!(found["status"]["phase"], "Active");
    let arguments = "quota small --hard=pods=2,cpu=1500m";
    let found = create(&world, arguments, "resourcequotas", "small").await;
    assert_eq!(
        found["spec"]["hard"],
        json!({ "pods": "2", "cpu": "1500m" })
    );
    let arguments = "pdb keep --selector=app=web --min-available=50%";
    let found = create(&world, arguments, "poddisruptionbudgets.policy", "keep").await;
    assert_eq!(found["spec"]["minAvailable"], "50%");
    assert_eq!(
        found["spec"]["selector"]["matchLabels"],
        json!({ "app": "web" })
    );
    let arguments = "priorityclass high --value=1000 --description=first";
    let found = create(
        &world,
        arguments,
        "priorityclasses.scheduling.k8s.io",
        "high",
    )
    .await;
    assert_eq!(
        (&found["value"], &found["description"]),
        (&json!(1000), &json!("first"))
    );
}

#[tokio::test]
async fn identities_and_permissions() {
    let Some(world) = World::new().await else {
        return;
    };
    create(&world, "serviceaccount robot", "serviceaccounts", "robot").await;
    let token = world
        .run(&["create", "token", "robot", "--duration=1h"])
        .await;
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
    let rbac = |kind: &str| format!("{kind}.rbac.authorization.k8s.io");
    let arguments = "role reader --verb=get,list --resource=pods,deployments.apps";
    let found = create(&world, arguments, &rbac("roles"), "reader").await;
    assert_eq!(
        found["rules"],
        json!([
            { "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] },
            { "verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"] },
        ])
    );
    let arguments = "clusterrole health --verb=get --non-resource-url=/healthz";
    let found = create(&world, arguments, &rbac("clusterroles"), "health").await;
    assert_eq!(found["rules"][0]["nonResourceURLs"], json!(["/healthz"]));
    let arguments = "rolebinding reads --role=reader --serviceaccount=default:robot";
    let found = create(&world, arguments, &rbac("rolebindings"), "reads").await;
    assert_eq!(found["roleRef"]["name"], "reader");
    assert_eq!(
        found["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "robot", "namespace": "default" }])
    );
    let arguments = "clusterrolebinding healthy --clusterrole=health --user=jane --group=ops";
    let found = create(&world, arguments, &rbac("clusterrolebindings"), "healthy").await;
    assert_eq!(found["subjects"].as_array().unwrap().len(), 2);
}
