//! Machine: accounts, roles and their bindings as files.

use serde_json::{Value, json};

use crate::crds::kustomization;
use crate::definition::OwnKind;
use crate::files::{FROM_PROGRAM, FROM_RULES, Files, header};
use crate::operator::Operator;
use crate::permissions::{self, Permissions, USER_ROLES};
use crate::rule::PolicyRule;
use crate::rule_set::RuleSet;
use crate::yaml;

const API: &str = "rbac.authorization.k8s.io";

/// Returns the files of `config/rbac`. Those of the operator's own roles have the observed rules in them.
pub(crate) fn files(operator: &Operator, observed: &[PolicyRule]) -> Files {
    let mut folder = Folder {
        operator,
        files: Files::new(),
        names: Vec::new(),
    };
    let Operator {
        name, namespace, ..
    } = operator;
    folder.add(
        "service_account.yaml",
        FROM_PROGRAM,
        &[service_account(operator)],
    );
    folder.own_roles(&Permissions::of(operator, observed));
    let role = format!("{name}-leader-election");
    folder.role_in(
        "leader_election_role",
        &role,
        namespace,
        &permissions::leader_election(),
    );
    if operator.has_webhook_server() {
        let role = format!("{name}-certificates");
        let rules = permissions::certificates(&role);
        folder.role_in("certificates_role", &role, namespace, &rules);
    }
    let role = format!("{name}-metrics-auth");
    let rules = permissions::metrics_auth();
    folder.add(
        "metrics_auth_role.yaml",
        FROM_PROGRAM,
        &[cluster_role(&role, &rules, name)],
    );
    let binding = cluster_role_binding(operator, &role);
    folder.add("metrics_auth_role_binding.yaml", FROM_PROGRAM, &[binding]);
    let role = format!("{name}-metrics-reader");
    let rules = permissions::metrics_reader();
    folder.add(
        "metrics_reader_role.yaml",
        FROM_PROGRAM,
        &[cluster_role(&role, &rules, name)],
    );
    for own in &operator.own {
        for (user, verbs) in USER_ROLES {
            let kind = kind_word(operator, own);
            let role = cluster_role(
                &format!("{name}-{kind}-{user}"),
                &permissions::of_users(own, verbs),
                name,
            );
            folder.add(&format!("{kind}_{user}_role.yaml"), FROM_PROGRAM, &[role]);
        }
    }
    folder.finish()
}

/// Returns whether a file has a role for users of the operator's own kinds.
pub(crate) fn is_for_users(path: &str) -> bool {
    USER_ROLES
        .iter()
        .any(|(user, _)| path.ends_with(&format!("_{user}_role.yaml")))
}

/// The files of one folder, in the order of its kustomization.
struct Folder<'a> {
    operator: &'a Operator,
    files: Files,
    names: Vec<String>,
}

impl Folder<'_> {
    fn add(&mut self, name: &str, from: &str, documents: &[Value]) {
        let text = header(from) + &yaml::documents(documents);
        self.files.insert(format!("config/rbac/{name}"), text);
        self.names.push(name.to_owned());
    }

    /// Adds a role in one namespace, and its binding.
    fn role_in(&mut self, file: &str, name: &str, namespace: &str, rules: &RuleSet) {
        let role = role(name, namespace, rules, &self.operator.name);
        self.add(&format!("{file}.yaml"), FROM_PROGRAM, &[role]);
        let binding = role_binding(self.operator, name, namespace);
        self.add(&format!("{file}_binding.yaml"), FROM_PROGRAM, &[binding]);
    }

    /// Adds the roles of the operator's work: one for the cluster, and one for each watched namespace.
    fn own_roles(&mut self, permissions: &Permissions) {
        let operator = self.operator;
        let name = &operator.name;
        let namespaces = &operator.options.namespaces;
        let (mut roles, mut bindings) = (Vec::new(), Vec::new());
        if namespaces.is_empty() || permissions.everywhere != RuleSet::default() {
            roles.push(cluster_role(name, &permissions.everywhere, name));
            bindings.push(cluster_role_binding(operator, name));
        }
        for namespace in namespaces {
            roles.push(role(name, namespace, &permissions.watched, name));
            bindings.push(role_binding(operator, name, namespace));
        }
        self.add("role.yaml", FROM_RULES, &roles);
        self.add("role_binding.yaml", FROM_PROGRAM, &bindings);
    }

    fn finish(mut self) -> Files {
        let path = "config/rbac/kustomization.yaml".to_owned();
        self.files.insert(path, kustomization(&self.names));
        self.files
    }
}

/// Returns the word of a kind in names: the kind, or the kind with its group if another group has the same kind.
fn kind_word(operator: &Operator, own: &OwnKind) -> String {
    let kind = own.kind.to_lowercase();
    let same = operator.own.iter().filter(|other| other.kind == own.kind);
    if same.count() > 1 {
        format!("{kind}-{}", own.group.replace('.', "-"))
    } else {
        kind
    }
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

fn service_account(operator: &Operator) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": operator.name, "namespace": operator.namespace, "labels": labels(&operator.name)},
    })
}

fn cluster_role(name: &str, rules: &RuleSet, program: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels(program)},
        "rules": rules.merged(),
    })
}

fn role(name: &str, namespace: &str, rules: &RuleSet, program: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(program)},
        "rules": rules.merged(),
    })
}

fn cluster_role_binding(operator: &Operator, role: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": labels(&operator.name)},
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": role},
        "subjects": subjects(operator),
    })
}

fn role_binding(operator: &Operator, role: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace, "labels": labels(&operator.name)},
        "roleRef": {"apiGroup": API, "kind": "Role", "name": role},
        "subjects": subjects(operator),
    })
}

fn subjects(operator: &Operator) -> Value {
    json!([{"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace}])
}
