//! Machine: makes the files of the service account, its roles and their bindings.

use serde_json::{Value, json};

use crate::definition::OwnKind;
use crate::files::{FROM_PROGRAM, FROM_RULES, Files};
use crate::folder::Folder;
use crate::operator::Operator;
use crate::permissions::{self, USER_ROLES};
use crate::role_grant::{self, RoleGrant};
use crate::rule_set::RuleSet;
use crate::yaml;

const API: &str = "rbac.authorization.k8s.io";

/// Returns the files of `config/rbac`. `rules` are the rules of files, which the operator's roles include.
pub(crate) fn files(operator: &Operator, rules: &RuleSet) -> Files {
    let mut folder = Folder::new("rbac");
    let name = &operator.name;
    let account = yaml::document(&service_account(operator));
    folder.add("service_account.yaml", FROM_PROGRAM, &account);
    let mut work = role_grant::of_work(operator, rules);
    if work.len() > 1 {
        // An empty role in a namespace is kept; an empty ClusterRole is not.
        work.retain(|grant| grant.namespace.is_some() || !grant.rules.is_empty());
    }
    granted(&mut folder, operator, "role", FROM_RULES, &work);
    let election = role_grant::of_election(operator);
    let parts = [
        ("leader_election_role", Some(election)),
        ("certificates_role", role_grant::of_certificates(operator)),
        ("metrics_auth_role", Some(role_grant::of_metrics(operator))),
    ];
    for (file, grant) in parts {
        if let Some(grant) = grant {
            granted(&mut folder, operator, file, FROM_PROGRAM, &[grant]);
        }
    }
    let mut for_users = |file: &str, role: &str, rules: &RuleSet| {
        let mut object = role_head(role, None, name);
        object["rules"] = json!(rules.merged());
        folder.add(file, FROM_PROGRAM, &yaml::document(&object));
    };
    let reader = format!("{name}-metrics-reader");
    let rules = permissions::metrics_reader();
    for_users("metrics_reader_role.yaml", &reader, &rules);
    for own in &operator.own {
        for role in USER_ROLES {
            let (kind, user) = (kind_word(operator, own), role.user);
            let rules = permissions::of_users(own, role);
            let file = format!("{kind}_{user}_role.yaml");
            for_users(&file, &format!("{name}-{kind}-{user}"), &rules);
        }
    }
    folder.finish()
}

/// Adds roles of the operator's service account to one file, and their bindings to another.
fn granted(folder: &mut Folder, operator: &Operator, file: &str, from: &str, grants: &[RoleGrant]) {
    let roles: Vec<String> = grants
        .iter()
        .map(|one| role_text(one, &operator.name))
        .collect();
    let bindings: Vec<String> = grants
        .iter()
        .map(|one| binding_text(operator, one))
        .collect();
    folder.add(&format!("{file}.yaml"), from, &roles.join("---\n"));
    let file = format!("{file}_binding.yaml");
    folder.add(&file, FROM_PROGRAM, &bindings.join("---\n"));
}

/// Returns whether a file has a role for users of the operator's kinds.
pub(crate) fn is_for_users(path: &str) -> bool {
    USER_ROLES
        .iter()
        .any(|role| path.ends_with(&format!("_{}_role.yaml", role.user)))
}

/// Returns a kind as a part of names; with its group if another group has the same kind.
fn kind_word(operator: &Operator, own: &OwnKind) -> String {
    let kind = own.kind.to_lowercase();
    let same = operator.own.iter().filter(|other| other.kind == own.kind);
    match same.count() {
        ..=1 => kind,
        _ => format!("{kind}-{}", own.group.replace('.', "-")),
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

/// Returns the YAML of a role, with the reasons of its rules as comments.
fn role_text(grant: &RoleGrant, program: &str) -> String {
    let mut object = role_head(&grant.role, grant.namespace.as_deref(), program);
    let rules = grant.rules.reasoned();
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

/// Returns a `Role`, or a `ClusterRole` if `namespace` is `None`, without its rules.
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
        "subjects": [
            {"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace},
        ],
    });
    if let Some(namespace) = &grant.namespace {
        object["kind"] = json!("RoleBinding");
        object["metadata"]["namespace"] = json!(namespace);
        object["roleRef"]["kind"] = json!("Role");
    }
    yaml::document(&object)
}
