//! Machine: checks security contexts of Pods and containers.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};

use crate::fields::go_value::GoType::{self, Plain, Pointer, Struct};
use crate::fields::{FieldPath, check};

use super::profiles::containers;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Prefixes of the sysctls that the IPC namespace isolates.
const OF_IPC: &[&str] = &["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

static SYSCTL: ConstantPattern = LazyLock::new(|| {
    Regex::new("^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$").ok()
});
/// Matches a domain of Windows in the format of DNS.
static WINDOWS_DOMAIN: ConstantPattern = LazyLock::new(|| {
    let label = "[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?";
    Regex::new(&format!("^{label}([.]{label})*$")).ok()
});

fn id(at: &FieldPath<'_>) {
    at.if_set(|at| check::in_range(at, 0, i64::from(i32::MAX)));
}

/// Checks a Pod's security context (upstream: `validatePodSpecSecurityContext`).
pub(super) fn check_pod(spec: &FieldPath<'_>) {
    let at = spec.at("securityContext");
    let ids = at.parts(["fsGroup", "runAsUser", "runAsGroup"]);
    ids.iter().for_each(id);
    at.at("supplementalGroups").each(id);
    let share = spec.at("shareProcessNamespace");
    if share.flag() && spec.at("hostPID").flag() {
        let field = at.named("shareProcessNamespace", Some(share.value()));
        field.invalid("ShareProcessNamespace and HostPID cannot both be enabled");
    }
    check_sysctls(spec, &at.at("sysctls"));
    check::optional(&at.at("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    at.at("seccompProfile").if_set(check_seccomp);
    check_windows(&at.at("windowsOptions"));
    at.at("appArmorProfile").if_set(check_app_armor);
    check::optional(&at.at("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    check::optional(&at.at("seLinuxChangePolicy"), &["MountOption", "Recursive"]);
}

fn check_sysctls(spec: &FieldPath<'_>, sysctls: &FieldPath<'_>) {
    const RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.at("name");
        let text = name.text();
        let is_new = seen.insert(text);
        if text.is_empty() {
            name.required("");
        } else if text.len() > 253 || !is_match(&SYSCTL, text) {
            name.invalid(RULE);
        } else if !is_new {
            name.duplicate();
        }
        let dotted = text.replace('/', ".");
        if spec.at("hostNetwork").flag() && dotted.starts_with("net.") {
            name.invalid("may not be specified when 'hostNetwork' is true");
        } else if spec.at("hostIPC").flag() && OF_IPC.iter().any(|one| dotted.starts_with(one)) {
            name.invalid("may not be specified when 'hostIPC' is true");
        }
    }
}

fn check_seccomp(at: &FieldPath<'_>) {
    let [kind, profile] = at.parts(["type", "localhostProfile"]);
    kind.need("type is required when seccompProfile is set");
    kind.if_filled(|kind| check::one_of(kind, PROFILES));
    match (kind.text() == "Localhost", profile.is_set()) {
        (true, true) => check::descending_path(&profile),
        (true, false) => profile.required("must be set when seccomp type is Localhost"),
        (false, true) => {
            let shown = json!({"LocalhostProfile": profile.value(), "Type": kind.value()});
            profile.invalid_as(&shown, "can only be set when seccomp type is Localhost");
        }
        (false, false) => {}
    }
}

fn check_app_armor(at: &FieldPath<'_>) {
    let [kind, profile] = at.parts(["type", "localhostProfile"]);
    let needed = "must be set when AppArmor type is Localhost";
    match kind.text() {
        "Localhost" if !profile.is_set() => profile.required(needed),
        "Localhost" => {
            let trimmed = profile.text().trim();
            if trimmed != profile.text() {
                profile.invalid("must not be padded with whitespace");
            } else if trimmed.is_empty() {
                profile.required(needed);
            }
            profile.at_most_bytes(4095);
        }
        "RuntimeDefault" | "Unconfined" if !profile.is_set() => {}
        "RuntimeDefault" | "Unconfined" => {
            profile.invalid("can only be set when AppArmor type is Localhost");
        }
        "" => kind.required("type is required when appArmorProfile is set"),
        _ => kind.not_supported(PROFILES),
    }
}

fn check_windows(at: &FieldPath<'_>) {
    at.at("gmsaCredentialSpecName").if_set(check::subdomain);
    let spec = at.at("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        spec.invalid("gmsaCredentialSpec cannot be an empty string");
    }
    if spec.len() > 64 * 1024 {
        spec.invalid("gmsaCredentialSpec size must be under 64 KiB");
    }
    at.at("runAsUserName").if_set(check_windows_user);
}

/// Checks a Windows user name with an optional domain.
fn check_windows_user(at: &FieldPath<'_>) {
    const ODD: &str = "\"/\\:;|=,+*?<>@[]";
    let text = at.text();
    if text.is_empty() {
        return at.invalid("runAsUserName cannot be an empty string");
    }
    if text.contains(|c: char| c.is_ascii_control()) {
        return at.invalid("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match text.split_once('\\') {
        None => (None, text),
        Some((_, rest)) if rest.contains('\\') => {
            return at.invalid("runAsUserName cannot contain more than one backslash");
        }
        Some((domain, user)) => (Some(domain), user),
    };
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            at.invalid("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_match(&WINDOWS_DOMAIN, domain) {
            at.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        at.invalid("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        at.invalid("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        at.invalid("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| ODD.contains(c)) {
        let detail = "runAsUserName's User cannot contain the following characters: ";
        at.invalid(&format!("{detail}{ODD}"));
    }
}

fn is_net_bios(domain: &str) -> bool {
    let odd = |c: char| "\\/:*?\"<>|".contains(c);
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(odd)
}

/// Checks that all containers or none are host processes (`validateWindowsHostProcessPod`).
pub(super) fn check_host_processes(spec: &FieldPath<'_>) {
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
            own.invalid(&detail);
        }
        let decides = if own.is_set() { &own } else { &whole };
        inside += u32::from(decides.flag());
    }
    if inside == 0 {
        return;
    }
    if inside != count {
        spec.invalid_as("", ALL);
    }
    let network = spec.at("hostNetwork");
    if !network.flag() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        network.invalid_as(false, detail);
    }
}

/// Checks a container's security context (upstream: `ValidateSecurityContext`).
pub(super) fn check_container(at: &FieldPath<'_>, host_users: bool) {
    id(&at.at("runAsUser"));
    id(&at.at("runAsGroup"));
    let mount = at.at("procMount");
    check::optional(&mount, &["Default", "Unmasked"]);
    if host_users && mount.text() == "Unmasked" {
        mount.invalid("`hostUsers` must be false to use `Unmasked`");
    }
    at.at("seccompProfile").if_set(check_seccomp);
    let escalation = at.at("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.flag() {
        let refuse = |other: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {other}");
            at.invalid_printed(&CONTEXT, &detail);
        };
        if at.at("privileged").flag() {
            refuse("`privileged` to true");
        }
        let added = at.down("capabilities.add").items();
        for _ in added.filter(|added| added.text() == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    check_windows(&at.at("windowsOptions"));
    at.at("appArmorProfile").if_set(check_app_armor);
}

const CAPABILITIES: GoType = Struct(&[("add", Plain), ("drop", Plain)]);
const CONTEXT: GoType = Struct(&[
    ("capabilities", Pointer(&CAPABILITIES)),
    ("privileged", Plain),
    ("seLinuxOptions", Plain),
    ("windowsOptions", Plain),
    ("runAsUser", Plain),
    ("runAsGroup", Plain),
    ("runAsNonRoot", Plain),
    ("readOnlyRootFilesystem", Plain),
    ("allowPrivilegeEscalation", Plain),
    ("procMount", Plain),
    ("seccompProfile", Plain),
    ("appArmorProfile", Plain),
]);

/// Checks that a Pod with its own user namespace shares no other namespace with the host.
pub(super) fn check_host_users(spec: &FieldPath<'_>) {
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
            spec.named(shown, None)
                .forbidden("when `pod.Spec.HostUsers` is false");
        }
    }
}

/// Refuses fields of another system (upstream: `validateOS`, `validateLinux`, `validateWindows`).
pub(super) fn check_system(spec: &FieldPath<'_>) {
    let system = spec.at("os");
    let contexts = containers(spec).map(|container| container.at("securityContext"));
    match system.at("name").text() {
        _ if !system.is_set() => {}
        "" => system.at("name").required("cannot be empty"),
        "linux" => {
            for context in std::iter::once(spec.at("securityContext")).chain(contexts) {
                let options = context.at("windowsOptions");
                options.deny("windows options cannot be set for a linux pod");
            }
        }
        "windows" => {
            let refuse = |at: &FieldPath<'_>| at.deny("cannot be set for a windows pod");
            for field in NOT_OF_WINDOWS_PODS {
                let at = spec.down(field);
                if !(matches!(*field, "hostPID" | "hostIPC") && *at.value() == false) {
                    refuse(&at);
                }
            }
            for context in contexts {
                NOT_OF_WINDOWS_CONTAINERS
                    .iter()
                    .for_each(|field| refuse(&context.at(field)));
            }
        }
        // As upstream, the error names `os`, not `os.name`.
        _ => system
            .with(system.at("name").value())
            .not_supported(&["linux", "windows"]),
    }
}

/// Fields that a Pod for Windows may not have, in the order of upstream's checks.
const NOT_OF_WINDOWS_PODS: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// Fields that the security context of a container for Windows may not have.
const NOT_OF_WINDOWS_CONTAINERS: &[&str] = &[
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
    "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser",
    "runAsGroup",
];
