//! Machine: the checks of the Pod Security Standard `baseline`, one function each (upstream:
//! `pod-security-admission/policy`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{Pod, Violation, counted, list, quoted, used, uses};
use crate::values::{items, text, texts};

const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
];

/// Sysctls that a Pod may set, each with the first minor version of `baseline` that allows it (0: all versions).
const SYSCTLS: &[(u32, &str)] = &[
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    fn kind(holder: &Value) -> Option<&str> {
        let kind = holder["securityContext"]["appArmorProfile"]["type"].as_str()?;
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
    }
    let mut setters = Vec::from_iter(pod.setters(|holder| kind(holder).is_some()));
    let mut values: Vec<String> = pod.all(kind).into_iter().map(str::to_owned).collect();
    let annotations = pod.annotations.as_object().into_iter().flatten();
    let mut notes: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .filter_map(|(key, value)| {
            let text = value.as_str()?;
            let fine = matches!(text, "" | "runtime/default") || text.starts_with("localhost/");
            (!fine).then(|| format!("{key}={value}"))
        })
        .collect();
    if !notes.is_empty() {
        notes.sort();
        setters.push(counted("annotation", notes.len()));
        values.append(&mut notes);
    }
    if setters.is_empty() {
        return None;
    }
    let reason = match values.len() {
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.join(" and "),
        quoted(values.iter().map(String::as_str))
    );
    Some((reason, detail))
}

fn added(container: &Value) -> impl Iterator<Item = &str> {
    texts(&container["securityContext"]["capabilities"]["add"])
}

/// Returns the details of a violation if containers add capabilities that are not in `allowed`; otherwise `None`.
pub(super) fn adding(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let containers = pod.list(|container| added(container).any(|one| !allowed.contains(&one)))?;
    let capabilities = pod.containers().flat_map(added);
    let capabilities: BTreeSet<&str> = capabilities.filter(|one| !allowed.contains(one)).collect();
    let capabilities = quoted(capabilities);
    Some(format!(
        "{containers} must not include {capabilities} in securityContext.capabilities.add"
    ))
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let detail = adding(pod, DEFAULT_CAPABILITIES)?;
    Some(("non-default capabilities", detail))
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let names = ["hostNetwork", "hostPID", "hostIPC"];
    let set = names.iter().filter(|name| pod.spec[**name] == true);
    let set: Vec<String> = set.map(|name| format!("{name}=true")).collect();
    (!set.is_empty()).then(|| ("host namespaces", set.join(", ")))
}

pub(super) fn volumes_of<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    items(&pod.spec["volumes"]).iter()
}

pub(super) fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let bad = volumes_of(pod).filter(|volume| !volume["hostPath"].is_null());
    let bad: Vec<&str> = bad.filter_map(|volume| volume["name"].as_str()).collect();
    Some(("hostPath volumes", list("volume", &bad)?))
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    fn ports(container: &Value) -> impl Iterator<Item = i64> {
        items(&container["ports"])
            .iter()
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
    }
    let containers = pod.named(|container| ports(container).next().is_some());
    let all = pod.containers().flat_map(ports);
    let all: BTreeSet<String> = all.map(|port| port.to_string()).collect();
    let detail = format!(
        "{} {} {} {}",
        list("container", &containers)?,
        uses(containers.len()),
        counted("hostPort", all.len()),
        all.into_iter().collect::<Vec<_>>().join(", ")
    );
    Some(("hostPort", detail))
}

fn named_hosts(container: &Value) -> Vec<&str> {
    let lifecycle = &container["lifecycle"];
    let handlers = [
        &container["livenessProbe"], &container["readinessProbe"], &container["startupProbe"],
        &lifecycle["postStart"], &lifecycle["preStop"],
    ];
    handlers
        .into_iter()
        .flat_map(|handler| [&handler["httpGet"]["host"], &handler["tcpSocket"]["host"]])
        .filter_map(Value::as_str)
        .filter(|host| !host.is_empty())
        .collect()
}

pub(super) fn hosts(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "probe or lifecycle host";
    let mut containers = pod.named(|container| !named_hosts(container).is_empty());
    containers.sort_unstable();
    containers.dedup();
    let hosts: BTreeSet<&str> = pod.containers().flat_map(named_hosts).collect();
    let detail = used(("container", &containers), (REASON, &hosts))?;
    Some((REASON, detail))
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let containers = pod.list(|one| one["securityContext"]["privileged"] == true)?;
    let detail = format!("{containers} must not set securityContext.privileged=true");
    Some(("privileged", detail))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    fn mount(container: &Value) -> Option<&str> {
        let mount = container["securityContext"]["procMount"].as_str();
        mount.filter(|mount| *mount != "Default")
    }
    if pod.has_own_users() {
        return None;
    }
    let containers = pod.list(|container| mount(container).is_some())?;
    let mounts: BTreeSet<&str> = pod.containers().filter_map(mount).collect();
    let mounts = quoted(mounts);
    let detail = format!("{containers} must not set securityContext.procMount to {mounts}");
    Some(("procMount", detail))
}

pub(super) fn selinux(pod: &Pod<'_>) -> Option<Violation> {
    const TYPES: &[&str] = &["container_t", "container_init_t", "container_kvm_t"];
    fn option<'a>(holder: &'a Value, member: &str) -> Option<&'a str> {
        let text = holder["securityContext"]["seLinuxOptions"][member].as_str();
        text.filter(|text| !text.is_empty())
    }
    fn bad_type(holder: &Value, version: u32) -> Option<&str> {
        let is_good =
            |kind: &&str| TYPES.contains(kind) || (version >= 31 && *kind == "container_engine_t");
        option(holder, "type").filter(|kind| !is_good(kind))
    }
    let setters = pod.setters(|holder| {
        bad_type(holder, pod.version).is_some()
            || option(holder, "user").is_some()
            || option(holder, "role").is_some()
    })?;
    let types = pod.all(|holder| bad_type(holder, pod.version));
    let mut data = Vec::from_iter(list("type", &Vec::from_iter(types)));
    for member in ["user", "role"] {
        if !pod.all(|holder| option(holder, member)).is_empty() {
            data.push(format!("{member} may not be set"));
        }
    }
    let data = data.join("; ");
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {data}");
    Some(("seLinuxOptions", detail))
}

fn bad_profile(holder: &Value) -> Option<&str> {
    let profile = &holder["securityContext"]["seccompProfile"];
    let kind = text(&profile["type"]);
    let bad = profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost");
    bad.then_some(kind)
}

pub(super) fn seccomp(pod: &Pod<'_>, required: bool) -> Option<Violation> {
    if pod.version < 19 || (required && pod.is_windows()) {
        return None;
    }
    if let Some(setters) = pod.setters(|holder| bad_profile(holder).is_some()) {
        let values = quoted(pod.all(bad_profile));
        let detail =
            format!("{setters} must not set securityContext.seccompProfile.type to {values}");
        return Some(("seccompProfile", detail));
    }
    if !required || pod.context("seccompProfile").is_object() {
        return None;
    }
    let containers = pod.list(|one| one["securityContext"]["seccompProfile"].is_null())?;
    let detail = format!(
        "pod or {containers} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
    );
    Some(("seccompProfile", detail))
}

pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let safe = |name: &str| {
        let mut known = SYSCTLS.iter();
        known.any(|(from, known)| *known == name && pod.version >= *from)
    };
    let bad: Vec<&str> = items(pod.context("sysctls"))
        .iter()
        .filter_map(|one| one["name"].as_str())
        .filter(|name| !safe(name))
        .collect();
    (!bad.is_empty()).then(|| ("forbidden sysctls", bad.join(", ")))
}

pub(super) fn windows_processes(pod: &Pod<'_>) -> Option<Violation> {
    let setters =
        pod.setters(|one| one["securityContext"]["windowsOptions"]["hostProcess"] == true)?;
    let detail = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Some(("hostProcess", detail))
}
