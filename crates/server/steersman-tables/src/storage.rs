//! Machine: the columns of storage kinds.

use serde_json::{Value, json};

use super::cells::{NONE, UNSET, at, boolean, is_set, joined, list, text, text_or, texts};
use super::columns::{AGE, Columns, Heading, shown, wide};

const VOLUME_MODE: Heading = wide("VolumeMode", "Whether the volume has a file system.");
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const VOLUMES: Columns = Columns {
    headings: &[
        shown("Capacity", "Size of the volume."),
        shown("Access Modes", "How the volume can be mounted."),
        shown("Reclaim Policy", "Treatment of a released volume."),
        shown("Status", "Whether the volume is bound."),
        shown("Claim", "Claim that the volume is bound to."),
        shown("StorageClass", "Class that the volume is of."),
        shown("VolumeAttributesClass", "Class of the volume's attributes."),
        shown("Reason", "Why the volume failed."),
        AGE,
        VOLUME_MODE,
    ],
    row: |volume, _| {
        let claim = at(volume, "spec.claimRef").filter(|it| it.is_object());
        let claim = claim.map_or_else(String::new, |it| {
            format!("{}/{}", text(it, "namespace"), text(it, "name"))
        });
        json!([
            text_or(volume, "spec.capacity.storage", "0"),
            modes(&texts(volume, "spec.accessModes")),
            text(volume, "spec.persistentVolumeReclaimPolicy"),
            phase(volume),
            claim,
            class(volume),
            text_or(volume, "spec.volumeAttributesClassName", UNSET),
            text(volume, "status.reason"),
            text_or(volume, "spec.volumeMode", UNSET)
        ])
    },
};

pub(super) const CLAIMS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the claim is bound."),
        shown("Volume", "Volume that the claim is bound to."),
        shown("Capacity", "Size of the volume."),
        shown("Access Modes", "How the volume can be mounted."),
        shown("StorageClass", "Requested storage class."),
        shown("VolumeAttributesClass", "Class of the volume's attributes."),
        AGE,
        VOLUME_MODE,
    ],
    row: |claim, _| {
        let volume = text(claim, "spec.volumeName");
        let (mut capacity, mut access) = ("", String::new());
        if !volume.is_empty() {
            capacity = text_or(claim, "status.capacity.storage", "0");
            access = modes(&texts(claim, "status.accessModes"));
        }
        json!([
            phase(claim),
            volume,
            capacity,
            access,
            class(claim),
            text_or(claim, "spec.volumeAttributesClassName", UNSET),
            text_or(claim, "spec.volumeMode", UNSET)
        ])
    },
};

fn phase(object: &Value) -> &str {
    if is_set(object, "metadata.deletionTimestamp") {
        "Terminating"
    } else {
        text(object, "status.phase")
    }
}

fn class(object: &Value) -> &str {
    let old = object["metadata"]["annotations"][BETA_CLASS].as_str();
    old.unwrap_or_else(|| text(object, "spec.storageClassName"))
}

/// Formats access modes by their short names, without duplicates, in a fixed order.
fn modes(modes: &[&str]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short: Vec<&str> = known
        .into_iter()
        .filter(|(long, _)| modes.contains(long))
        .map(|(_, short)| short)
        .collect();
    short.join(",")
}

/// Returns the name of a class, followed by `(default)` for the default class.
fn name(object: &Value, annotations: &[&str]) -> String {
    let name = text(object, "metadata.name");
    let notes = &object["metadata"]["annotations"];
    let is_default = annotations.iter().any(|name| notes[name] == "true");
    if is_default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    }
}

pub(super) const STORAGE_CLASSES: Columns = Columns {
    headings: &[
        Heading::NAME,
        shown("Provisioner", "Provisioner of the volumes."),
        shown("ReclaimPolicy", "Treatment of released volumes."),
        shown("VolumeBindingMode", "When volumes are created and bound."),
        shown("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ],
    row: |class, _| {
        let marks = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        json!([
            name(class, &marks),
            text(class, "provisioner"),
            text_or(class, "reclaimPolicy", "Delete"),
            text_or(class, "volumeBindingMode", "Immediate"),
            boolean(class, "allowVolumeExpansion", false)
        ])
    },
};

pub(super) const ATTRIBUTES_CLASSES: Columns = Columns {
    headings: &[
        Heading::NAME,
        shown("DriverName", "Driver that the attributes are for."),
        AGE,
    ],
    row: |class, _| {
        let marks = ["volumeattributesclass.alpha.kubernetes.io/is-default-class"];
        json!([name(class, &marks), text(class, "driverName")])
    },
};

pub(super) const ATTACHMENTS: Columns = Columns {
    headings: &[
        Heading {
            format: "name",
            ..shown("Attacher", "Driver that attaches.")
        },
        shown("PV", "Volume that is attached."),
        shown("Node", "Node that the volume is attached to."),
        shown("Attached", "Whether the volume is attached.").boolean(),
        AGE,
    ],
    row: |attachment, _| {
        json!([
            text(attachment, "spec.attacher"),
            text(attachment, "spec.source.persistentVolumeName"),
            text(attachment, "spec.nodeName"),
            boolean(attachment, "status.attached", false)
        ])
    },
};

pub(super) const CSI_NODES: Columns = Columns {
    headings: &[shown("Drivers", "Number of drivers.").integer(), AGE],
    row: |node, _| json!([list(node, "spec.drivers").len()]),
};

pub(super) const CSI_DRIVERS: Columns = Columns {
    headings: &[
        shown("AttachRequired", "Whether volumes are attached first.").boolean(),
        shown("PodInfoOnMount", "Whether the driver gets the pod's data.").boolean(),
        shown("StorageCapacity", "Whether the driver reports capacity.").boolean(),
        shown("TokenRequests", "Audiences of the driver's tokens."),
        shown("RequiresRepublish", "Periodic republishing of volumes.").boolean(),
        shown("Modes", "Supported volume lifecycle modes."),
        AGE,
    ],
    row: |driver, _| {
        let flag = |name: &str, other: bool| boolean(&driver["spec"], name, other);
        let audiences: Vec<&str> = list(driver, "spec.tokenRequests")
            .iter()
            .map(|request| text(request, "audience"))
            .collect();
        let modes = texts(driver, "spec.volumeLifecycleModes");
        json!([
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            if is_set(driver, "spec.tokenRequests") {
                audiences.join(",")
            } else {
                UNSET.to_owned()
            },
            flag("requiresRepublish", false),
            joined(&modes, NONE)
        ])
    },
};

pub(super) const CSI_CAPACITIES: Columns = Columns {
    headings: &[
        shown("StorageClassName", "Class that the capacity is of."),
        shown("Capacity", "Available capacity."),
    ],
    row: |capacity, _| {
        json!([
            text(capacity, "storageClassName"),
            text_or(capacity, "capacity", UNSET)
        ])
    },
};

/// The columns of StorageVersionMigrations. The column of the name has no format, as upstream.
pub(super) const MIGRATIONS: Columns = Columns {
    headings: &[
        Heading {
            format: "",
            ..Heading::NAME
        },
        shown("Resource", "Resource and group of the migrated objects."),
    ],
    row: |migration, _| {
        let part = |name: &str| text(&migration["spec"]["resource"], name);
        let resource = format!("{}.{}", part("resource"), part("group"));
        json!([text(migration, "metadata.name"), resource])
    },
};
