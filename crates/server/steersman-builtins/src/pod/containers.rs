//! Machine: checks containers, init containers and ephemeral containers, and their mounts.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

use super::{env, handlers, resources, security};

/// The facts about a Pod that the checks of its containers need.
pub(super) struct PodContext<'a> {
    /// The valid volumes of the Pod, by name.
    pub(super) volumes: Volumes<'a>,
    /// The names of the Pod's resource claims.
    pub(super) claims: HashSet<&'a str>,
    /// The termination grace period, in seconds.
    pub(super) grace: Option<i64>,
    /// The restart policy of the Pod.
    pub(super) restarts: &'a str,
    /// Whether the Pod shares the user namespace of the host.
    pub(super) host_users: bool,
}

type Volumes<'a> = HashMap<&'a str, FieldPath<'a>>;

/// Fields that an ephemeral container may not have, in the order of their declaration. Empty values
/// count as absent.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the containers of a Pod (upstream: `validateContainers`).
pub(super) fn check(containers: &FieldPath<'_>, context: &PodContext<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        errors.required(containers, "");
        return;
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        check_common(&container, context, errors);
        let name = container.at("name");
        if !names.insert(name.text()) {
            errors.duplicate(&name);
        }
        handlers::check(&container, context.grace, errors);
        check_restarts(&container, errors);
    }
    let mut ports = HashSet::new();
    for container in containers.items() {
        check_host_ports(&container, &mut ports, errors);
    }
}

/// Checks the init containers (upstream: `validateInitContainers`).
pub(super) fn check_init(
    containers: &FieldPath<'_>,
    others: &FieldPath<'_>,
    context: &PodContext<'_>,
    errors: &mut Errors,
) {
    let mut names: HashSet<&str> = others.items().map(|one| one.at("name").text()).collect();
    for container in containers.items() {
        check_common(&container, context, errors);
        check_restarts(&container, errors);
        let name = container.at("name");
        if names.contains(name.text()) {
            errors.duplicate(&name);
        } else if !name.is_empty() {
            names.insert(name.text());
        }
        // Init containers run one after another, so two of them may use the same host port.
        check_host_ports(&container, &mut HashSet::new(), errors);
        if container.at("restartPolicy").text() == "Always" {
            handlers::check(&container, context.grace, errors);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            let field = container.at(field);
            if field.is_set() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&field, detail);
            }
        }
    }
}

/// Checks the ephemeral containers of a running Pod (upstream: `validateEphemeralContainers`).
pub(super) fn check_ephemeral(
    containers: &FieldPath<'_>,
    others: &[FieldPath<'_>],
    context: &PodContext<'_>,
    errors: &mut Errors,
) {
    let targets: HashSet<&str> = others
        .iter()
        .flat_map(FieldPath::items)
        .map(|one| one.at("name").text())
        .collect();
    let mut names = targets.clone();
    for container in containers.items() {
        check_common(&container, context, errors);
        check_image(&container, errors);
        let name = container.at("name");
        if !names.insert(name.text()) {
            errors.duplicate(&name);
        }
        let target = container.at("targetContainerName");
        if !target.is_empty() && !targets.contains(target.text()) {
            errors.not_found(&target);
        }
        let detail = "cannot be set for an Ephemeral Container";
        for field in NOT_EPHEMERAL {
            let field = container.at(field);
            if !field.is_empty() {
                errors.forbidden(&field, detail);
            }
        }
        for mount in container.at("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                let field = mount.at(field);
                if !field.is_empty() {
                    errors.forbidden(&field, detail);
                }
            }
        }
    }
}

/// Checks the image of a Pod's container, which has no blanks around it. The image of a template
/// may have them.
pub(super) fn check_image(container: &FieldPath<'_>, errors: &mut Errors) {
    let image = container.at("image");
    if image.text().trim().len() != image.len() {
        errors.invalid(&image, "must not have leading or trailing whitespace");
    }
}

/// Checks the fields that all containers share (upstream: `validateContainerCommon`).
fn check_common(container: &FieldPath<'_>, context: &PodContext<'_>, errors: &mut Errors) {
    let name = container.at("name");
    check::required(&name, check::label, errors);
    if container.at("image").is_empty() {
        errors.required(&container.at("image"), "");
    }
    let policy = container.at("terminationMessagePolicy");
    check::required_one_of(&policy, &["File", "FallbackToLogsOnError"], errors);
    check_ports(&container.at("ports"), errors);
    env::check(&container.at("env"), errors);
    env::check_from(&container.at("envFrom"), errors);
    check_mounts(container, &context.volumes, errors);
    check_devices(container, &context.volumes, errors);
    let policy = container.at("imagePullPolicy");
    check::required_one_of(&policy, &["Always", "IfNotPresent", "Never"], errors);
    resources::check(&container.at("resources"), &context.claims, errors);
    check_resizing(&container.at("resizePolicy"), context.restarts, errors);
    security::check_container(&container.at("securityContext"), context.host_users, errors);
}

fn check_restarts(container: &FieldPath<'_>, errors: &mut Errors) {
    let policy = container.at("restartPolicy");
    if policy.is_set() {
        check::one_of(&policy, &["Always", "Never", "OnFailure"], errors);
    }
    let rules = container.at("restartPolicyRules");
    if rules.is_empty() {
        return;
    }
    if !policy.is_set() {
        let detail = "must specify restartPolicy when restart rules are used";
        errors.required(&policy, detail);
    }
    if rules.len() > 20 {
        errors.too_many(&rules, 20);
    }
    for rule in rules.items() {
        check::required_one_of(
            &rule.at("action"),
            &["Restart", "RestartAllContainers"],
            errors,
        );
        let codes = rule.at("exitCodes");
        if !codes.is_set() {
            errors.required(&codes, "must be specified");
            continue;
        }
        check::required_one_of(&codes.at("operator"), &["In", "NotIn"], errors);
        if codes.at("values").is_empty() {
            errors.required(&codes.at("values"), "must specify at least one exit code");
        }
    }
}

fn check_ports(ports: &FieldPath<'_>, errors: &mut Errors) {
    let mut names = Vec::new();
    for one in ports.items() {
        let name = one.at("name");
        if !name.is_empty() {
            let wrong = check::port_name(name.text());
            if !wrong.is_empty() {
                check::add_messages(&name, wrong, errors);
            } else if names.contains(&name.text()) {
                errors.duplicate(&name);
            } else {
                names.push(name.text());
            }
        }
        let port = one.at("containerPort");
        if port.int() == 0 {
            errors.required(&port, "");
        } else {
            check::port(&port, errors);
        }
        if one.at("hostPort").int() != 0 {
            check::port(&one.at("hostPort"), errors);
        }
        check::required_one_of(&one.at("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

fn check_host_ports(container: &FieldPath<'_>, seen: &mut HashSet<String>, errors: &mut Errors) {
    for one in container.at("ports").items() {
        let port = one.at("hostPort");
        if port.int() == 0 {
            continue;
        }
        let (protocol, ip) = (one.at("protocol").text(), one.at("hostIP").text());
        let shown = format!("{protocol}/{ip}/{}", port.int());
        if !seen.insert(shown.clone()) {
            errors.duplicate_as(&port, &Value::from(shown));
        }
    }
}

fn check_mounts(container: &FieldPath<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mounts = container.at("volumeMounts");
    let devices = (
        "volumeDevices",
        container.at("volumeDevices").items().collect(),
    );
    let mut paths = Vec::new();
    for mount in mounts.items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        if name.is_empty() {
            errors.required(&name, "");
        }
        if !volumes.contains_key(name.text()) {
            errors.not_found_as(&name, &Value::from(name.text()), "");
        }
        if path.is_empty() {
            errors.required(&path, "");
        }
        if paths.contains(&path.text()) {
            errors.invalid_text(&path, "must be unique");
        }
        paths.push(path.text());
        check_not_in((&name, &path), &devices, "devicePath", errors);
        let (sub, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
        // As upstream, the following errors name the list, not the mount.
        let whole = |field: &'static str| mounts.named(field, Some(mount.at(field).value()));
        if !sub.is_empty() {
            check::descending_path(&whole("subPath"), sub.text(), errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                errors.invalid(
                    &expression,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            check::descending_path(&whole("subPathExpr"), expression.text(), errors);
        }
        check_propagation(container, &mount, &mounts, errors);
    }
}

/// Checks that a volume's name and path do not stand in the container's other list: volumes are
/// mounted or used as devices, not both.
fn check_not_in(
    (name, path): (&FieldPath<'_>, &FieldPath<'_>),
    (list, others): &(&str, Vec<FieldPath<'_>>),
    path_field: &'static str,
    errors: &mut Errors,
) {
    let has =
        |field: &'static str, text: &str| others.iter().any(|one| one.at(field).text() == text);
    if has("name", name.text()) {
        errors.invalid_text(name, &format!("must not already exist in {list}"));
    }
    if has(path_field, path.text()) {
        let detail = format!("must not already exist as a path in {list}");
        errors.invalid_text(path, &detail);
    }
}

fn check_propagation(
    container: &FieldPath<'_>,
    mount: &FieldPath<'_>,
    mounts: &FieldPath<'_>,
    errors: &mut Errors,
) {
    let propagation = mounts.named(
        "mountPropagation",
        Some(mount.at("mountPropagation").value()),
    );
    if propagation.is_set() {
        let known = &["Bidirectional", "HostToContainer", "None"];
        check::one_of(&propagation, known, errors);
        let privileged = container.down("securityContext.privileged").flag();
        if propagation.text() == "Bidirectional" && !privileged {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(&propagation, detail);
        }
    }
    let read_only = mounts.named(
        "recursiveReadOnly",
        Some(mount.at("recursiveReadOnly").value()),
    );
    match read_only.text() {
        "Enabled" | "IfPossible" => {
            if !mount.at("readOnly").flag() {
                errors.forbidden(&read_only, "may only be specified when readOnly is true");
            }
            if propagation.is_set() && propagation.text() != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&read_only, detail);
            }
        }
        "Disabled" => {}
        _ if read_only.is_set() => {
            errors.not_supported(&read_only, &["Disabled", "Enabled", "IfPossible"]);
        }
        _ => {}
    }
}

fn check_devices(container: &FieldPath<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let devices = container.at("volumeDevices");
    let mounts = (
        "volumeMounts",
        container.at("volumeMounts").items().collect(),
    );
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for device in devices.items() {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        if name.is_empty() {
            errors.required(&name, "");
        }
        if names.contains(&name.text()) {
            errors.invalid_text(&name, "must be unique");
        }
        match volumes.get(name.text()) {
            None => errors.not_found_as(&name, &Value::from(name.text()), ""),
            Some(found) => {
                let claims = ["persistentVolumeClaim", "ephemeral"];
                if !claims.iter().any(|kind| found.at(kind).is_set()) {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid_text(&name, detail);
                }
            }
        }
        if path.is_empty() {
            errors.required(&path, "");
        }
        if paths.contains(&path.text()) {
            errors.invalid_text(&path, "must be unique");
        }
        if path.text().split('/').any(|part| part == "..") {
            errors.invalid_text(&path, "can not contain backsteps ('..')");
        } else {
            paths.push(path.text());
        }
        check_not_in((&name, &path), &mounts, "mountPath", errors);
        if !name.is_empty() {
            names.push(name.text());
        }
    }
}

fn check_resizing(policies: &FieldPath<'_>, restarts: &str, errors: &mut Errors) {
    let mut seen = Vec::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.at("resourceName"), policy.at("restartPolicy"));
        if seen.contains(&resource.text()) {
            errors.duplicate_as(&policy, resource.value());
        }
        seen.push(resource.text());
        for (field, known) in [
            (&resource, ["cpu", "memory"]),
            (&restart, ["NotRequired", "RestartContainer"]),
        ] {
            // As upstream, the error names the list.
            let shown = FieldPath::new(policies.path(), field.value());
            check::required_one_of(&shown, &known, errors);
        }
        if restarts == "Never" && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.invalid_as(policies, restart.value(), detail);
        }
    }
}
