//! Machine: checks containers, init containers and ephemeral containers, and their mounts.

use std::collections::{HashMap, HashSet};

use crate::fields::{FieldPath, check};

use super::{env, handlers, resources, security};

/// The facts about a Pod that the checks of its containers need.
pub(super) struct PodContext<'a> {
    /// The valid volumes of the Pod, by name.
    pub(super) volumes: Volumes<'a>,
    /// The names of the Pod's resource claims.
    pub(super) claims: HashSet<&'a str>,
    /// The termination grace period, in seconds.
    pub(super) grace: Option<i64>,
    pub(super) restarts: &'a str,
    pub(super) host_users: bool,
}

type Volumes<'a> = HashMap<&'a str, FieldPath<'a>>;

/// Fields that an ephemeral container may not have, in the order of their declaration.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
];

/// Checks the containers of a Pod (upstream: `validateContainers`).
pub(super) fn check(containers: &FieldPath<'_>, context: &PodContext<'_>) {
    if containers.is_empty() {
        return containers.required("");
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        check_common(&container, context);
        container.at("name").unique(&mut names);
        handlers::check(&container, context.grace);
        check_restarts(&container);
    }
    let mut ports = HashSet::new();
    containers.each(|container| check_host_ports(container, &mut ports));
}

/// Checks the init containers (upstream: `validateInitContainers`).
pub(super) fn check_init(
    containers: &FieldPath<'_>,
    others: &FieldPath<'_>,
    context: &PodContext<'_>,
) {
    let mut names: HashSet<&str> = others.items().map(|one| one.at("name").text()).collect();
    for container in containers.items() {
        check_common(&container, context);
        check_restarts(&container);
        let name = container.at("name");
        if names.contains(name.text()) {
            name.duplicate();
        } else if !name.is_empty() {
            names.insert(name.text());
        }
        // Init containers run one after another, so two of them may use the same host port.
        check_host_ports(&container, &mut HashSet::new());
        if container.at("restartPolicy").text() == "Always" {
            handlers::check(&container, context.grace);
            continue;
        }
        let fields = [
            "lifecycle", "livenessProbe", "readinessProbe", "startupProbe",
        ];
        for field in container.parts(fields) {
            field.deny("may not be set for init containers without restartPolicy=Always");
        }
    }
}

/// Checks the ephemeral containers of a running Pod (upstream: `validateEphemeralContainers`).
pub(super) fn check_ephemeral(
    containers: &FieldPath<'_>,
    others: &[FieldPath<'_>],
    context: &PodContext<'_>,
) {
    let targets: HashSet<&str> = others
        .iter()
        .flat_map(FieldPath::items)
        .map(|one| one.at("name").text())
        .collect();
    let mut names = targets.clone();
    for container in containers.items() {
        check_common(&container, context);
        check_image(&container);
        container.at("name").unique(&mut names);
        let target = container.at("targetContainerName");
        if !target.is_empty() && !targets.contains(target.text()) {
            target.not_found();
        }
        let detail = "cannot be set for an Ephemeral Container";
        for field in container.parts(NOT_EPHEMERAL) {
            field.deny_filled(detail);
        }
        for mount in container.at("volumeMounts").items() {
            for field in mount.parts(["subPath", "subPathExpr"]) {
                field.deny_filled(detail);
            }
        }
    }
}

/// Checks that the image of a Pod's container has no blanks around it.
pub(super) fn check_image(container: &FieldPath<'_>) {
    let image = container.at("image");
    if image.text().trim().len() != image.len() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

/// Checks the fields that all containers share (upstream: `validateContainerCommon`).
fn check_common(container: &FieldPath<'_>, context: &PodContext<'_>) {
    check::required(&container.at("name"), check::label);
    container.at("image").need("");
    let policy = container.at("terminationMessagePolicy");
    check::required_one_of(&policy, &["File", "FallbackToLogsOnError"]);
    check_ports(&container.at("ports"));
    env::check(&container.at("env"));
    env::check_from(&container.at("envFrom"));
    check_mounts(container, &context.volumes);
    check_devices(container, &context.volumes);
    let policy = container.at("imagePullPolicy");
    check::required_one_of(&policy, &["Always", "IfNotPresent", "Never"]);
    resources::check(&container.at("resources"), &context.claims);
    check_resizing(&container.at("resizePolicy"), context.restarts);
    security::check_container(&container.at("securityContext"), context.host_users);
}

fn check_restarts(container: &FieldPath<'_>) {
    let policy = container.at("restartPolicy");
    check::optional(&policy, &["Always", "Never", "OnFailure"]);
    let rules = container.at("restartPolicyRules");
    if rules.is_empty() {
        return;
    }
    policy.need_set("must specify restartPolicy when restart rules are used");
    rules.has_too_many(20);
    for rule in rules.items() {
        check::required_one_of(&rule.at("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if !codes.need_set("must be specified") {
            continue;
        }
        let [operator, values] = codes.parts(["operator", "values"]);
        check::required_one_of(&operator, &["In", "NotIn"]);
        values.need("must specify at least one exit code");
    }
}

fn check_ports(ports: &FieldPath<'_>) {
    let mut names = HashSet::new();
    for one in ports.items() {
        let [name, port] = one.parts(["name", "containerPort"]);
        if !name.is_empty() && name.passes(check::port_name) {
            name.unique(&mut names);
        }
        if port.int() == 0 {
            port.required("");
        } else {
            check::port(&port);
        }
        if one.at("hostPort").int() != 0 {
            check::port(&one.at("hostPort"));
        }
        check::required_one_of(&one.at("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn check_host_ports(container: &FieldPath<'_>, seen: &mut HashSet<String>) {
    for one in container.at("ports").items() {
        let port = one.at("hostPort");
        if port.int() == 0 {
            continue;
        }
        let (protocol, ip) = (one.at("protocol").text(), one.at("hostIP").text());
        let shown = format!("{protocol}/{ip}/{}", port.int());
        if !seen.insert(shown.clone()) {
            port.duplicate_as(shown);
        }
    }
}

fn check_mounts(container: &FieldPath<'_>, volumes: &Volumes<'_>) {
    let mounts = container.at("volumeMounts");
    let devices = container.at("volumeDevices");
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let [name, path] = mount.parts(["name", "mountPath"]);
        name.need("");
        if !volumes.contains_key(name.text()) {
            name.not_found_as(name.text(), "");
        }
        path.need("");
        if !paths.insert(path.text()) {
            path.invalid_text("must be unique");
        }
        check_not_in(&name, &path, &devices, ("volumeDevices", "devicePath"));
        let [sub, expression] = mount.parts(["subPath", "subPathExpr"]);
        // As upstream, the following errors name the list, not the mount.
        let whole = |field: &'static str| mounts.named(field, Some(mount.at(field).value()));
        whole("subPath").if_filled(check::descending_path);
        if !expression.is_empty() {
            if !sub.is_empty() {
                expression.invalid("subPathExpr and subPath are mutually exclusive");
            }
            check::descending_path(&whole("subPathExpr"));
        }
        check_propagation(container, &mount, &mounts);
    }
}

/// Checks that a volume is mounted or used as a device, not both.
fn check_not_in(
    name: &FieldPath<'_>,
    path: &FieldPath<'_>,
    others: &FieldPath<'_>,
    (list, path_field): (&str, &str),
) {
    let has = |field: &str, text: &str| others.items().any(|one| one.at(field).text() == text);
    if has("name", name.text()) {
        name.invalid_text(&format!("must not already exist in {list}"));
    }
    if has(path_field, path.text()) {
        path.invalid_text(&format!("must not already exist as a path in {list}"));
    }
}

fn check_propagation(container: &FieldPath<'_>, mount: &FieldPath<'_>, mounts: &FieldPath<'_>) {
    let whole = |field: &'static str| mounts.named(field, Some(mount.at(field).value()));
    let propagation = whole("mountPropagation");
    if propagation.is_set() {
        let known = &["Bidirectional", "HostToContainer", "None"];
        check::one_of(&propagation, known);
        let privileged = container.down("securityContext.privileged").flag();
        if propagation.text() == "Bidirectional" && !privileged {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            propagation.forbidden(detail);
        }
    }
    let read_only = whole("recursiveReadOnly");
    match read_only.text() {
        "Enabled" | "IfPossible" => {
            if !mount.at("readOnly").flag() {
                read_only.forbidden("may only be specified when readOnly is true");
            }
            if propagation.is_set() && propagation.text() != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                read_only.forbidden(detail);
            }
        }
        _ => check::optional(&read_only, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_devices(container: &FieldPath<'_>, volumes: &Volumes<'_>) {
    let devices = container.at("volumeDevices");
    let mounts = container.at("volumeMounts");
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for device in devices.items() {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        name.need("");
        if names.contains(&name.text()) {
            name.invalid_text("must be unique");
        }
        match volumes.get(name.text()) {
            None => name.not_found_as(name.text(), ""),
            Some(found) => {
                let claims = ["persistentVolumeClaim", "ephemeral"];
                if !claims.iter().any(|kind| found.at(kind).is_set()) {
                    name.invalid_text("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
                }
            }
        }
        path.need("");
        if paths.contains(&path.text()) {
            path.invalid_text("must be unique");
        }
        if path.text().split('/').any(|part| part == "..") {
            path.invalid_text("can not contain backsteps ('..')");
        } else {
            paths.push(path.text());
        }
        check_not_in(&name, &path, &mounts, ("volumeMounts", "mountPath"));
        if !name.is_empty() {
            names.push(name.text());
        }
    }
}

fn check_resizing(policies: &FieldPath<'_>, restarts: &str) {
    let mut seen = HashSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.at("resourceName"), policy.at("restartPolicy"));
        policy.with(resource.value()).unique(&mut seen);
        // As upstream, the errors name the list.
        check::required_one_of(&policies.with(resource.value()), &["cpu", "memory"]);
        let known = ["NotRequired", "RestartContainer"];
        check::required_one_of(&policies.with(restart.value()), &known);
        if restarts == "Never" && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            policies.invalid_as(restart.value(), detail);
        }
    }
}
