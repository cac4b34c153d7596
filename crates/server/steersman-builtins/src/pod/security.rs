//! Machine: checks security contexts of Pods and containers.

use serde_json::{Value, json};

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

use super::profiles::containers;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Prefixes of the sysctls that the IPC namespace isolates.
const OF_IPC: &[&str] = &["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

fn id(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_set() {
        check::in_range(at, 0, i64::from(i32::MAX), errors);
    }
}

fn optional(at: &FieldPath<'_>, supported: &[&str], errors: &mut Errors) {
    if at.is_set() {
        check::one_of(at, supported, errors);
    }
}

/// Checks a Pod's security context (upstream: `validatePodSpecSecurityContext`).
pub(super) fn check_pod(spec: &FieldPath<'_>, errors: &mut Errors) {
    let at = spec.at("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&at.at(field), errors);
    }
    for group in at.at("supplementalGroups").items() {
        id(&group, errors);
    }
    let share = spec.at("shareProcessNamespace");
    if share.flag() && spec.at("hostPID").flag() {
        let field = at.named("shareProcessNamespace", Some(share.value()));
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&field, detail);
    }
    check_sysctls(spec, &at.at("sysctls"), errors);
    optional(
        &at.at("fsGroupChangePolicy"),
        &["Always", "OnRootMismatch"],
        errors,
    );
    check_seccomp(&at.at("seccompProfile"), errors);
    check_windows(&at.at("windowsOptions"), errors);
    check_app_armor(&at.at("appArmorProfile"), errors);
    optional(
        &at.at("supplementalGroupsPolicy"),
        &["Merge", "Strict"],
        errors,
    );
    optional(
        &at.at("seLinuxChangePolicy"),
        &["MountOption", "Recursive"],
        errors,
    );
}

fn check_sysctls(spec: &FieldPath<'_>, sysctls: &FieldPath<'_>, errors: &mut Errors) {
    const RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = Vec::new();
    for sysctl in sysctls.items() {
        let name = sysctl.at("name");
        let text = name.text();
        if text.is_empty() {
            errors.required(&name, "");
        } else if text.len() > 253 || !text.split(['.', '/']).all(is_segment) {
            errors.invalid(&name, RULE);
        } else if seen.contains(&text) {
            errors.duplicate(&name);
        }
        seen.push(text);
        let dotted = text.replace('/', ".");
        if spec.at("hostNetwork").flag() && dotted.starts_with("net.") {
            errors.invalid(&name, "may not be specified when 'hostNetwork' is true");
        } else if spec.at("hostIPC").flag() && OF_IPC.iter().any(|one| dotted.starts_with(one)) {
            errors.invalid(&name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_segment(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    edge(text.bytes().next()) && edge(text.bytes().last()) && text.bytes().all(inner)
}

fn check_seccomp(at: &FieldPath<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.at("type"), at.at("localhostProfile"));
    if kind.is_empty() {
        errors.required(&kind, "type is required when seccompProfile is set");
    } else {
        check::one_of(&kind, PROFILES, errors);
    }
    if kind.text() == "Localhost" {
        if profile.is_set() {
            check::descending_path(&profile, profile.text(), errors);
        } else {
            errors.required(&profile, "must be set when seccomp type is Localhost");
        }
    } else if profile.is_set() {
        let shown = json!({"LocalhostProfile": profile.value(), "Type": kind.value()});
        errors.invalid_as(
            &profile,
            &shown,
            "can only be set when seccomp type is Localhost",
        );
    }
}

fn check_app_armor(at: &FieldPath<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.at("type"), at.at("localhostProfile"));
    let needed = "must be set when AppArmor type is Localhost";
    match kind.text() {
        "Localhost" if !profile.is_set() => errors.required(&profile, needed),
        "Localhost" => {
            let trimmed = profile.text().trim();
            if trimmed != profile.text() {
                errors.invalid(&profile, "must not be padded with whitespace");
            } else if trimmed.is_empty() {
                errors.required(&profile, needed);
            }
            if profile.len() > 4095 {
                errors.too_long(&profile, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.is_set() {
                errors.invalid(&profile, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&kind, "type is required when appArmorProfile is set"),
        _ => errors.not_supported(&kind, PROFILES),
    }
}

fn check_windows(at: &FieldPath<'_>, errors: &mut Errors) {
    let name = at.at("gmsaCredentialSpecName");
    if name.is_set() {
        check::subdomain(&name, errors);
    }
    let spec = at.at("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        errors.invalid(&spec, "gmsaCredentialSpec cannot be an empty string");
    }
    if spec.len() > 64 * 1024 {
        errors.invalid(&spec, "gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = at.at("runAsUserName");
    for detail in user
        .is_set()
        .then(|| windows_user(user.text()))
        .into_iter()
        .flatten()
    {
        errors.invalid(&user, detail);
    }
}

/// Returns the errors of a Windows user name with an optional domain.
fn windows_user(text: &str) -> Vec<&'static str> {
    if text.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if text.contains(|c: char| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let (domain, user) = match text.split_once('\\') {
        None => (None, text),
        Some((_, rest)) if rest.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash"];
        }
        Some((domain, user)) => (Some(domain), user),
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            wrong.push("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !domain.split('.').all(is_windows_label) {
            wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        wrong.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        );
    }
    wrong
}

fn is_net_bios(domain: &str) -> bool {
    let odd = |c: char| "\\/:*?\"<>|".contains(c);
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(odd)
}

fn is_windows_label(label: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    label.len() <= 63
        && edge(label.bytes().next())
        && edge(label.bytes().last())
        && label.bytes().all(inner)
}

/// Checks that either all containers of a Windows Pod are host processes or none (upstream:
/// `validateWindowsHostProcessPod`).
pub(super) fn check_host_processes(spec: &FieldPath<'_>, errors: &mut Errors) {
    const ALL: &str = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
    let process = "securityContext.windowsOptions.hostProcess";
    let whole = spec.down(process);
    let (mut count, mut inside) = (0, 0);
    for container in containers(spec) {
        count += 1;
        let own = container.down(process);
        if whole.is_set() && own.is_set() && whole.value() != own.value() {
            let detail = format!(
                "pod hostProcess value must be identical if both are specified, was {}",
                whole.value()
            );
            errors.invalid(&own, &detail);
        }
        let decides = if own.is_set() { &own } else { &whole };
        inside += u32::from(decides.flag());
    }
    if inside == 0 {
        return;
    }
    if inside != count {
        errors.invalid_as(spec, &Value::from(""), ALL);
    }
    let network = spec.at("hostNetwork");
    if !network.flag() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid_as(&network, &Value::from(false), detail);
    }
}

/// Checks a container's security context (upstream: `ValidateSecurityContext`).
pub(super) fn check_container(at: &FieldPath<'_>, host_users: bool, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    id(&at.at("runAsUser"), errors);
    id(&at.at("runAsGroup"), errors);
    let mount = at.at("procMount");
    if mount.is_set() {
        check::one_of(&mount, &["Default", "Unmasked"], errors);
        if host_users && mount.text() == "Unmasked" {
            errors.invalid(&mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    check_seccomp(&at.at("seccompProfile"), errors);
    let escalation = at.at("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.flag() {
        if at.at("privileged").flag() {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_written(at, &written(at), detail);
        }
        for added in at.down("capabilities.add").items() {
            if added.text() == "CAP_SYS_ADMIN" {
                let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                errors.invalid_written(at, &written(at), detail);
            }
        }
    }
    check_windows(&at.at("windowsOptions"), errors);
    check_app_armor(&at.at("appArmorProfile"), errors);
}

/// Prints a container's security context as Go prints its internal type.
fn written(at: &FieldPath<'_>) -> String {
    let names = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ];
    let members = names.map(|(go, json)| {
        let value = match (go, at.at(json).value()) {
            ("Capabilities", Value::Object(both)) => {
                let part = |name: &str| both.get(name).cloned().unwrap_or_default();
                json!({"Add": part("add"), "Drop": part("drop")})
            }
            (_, value) => value.clone(),
        };
        format!("\"{go}\":{value}")
    });
    format!("{{{}}}", members.join(","))
}

/// Checks that a Pod with its own user namespace shares no other namespace with the host.
pub(super) fn check_host_users(spec: &FieldPath<'_>, errors: &mut Errors) {
    let users = spec.at("hostUsers");
    if !users.is_set() || users.flag() {
        return;
    }
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.at(field).flag() {
            let field = spec.named(shown, None);
            errors.forbidden(&field, "when `pod.Spec.HostUsers` is false");
        }
    }
}

/// Refuses fields that the Pod's operating system does not support (upstream: `validateOS`,
/// `validateLinux`, `validateWindows`).
pub(super) fn check_system(spec: &FieldPath<'_>, errors: &mut Errors) {
    let system = spec.at("os");
    if !system.is_set() {
        return;
    }
    let name = system.at("name");
    if name.is_empty() {
        errors.required(&name, "cannot be empty");
        return;
    }
    let before = errors.len();
    // As upstream, the error names `os`, not `os.name`.
    let shown = FieldPath::new(system.path(), name.value());
    check::one_of(&shown, &["linux", "windows"], errors);
    if errors.len() > before {
        return;
    }
    let windows = name.text() == "windows";
    let mut refuse = |at: FieldPath<'_>| {
        let plain_switch = matches!(at.value(), Value::Bool(false));
        let host = at.path().ends_with(".hostPID") || at.path().ends_with(".hostIPC");
        if at.is_set() && !(host && plain_switch) {
            let detail = if windows {
                "cannot be set for a windows pod"
            } else {
                "windows options cannot be set for a linux pod"
            };
            errors.forbidden(&at, detail);
        }
    };
    let own = spec.at("securityContext");
    let contexts = containers(spec).map(|container| container.at("securityContext"));
    if !windows {
        refuse(own.at("windowsOptions"));
        for context in contexts {
            refuse(context.at("windowsOptions"));
        }
        return;
    }
    for field in [
        "appArmorProfile",
        "seLinuxOptions",
        "/hostUsers",
        "/hostPID",
        "/hostIPC",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "/shareProcessNamespace",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ] {
        refuse(match field.strip_prefix('/') {
            Some(field) => spec.at(field),
            None => own.at(field),
        });
    }
    for context in contexts {
        for field in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            refuse(context.at(field));
        }
    }
}
