//! Machine: the columns of storage kinds.

use serde_json::Value;

use super::cells::{NONE, UNSET, at, boolean, is_set, list, text, text_or, texts};
use super::columns::{AGE, Columns, Heading, age, shown, wide};

const VOLUME_MODE: Heading = wide("VolumeMode", "Whether the volume has a file system.");
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The columns of PersistentVolumes.
pub(super) const VOLUMES: Columns = Columns {
    headings: &[
        shown("Capacity", "Size of the volume."),
        shown("Access Modes", "How the volume can be mounted."),
        shown(
            "Reclaim Policy",
            "Treatment of the volume after its claim is deleted.",
        ),
        shown("Status", "Whether the volume is bound."),
        shown("Claim", "Claim that the volume is bound to."),
        shown("StorageClass", "Class that the volume is of."),
        shown("VolumeAttributesClass", "Class of the volume's attributes."),
        shown("Reason", "Why the volume failed."),
        AGE,
        VOLUME_MODE,
    ],
    row: |volume, now| {
        let claim = at(volume, &["spec", "claimRef"]).filter(|it| it.is_object());
        let claim = claim.map_or_else(String::new, |it| {
            format!("{}/{}", text(it, &["namespace"]), text(it, &["name"]))
        });
        vec![
            text_or(volume, &["spec", "capacity", "storage"], "0").into(),
            modes(&texts(volume, &["spec", "accessModes"])).into(),
            text(volume, &["spec", "persistentVolumeReclaimPolicy"]).into(),
            phase(volume).into(),
            claim.into(),
            class(volume).into(),
            text_or(volume, &["spec", "volumeAttributesClassName"], UNSET).into(),
            text(volume, &["status", "reason"]).into(),
            age(volume, now),
            text_or(volume, &["spec", "volumeMode"], UNSET).into(),
        ]
    },
};

/// The columns of PersistentVolumeClaims.
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
    row: |claim, now| {
        let volume = text(claim, &["spec", "volumeName"]);
        let (mut capacity, mut access) = ("", String::new());
        if !volume.is_empty() {
            capacity = text_or(claim, &["status", "capacity", "storage"], "0");
            access = modes(&texts(claim, &["status", "accessModes"]));
        }
        vec![
            phase(claim).into(),
            volume.into(),
            capacity.into(),
            access.into(),
            class(claim).into(),
            text_or(claim, &["spec", "volumeAttributesClassName"], UNSET).into(),
            age(claim, now),
            text_or(claim, &["spec", "volumeMode"], UNSET).into(),
        ]
    },
};

fn phase(object: &Value) -> &str {
    if is_set(object, &["metadata", "deletionTimestamp"]) {
        "Terminating"
    } else {
        text(object, &["status", "phase"])
    }
}

fn class(object: &Value) -> &str {
    let old = at(object, &["metadata", "annotations", BETA_CLASS]).and_then(Value::as_str);
    old.unwrap_or_else(|| text(object, &["spec", "storageClassName"]))
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
    let name = text(object, &["metadata", "name"]);
    let is_default = annotations
        .iter()
        .any(|annotation| text(object, &["metadata", "annotations", annotation]) == "true");
    if is_default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    }
}

/// The columns of StorageClasses.
pub(super) const STORAGE_CLASSES: Columns = Columns {
    headings: &[
        Heading::NAME,
        shown("Provisioner", "Provisioner of the volumes."),
        shown(
            "ReclaimPolicy",
            "Treatment of a volume after its claim is deleted.",
        ),
        shown(
            "VolumeBindingMode",
            "When volumes are provisioned and bound.",
        ),
        shown("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ],
    row: |class, now| {
        let marks = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        vec![
            name(class, &marks).into(),
            text(class, &["provisioner"]).into(),
            text_or(class, &["reclaimPolicy"], "Delete").into(),
            text_or(class, &["volumeBindingMode"], "Immediate").into(),
            boolean(class, &["allowVolumeExpansion"], false).into(),
            age(class, now),
        ]
    },
};

/// The columns of VolumeAttributesClasses.
pub(super) const ATTRIBUTES_CLASSES: Columns = Columns {
    headings: &[
        Heading::NAME,
        shown("DriverName", "Driver that the attributes are for."),
        AGE,
    ],
    row: |class, now| {
        let marks = ["volumeattributesclass.alpha.kubernetes.io/is-default-class"];
        vec![
            name(class, &marks).into(),
            text(class, &["driverName"]).into(),
            age(class, now),
        ]
    },
};

/// The columns of VolumeAttachments.
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
    row: |attachment, now| {
        vec![
            text(attachment, &["spec", "attacher"]).into(),
            text(attachment, &["spec", "source", "persistentVolumeName"]).into(),
            text(attachment, &["spec", "nodeName"]).into(),
            boolean(attachment, &["status", "attached"], false).into(),
            age(attachment, now),
        ]
    },
};

/// The columns of CSINodes.
pub(super) const CSI_NODES: Columns = Columns {
    headings: &[
        shown("Drivers", "Number of drivers on the node.").integer(),
        AGE,
    ],
    row: |node, now| {
        vec![
            list(node, &["spec", "drivers"]).len().into(),
            age(node, now),
        ]
    },
};

/// The columns of CSIDrivers.
pub(super) const CSI_DRIVERS: Columns = Columns {
    headings: &[
        shown("AttachRequired", "Whether volumes are attached first.").boolean(),
        shown(
            "PodInfoOnMount",
            "Whether the driver gets information about the pod.",
        )
        .boolean(),
        shown(
            "StorageCapacity",
            "Whether the driver reports its storage capacity.",
        )
        .boolean(),
        shown("TokenRequests", "Audiences of the driver's tokens."),
        shown(
            "RequiresRepublish",
            "Whether volumes are republished periodically.",
        )
        .boolean(),
        shown("Modes", "Supported volume lifecycle modes."),
        AGE,
    ],
    row: |driver, now| {
        let flag = |name: &str, other: bool| boolean(driver, &["spec", name], other).into();
        let audiences: Vec<&str> = list(driver, &["spec", "tokenRequests"])
            .iter()
            .map(|request| text(request, &["audience"]))
            .collect();
        let modes = texts(driver, &["spec", "volumeLifecycleModes"]);
        vec![
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            if is_set(driver, &["spec", "tokenRequests"]) {
                audiences.join(",").into()
            } else {
                UNSET.into()
            },
            flag("requiresRepublish", false),
            if modes.is_empty() {
                NONE.into()
            } else {
                modes.join(",").into()
            },
            age(driver, now),
        ]
    },
};

/// The columns of CSIStorageCapacities.
pub(super) const CSI_CAPACITIES: Columns = Columns {
    headings: &[
        shown("StorageClassName", "Class that the capacity is of."),
        shown("Capacity", "Available capacity."),
    ],
    row: |capacity, _| {
        vec![
            text(capacity, &["storageClassName"]).into(),
            text_or(capacity, &["capacity"], UNSET).into(),
        ]
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
        let part = |name: &str| text(migration, &["spec", "resource", name]);
        let resource = format!("{}.{}", part("resource"), part("group"));
        vec![
            text(migration, &["metadata", "name"]).into(),
            resource.into(),
        ]
    },
};
