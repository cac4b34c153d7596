//! The matrix of permissions: each row is a request, the permissions it needs, and its answer with
//! all of them. Without any one of them it must be refused with the message of a kube-apiserver
//! 1.36.
//!
//! Rows name the upstream source that decides. `request_info.go` stands for
//! `apiserver/pkg/endpoints/request/requestinfo.go`, from which most requests have their only
//! permission.

mod acts;
mod verbs;

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, User};

use crate::permissions::{RBAC, create, rule, server};
use crate::support::{Answer, ask};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";
pub(super) const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim";
pub(super) const REQUEST: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr";

/// A request and all the permissions it needs.
pub(super) struct Row {
    source: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Value,
    code: u16,
    needs: Vec<Need>,
}

/// A permission that a request needs, and the answer without it.
struct Need {
    holder: &'static str,
    rule: Value,
    refusal: (u16, String),
}

/// The namespace (empty for cluster scope) and the name in a refusal.
pub(super) type NamespacedName = (&'static str, &'static str);

impl Row {
    pub(super) fn new(source: &'static str, method: &'static str, path: impl Into<String>) -> Self {
        Self {
            source,
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Value::Null,
            code: 200,
            needs: Vec::new(),
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    pub(super) fn merge(self, body: Value) -> Self {
        self.header("content-type", "application/merge-patch+json")
            .body(body)
    }

    pub(super) fn apply(self, body: Value) -> Self {
        self.header("content-type", "application/apply-patch+yaml")
            .body(body)
    }

    /// Sets the status code of the answer with all permissions. Default 200.
    pub(super) fn code(mut self, code: u16) -> Self {
        self.code = code;
        self
    }

    /// Adds the permission that the authorization filter checks.
    pub(super) fn gate(
        self,
        verb: &str,
        group: &str,
        resource: &str,
        name: NamespacedName,
    ) -> Self {
        let text = refusal("ann", verb, (group, resource), name);
        self.also(rule(&[verb], group, &[resource]), 403, text)
    }

    /// Adds a further permission, with the refusal of its own without it.
    pub(super) fn also(self, rule: Value, code: u16, text: impl Into<String>) -> Self {
        self.held_by("ann", rule, code, text)
    }

    /// Adds a permission that another user than `ann` needs.
    pub(super) fn held_by(
        mut self,
        holder: &'static str,
        rule: Value,
        code: u16,
        text: impl Into<String>,
    ) -> Self {
        let refusal = (code, text.into());
        self.needs.push(Need {
            holder,
            rule,
            refusal,
        });
        self
    }

    fn describe(&self) -> String {
        format!("{} {} ({})", self.method, self.path, self.source)
    }

    /// Sends the request to a server where all permissions but one are granted.
    async fn send(&self, missing: Option<usize>) -> (ApiServer, u64, Answer) {
        let server = world();
        for (number, need) in self.needs.iter().enumerate() {
            if Some(number) != missing {
                let name = format!("need-{number}");
                create(
                    &server,
                    "ClusterRole",
                    &name,
                    &json!({ "rules": [need.rule] }),
                );
                super::bind(&server, &name, need.holder);
            }
        }
        let bearer = format!("Bearer {}", server.add_user(User::new("ann")));
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(&self.headers);
        let body = match &self.body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let before = server.revision();
        let answer = ask(&server, self.method, &self.path, &headers, body).await;
        (server, before, answer)
    }

    async fn check(&self) {
        let (_, _, answer) = self.send(None).await;
        assert_eq!(
            answer.status,
            self.code,
            "{}: {}",
            self.describe(),
            answer.text
        );
        for (number, need) in self.needs.iter().enumerate() {
            let (server, before, answer) = self.send(Some(number)).await;
            let outcome = (answer.status, answer.json()["message"].clone());
            let (code, text) = &need.refusal;
            let (describe, rule) = (self.describe(), &need.rule);
            assert_eq!(outcome, (*code, json!(text)), "{describe} without {rule}");
            assert_eq!(server.revision(), before, "{describe} without {rule}");
        }
    }
}

/// Returns the 403 of the authorization filter (`responsewriters.Forbidden`).
pub(super) fn refusal(
    user: &str,
    verb: &str,
    (group, resource): (&str, &str),
    (namespace, name): NamespacedName,
) -> String {
    let plural = resource.split('/').next().unwrap();
    let subject = match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    };
    let name = match name {
        "" => String::new(),
        name => format!(" \"{name}\""),
    };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    format!(
        "{subject}{name} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
    )
}

/// Creates a server with an object for each request.
fn world() -> ApiServer {
    let server = server();
    let pod = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod });
    let device = json!({ "name": "r", "exactly": { "deviceClassName": "c.example.com" } });
    for object in [
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } }),
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } }),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" },
            "spec": { "ports": [{ "port": 80 }] } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": pod }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
            "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template } }),
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": { "name": "claim" }, "spec": { "devices": { "requests": [device] } } }),
        acts::signing_request(),
    ] {
        server.create(object).unwrap();
    }
    server
}

fn lease(name: &str) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name } })
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn check(rows: Vec<Row>) {
    for row in rows {
        row.check().await;
    }
}

/// AUTH-5: a request that creates an absent object needs the permission to create it. The refusal
/// says who may not do what.
#[tokio::test(start_paused = true)]
async fn a_request_that_creates_needs_the_right_to_create() {
    let leases = "coordination.k8s.io";
    let source = "endpoints/handlers/update.go, patch.go: withAuthorization";
    let right = rule(&["create"], leases, &["leases"]);
    let lease_refused = refusal("ann", "create", (leases, "leases"), ("default", "new"));
    let map_refused = refusal("ann", "create", ("", "configmaps"), ("default", "new"));
    let maps = rule(&["create"], "", &["configmaps"]);
    let new_map = format!("{MAPS}/new?fieldManager=ann");
    check(vec![
        Row::new(source, "PUT", format!("{LEASES}/new"))
            .body(lease("new"))
            .code(201)
            .gate("update", leases, "leases", ("default", "new"))
            .also(right.clone(), 403, lease_refused.clone()),
        Row::new(source, "PUT", format!("{LEASES}/new?dryRun=All"))
            .body(lease("new"))
            .code(201)
            .gate("update", leases, "leases", ("default", "new"))
            .also(right.clone(), 403, lease_refused.clone()),
        Row::new(source, "PATCH", format!("{LEASES}/new?fieldManager=ann"))
            .apply(lease("new"))
            .code(201)
            .gate("patch", leases, "leases", ("default", "new"))
            .also(right, 403, lease_refused),
        Row::new(source, "PATCH", new_map.clone())
            .apply(map("new"))
            .code(201)
            .gate("patch", "", "configmaps", ("default", "new"))
            .also(maps.clone(), 403, map_refused.clone()),
        Row::new(source, "PATCH", format!("{new_map}&dryRun=All"))
            .apply(map("new"))
            .code(201)
            .gate("patch", "", "configmaps", ("default", "new"))
            .also(maps, 403, map_refused),
        // Cluster-scoped, and with a name in the rule, which a POST never matches.
        Row::new(source, "PATCH", "/api/v1/namespaces/new?fieldManager=ann")
            .apply(
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "new" } }),
            )
            .code(201)
            .gate("patch", "", "namespaces", ("new", "new"))
            .also(
                json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["namespaces"],
                    "resourceNames": ["new"] }),
                403,
                refusal("ann", "create", ("", "namespaces"), ("", "new")),
            ),
        // An existing object is changed, whatever the verb.
        Row::new(source, "PATCH", format!("{MAPS}/c?fieldManager=ann"))
            .apply(map("c"))
            .gate("patch", "", "configmaps", ("default", "c")),
        Row::new(source, "PUT", format!("{MAPS}/c"))
            .body(map("c"))
            .gate("update", "", "configmaps", ("default", "c")),
        // Neither a PUT of other kinds nor an apply of a subresource creates an object.
        Row::new(source, "PUT", format!("{MAPS}/new"))
            .body(map("new"))
            .code(404)
            .gate("update", "", "configmaps", ("default", "new")),
        Row::new(
            source,
            "PATCH",
            format!("{DEPLOYMENT}2/status?fieldManager=ann"),
        )
        .apply(
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d2" } }),
        )
        .code(404)
        .gate("patch", "apps", "deployments/status", ("default", "d2")),
        // An invalid object is reported first, because the storage validates first.
        Row::new(source, "PATCH", format!("{MAPS}/New?fieldManager=ann"))
            .apply(map("New"))
            .code(422)
            .gate("patch", "", "configmaps", ("default", "New")),
    ])
    .await;
}

/// The refusal contains the authorizer's reason if there is one.
#[tokio::test(start_paused = true)]
async fn a_refused_creation_names_broken_bindings() {
    let server = world();
    create(
        &server,
        "ClusterRole",
        "patcher",
        &json!({ "rules": [rule(&["patch"], "", &["configmaps"])] }),
    );
    super::bind(&server, "patcher", "ann");
    super::bind(&server, "lost", "ann");
    let bearer = format!("Bearer {}", server.add_user(User::new("ann")));
    let kind = ("content-type", "application/apply-patch+yaml");
    let headers = [("authorization", bearer.as_str()), kind];
    let path = format!("{MAPS}/new?fieldManager=ann");
    let outcome = ask(&server, "PATCH", &path, &headers, map("new").to_string()).await;
    assert_eq!(
        outcome.expect(403)["message"],
        "configmaps \"new\" is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\": RBAC: clusterrole.rbac.authorization.k8s.io \"lost\" not found"
    );
}

/// AUTH-3 in the matrix: the permissions that roles and bindings need beyond their own verbs.
#[tokio::test(start_paused = true)]
async fn writing_roles_and_bindings_needs_the_permissions_they_grant() {
    let group = "rbac.authorization.k8s.io";
    let source = "pkg/registry/rbac/*/policybased/storage.go";
    let held = |kind: &str, name: &str, resources: &str| {
        format!(
            "{kind}.{group} \"{name}\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{resources}"
        )
    };
    let reads = rule(&["get"], "", &["pods"]);
    let role = json!({ "apiVersion": format!("{group}/v1"), "kind": "Role",
        "metadata": { "name": "new" }, "rules": [reads] });
    let missing = "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}";
    let lacks = held("roles", "new", missing);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let binding = json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": { "name": "new" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "system:public-info-viewer" } });
    let urls = json!({ "verbs": ["bind"], "apiGroups": [group], "resources": ["clusterroles"],
        "resourceNames": ["system:node-proxier"] });
    let mut proxier = binding.clone();
    proxier["roleRef"]["name"] = json!("system:node-proxier");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let create = rule(&["create"], group, &["roles"]);
    let refused = refusal("ann", "create", (group, "roles"), ("default", "new"));
    let rows = vec![
        Row::new(source, "POST", roles.clone())
            .body(role.clone())
            .code(201)
            .gate("create", group, "roles", ("default", ""))
            .also(reads.clone(), 403, lacks.clone()),
        Row::new(source, "PUT", format!("{roles}/new"))
            .body(role.clone())
            .code(201)
            .gate("update", group, "roles", ("default", "new"))
            .also(reads.clone(), 403, lacks.clone())
            .also(create.clone(), 403, refused.clone()),
        Row::new(source, "PATCH", format!("{roles}/new?fieldManager=ann"))
            .apply(role.clone())
            .code(201)
            .gate("patch", group, "roles", ("default", "new"))
            .also(rule(&["escalate"], group, &["roles"]), 403, lacks)
            .also(create, 403, refused),
        // Every user has the permissions of this role.
        Row::new(source, "POST", bindings.clone())
            .body(binding)
            .code(201)
            .gate("create", group, "rolebindings", ("default", "")),
    ];
    check(rows).await;
    let row = Row::new(source, "POST", bindings)
        .body(proxier)
        .code(201)
        .gate("create", group, "rolebindings", ("default", ""))
        .also(urls, 403, "");
    let (_, _, answer) = row.send(None).await;
    answer.expect(201);
    let (_, _, answer) = row.send(Some(1)).await;
    let outcome = answer.expect(403)["message"].as_str().unwrap().to_owned();
    assert!(
        outcome.starts_with(&held("rolebindings", "new", "{APIGroups:")),
        "{outcome}"
    );
}
