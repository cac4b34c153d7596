//! Tests cert-manager in place of the built-in authority: the manifests, and a program with its flags.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_manifests::{Manifests, Options, RuleList};
use steersman_testenv::TestEnv;
use steersman_testenv::apiserver::ApiServer;

use crate::install::{apply, documents, enforcing, refused, start, start_with_files};
use crate::own_role::done;
use crate::sites::program;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const SITES: &str = "sites.example.com";
const ANNOTATION: &str = "cert-manager.io/inject-ca-from";

/// Returns the documents of the installer.
fn objects(cert_manager: bool) -> Vec<Value> {
    let options = Options {
        cert_manager,
        ..Options::default()
    };
    let description = program().describe().unwrap();
    let manifests = Manifests::new(&description, &RuleList::default(), &options).unwrap();
    documents(&manifests.install())
}

#[test]
fn the_manifests_have_a_certificate_and_name_it_where_its_authority_is_needed() {
    let objects = objects(true);
    let of = |kind: &str| -> Vec<&Value> {
        objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .collect()
    };
    let certificate = of("Certificate")[0];
    let secret = &certificate["spec"]["secretName"];
    let names = json!([
        "sites.sites-system.svc",
        "sites.sites-system.svc.cluster.local"
    ]);
    assert_eq!(certificate["spec"]["dnsNames"], names);
    assert_eq!(
        certificate["spec"]["issuerRef"]["name"],
        of("Issuer")[0]["metadata"]["name"]
    );
    let injected = [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    let definitions = of("CustomResourceDefinition").into_iter();
    let converted = definitions.filter(|one| one["spec"]["conversion"]["strategy"] == "Webhook");
    let injected: Vec<&Value> = injected
        .iter()
        .flat_map(|kind| of(kind))
        .chain(converted)
        .collect();
    assert_eq!(injected.len(), 3);
    for object in injected {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[ANNOTATION], "sites-system/sites", "{object}");
    }
    let pod = &of("Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(&pod["volumes"][0]["secret"]["secretName"], secret);
    assert_eq!(
        pod["containers"][0]["volumeMounts"][0]["mountPath"],
        "/certs"
    );
    // The roles have no rules for the built-in authority: neither for its Secret nor for injecting it.
    let roles = of("Role").into_iter().chain(of("ClusterRole"));
    let rules: Vec<String> = roles.map(|role| role["rules"].to_string()).collect();
    let rules = rules.join("");
    assert!(
        !rules.contains("secrets") && !rules.contains("webhookconfigurations"),
        "{rules}"
    );
}

/// Injects an authority into objects with cert-manager's annotation, as cert-manager does.
fn inject(server: &ApiServer, bundle: &str) {
    let conversion =
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}});
    server
        .merge_patch(DEFINITIONS, "", SITES, &conversion)
        .unwrap();
    for kind in [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ] {
        let resource = format!("{kind}.admissionregistration.k8s.io");
        let mut configuration = server.get(&resource, "", "sites").unwrap();
        assert_eq!(
            configuration["metadata"]["annotations"][ANNOTATION],
            "sites-system/sites"
        );
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = json!(bundle);
        server.update(&resource, configuration).unwrap();
    }
}

/// Reads a site in the former version over HTTP, which needs the conversion webhook.
async fn former(env: &TestEnv, name: &str) -> Result<Value, String> {
    let path = format!("/apis/example.com/v1alpha1/namespaces/default/sites/{name}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let read: Result<Value, _> = env.client().unwrap().request(request).await;
    read.map_err(|error| error.to_string())
}

async fn is_converted(env: &TestEnv) {
    let read = async || match former(env, "a").await {
        Ok(site) if site["spec"]["page"] == "first" => Ok(()),
        other => Err(format!("{other:?}")),
    };
    let outcome = steersman_testenv::eventually("the site is converted", read).await;
    outcome.unwrap();
}

// CERT-7: the authority of a conversion webhook is that of the present start.
#[tokio::test]
async fn the_authority_is_that_of_the_flags_at_each_start() {
    let env = TestEnv::https(enforcing()).await.unwrap();
    let server = env.server().unwrap();
    let mut with = objects(true);
    let cluster_has_no_cert_manager = |object: &Value| {
        object["apiVersion"] != "cert-manager.io/v1" && object["kind"] != "CustomResourceDefinition"
    };
    with.retain(cluster_has_no_cert_manager);
    apply(server, &with);
    let key = rcgen::generate_simple_self_signed(["sites.sites-system.svc".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pem = key.cert.pem();
    std::fs::write(folder.path().join("tls.crt"), &pem).unwrap();
    std::fs::write(
        folder.path().join("tls.key"),
        key.signing_key.serialize_pem(),
    )
    .unwrap();

    let running = start_with_files(&env, &with, program(), folder.path());
    let definition = || server.get(DEFINITIONS, "", SITES);
    done("the leader installs the definition", server, || {
        definition().is_some()
    })
    .await;
    let installed = definition().unwrap();
    assert_eq!(
        installed["metadata"]["annotations"][ANNOTATION],
        "sites-system/sites"
    );
    let webhook = &installed["spec"]["conversion"]["webhook"];
    assert_eq!(webhook["clientConfig"]["service"]["name"], "sites");
    inject(server, &STANDARD.encode(&pem));
    let site = json!({
        "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"pages": ["first"]},
    });
    server.create(site).unwrap();
    is_converted(&env).await;
    running.stop().await;
    let secret = |server: &ApiServer| server.get("secrets", "sites-system", "sites-certificates");
    assert_eq!(secret(server), None);
    assert!(refused(server).is_empty(), "{:?}", refused(server));

    // Without the flags, the program uses its built-in authority.
    let mut without = objects(false);
    without.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        kind.contains("Role") || kind == "Deployment"
    });
    for object in &without {
        server.apply(object, "test").unwrap();
    }
    let running = start(&env, &without, program());
    let bundle = |definition: &Value| {
        definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone()
    };
    let former = bundle(&definition().unwrap());
    done(
        "the definition has the operator's authority and no annotation",
        server,
        || {
            let now = definition().unwrap();
            now["metadata"]["annotations"][ANNOTATION].is_null() && bundle(&now) != former
        },
    )
    .await;
    is_converted(&env).await;
    running.stop().await;
    assert!(
        secret(server).is_some() && refused(server).is_empty(),
        "{:?}",
        refused(server)
    );
}
