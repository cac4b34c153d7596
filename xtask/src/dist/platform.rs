//! The platforms of packages, as rustc, Go and Python name them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    pub(super) target: &'static str,
    /// The operating system and the architecture as Go names them, as in names of files.
    pub(super) name: &'static str,
    /// The platform tag of wheels. A static program runs with any C library.
    pub(super) wheel_tag: &'static str,
}

const PLATFORMS: [Platform; 4] = [
    Platform {
        target: "x86_64-unknown-linux-gnu",
        name: "linux-amd64",
        wheel_tag: "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        name: "linux-arm64",
        wheel_tag: "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    },
    Platform {
        target: "aarch64-apple-darwin",
        name: "darwin-arm64",
        wheel_tag: "macosx_11_0_arm64",
    },
    Platform {
        target: "x86_64-apple-darwin",
        name: "darwin-amd64",
        wheel_tag: "macosx_10_12_x86_64",
    },
];

impl Platform {
    pub(super) fn of(target: &str) -> Result<Self, String> {
        let found = PLATFORMS.iter().find(|platform| platform.target == target);
        found.copied().ok_or_else(|| {
            let known = PLATFORMS.map(|platform| platform.target).join(", ");
            format!("there are no packages for the target `{target}`; the targets are {known}")
        })
    }

    /// Returns the platform of this machine, if there are packages for it.
    pub(super) fn of_this_machine() -> Option<Self> {
        let architecture = format!("{}-", std::env::consts::ARCH);
        let system = match std::env::consts::OS {
            "macos" => "darwin",
            other => other,
        };
        let mut all = PLATFORMS.into_iter();
        all.find(|platform| {
            platform.target.starts_with(&architecture) && platform.name.starts_with(system)
        })
    }

    /// Returns whether the program is linked statically. macOS has no static system library.
    pub(super) fn is_linux(&self) -> bool {
        self.name.starts_with("linux-")
    }
}

#[cfg(test)]
mod tests {
    use super::Platform;

    #[test]
    fn an_unknown_target_is_refused_with_the_known_targets() {
        let error = Platform::of("riscv64gc-unknown-linux-gnu").unwrap_err();
        assert!(error.contains("`riscv64gc-unknown-linux-gnu`"), "{error}");
        assert!(
            error.contains("x86_64-unknown-linux-gnu, aarch64"),
            "{error}"
        );
    }

    #[test]
    fn platforms_have_the_names_of_go() {
        let named = |target| Platform::of(target).map(|platform| platform.name);
        assert_eq!(named("x86_64-unknown-linux-gnu"), Ok("linux-amd64"));
        assert_eq!(named("aarch64-apple-darwin"), Ok("darwin-arm64"));
    }
}
