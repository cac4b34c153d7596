//! Machine: accounts, roles and their bindings as files.

use serde_json::{Value, json};

use crate::crds::kustomization;
use crate::definition::OwnKind;
use crate::files::{FROM_PROGRAM, FROM_RULES, Files, header};
use crate::operator::Operator;
use crate::permissions::{self, USER_ROLES};
use crate::role_grant::{self, RoleGrant};
use crate::rule_set::RuleSet;
use crate::yaml;

const API: &str = "rbac.authorization.k8s.io";

/// Returns the files of `config/rbac`. The operator's own roles include `rules`, the rules of files.
pub(crate) fn files(operator: &Operator, rules: &RuleSet) -> Files {
    let mut folder = Folder {
        operator,
        files: Files::new(),
        names: Vec::new(),
    };
    let name = &operator.name;
    let account = yaml::document(&service_account(operator));
    folder.add("service_account.yaml", FROM_PROGRAM, &[account]);
    folder.own_roles(&role_grant::of_work(operator, rules));
    folder.granted("leader_election_role", &role_grant::of_election(operator));
    if let Some(certificates) = role_grant::of_certificates(operator) {
        folder.granted("certificates_role", &certificates);
    }
    folder.granted("metrics_auth_role", &role_grant::of_metrics(operator));
    let reader = format!("{name}-metrics-reader");
    let rules = permissions::metrics_reader();
    folder.for_users("metrics_reader_role.yaml", &reader, &rules);
    for own in &operator.own {
        for role in USER_ROLES {
            let (kind, user) = (kind_word(operator, own), role.user);
            let rules = permissions::of_users(own, role);
            let file = format!("{kind}_{user}_role.yaml");
            folder.for_users(&file, &format!("{name}-{kind}-{user}"), &rules);
        }
    }
    folder.finish()
}

/// Returns whether a file has a role for users of the operator's own kinds.
pub(crate) fn is_for_users(path: &str) -> bool {
    USER_ROLES
        .iter()
        .any(|role| path.ends_with(&format!("_{}_role.yaml", role.user)))
}

/// The files of one folder, in the order of its kustomization.
struct Folder<'a> {
    operator: &'a Operator,
    files: Files,
    names: Vec<String>,
}

impl Folder<'_> {
    fn add(&mut self, name: &str, from: &str, documents: &[String]) {
        let text = header(from) + &documents.join("---\n");
        self.files.insert(format!("config/rbac/{name}"), text);
        self.names.push(name.to_owned());
    }

    /// Adds a role of the operator's account, and its binding.
    fn granted(&mut self, file: &str, grant: &RoleGrant) {
        let role = role_text(grant, &self.operator.name);
        self.add(&format!("{file}.yaml"), FROM_PROGRAM, &[role]);
        let binding = binding_text(self.operator, grant);
        self.add(&format!("{file}_binding.yaml"), FROM_PROGRAM, &[binding]);
    }

    /// Adds a role that users are bound to.
    fn for_users(&mut self, file: &str, role: &str, rules: &RuleSet) {
        let mut object = role_head(role, None, &self.operator.name);
        object["rules"] = json!(rules.merged());
        self.add(file, FROM_PROGRAM, &[yaml::document(&object)]);
    }

    /// Adds the roles of the operator's work: one for the cluster, and one for each namespace with rules of its own.
    fn own_roles(&mut self, grants: &[RoleGrant]) {
        let (mut roles, mut bindings) = (Vec::new(), Vec::new());
        let has_namespaces = grants.iter().any(|grant| grant.namespace.is_some());
        for grant in grants {
            let is_empty = grant.rules().is_empty();
            if grant.namespace.is_none() && is_empty && has_namespaces {
                continue;
            }
            roles.push(role_text(grant, &self.operator.name));
            bindings.push(binding_text(self.operator, grant));
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

/// Writes a role with the reasons of its rules as comments.
fn role_text(grant: &RoleGrant, program: &str) -> String {
    let mut object = role_head(&grant.role, grant.namespace.as_deref(), program);
    let rules = grant.reasoned();
    if rules.is_empty() {
        object["rules"] = json!([]);
        return yaml::document(&object);
    }
    let mut text = yaml::document(&object) + "rules:\n";
    for reasoned in rules {
        for comment in reasoned.comments() {
            text.push_str(&format!("# {comment}\n"));
        }
        text.push_str(&yaml::document(&json!([reasoned.rule])));
    }
    text
}

/// Returns a `Role`, or a `ClusterRole` without a namespace, without its rules.
fn role_head(name: &str, namespace: Option<&str>, program: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels(program)},
    });
    if let Some(namespace) = namespace {
        object["kind"] = json!("Role");
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn binding_text(operator: &Operator, grant: &RoleGrant) -> String {
    let mut object = json!({
        "apiVersion": format!("{API}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": grant.role, "labels": labels(&operator.name)},
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": grant.role},
        "subjects": subjects(operator),
    });
    if let Some(namespace) = &grant.namespace {
        object["kind"] = json!("RoleBinding");
        object["metadata"]["namespace"] = json!(namespace);
        object["roleRef"]["kind"] = json!("Role");
    }
    yaml::document(&object)
}

fn subjects(operator: &Operator) -> Value {
    json!([{"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace}])
}
