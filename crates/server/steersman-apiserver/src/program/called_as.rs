//! Machine: decides which program this process is, by the name under which it was called.

use std::ffi::OsString;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Etcd,
    KubeApiserver,
    Kubectl,
    /// `steersman-apiserver explore`.
    Explore,
    /// Any other name: the server with the flags of `steersman-apiserver`.
    Own,
}

impl CalledAs {
    /// Returns the program and its arguments, from all arguments of the process. The file name of this process decides,
    /// or, if that is no name of a program, the first argument.
    pub(crate) fn of(arguments: impl Iterator<Item = OsString>) -> (Self, Vec<OsString>) {
        let mut arguments: Vec<OsString> = arguments.collect();
        let name = arguments.first().and_then(|path| named(path.as_ref()));
        if let Some(program) = name {
            arguments.remove(0);
            return (program, arguments);
        }
        // Only a first argument without slash and dot names a program: `./etcd`, for instance, is the path of a file.
        let word = arguments.get(1).and_then(|word| word.to_str());
        if word == Some("explore") {
            arguments.remove(0);
            return (Self::Explore, arguments);
        }
        let word = word.filter(|word| !word.contains(['/', '.']));
        if let Some(program) = word.and_then(|word| named(word.as_ref())) {
            arguments.drain(..2);
            return (program, arguments);
        }
        (Self::Own, arguments)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::Explore => "steersman-apiserver explore",
            Self::Own => "steersman-apiserver",
        }
    }
}

fn named(path: &Path) -> Option<CalledAs> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(std::env::consts::EXE_SUFFIX)?;
    [CalledAs::Etcd, CalledAs::KubeApiserver, CalledAs::Kubectl]
        .into_iter()
        .find(|program| program.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(arguments: &[&str]) -> (CalledAs, Vec<OsString>) {
        CalledAs::of(arguments.iter().map(OsString::from))
    }

    #[test]
    fn the_name_of_the_file_decides() {
        let suffix = std::env::consts::EXE_SUFFIX;
        for (name, program) in [
            ("etcd", CalledAs::Etcd),
            ("kube-apiserver", CalledAs::KubeApiserver),
            ("kubectl", CalledAs::Kubectl),
        ] {
            let path = format!("/tmp/k8s/{name}{suffix}");
            assert_eq!(called(&[&path, "--x"]), (program, vec!["--x".into()]));
            let own = called(&["steersman-apiserver", name, "--x"]);
            assert_eq!(own, (program, vec!["--x".into()]));
        }
    }

    #[test]
    fn any_other_name_is_the_server_with_its_own_flags() {
        for arguments in [
            &["steersman-apiserver", "--port", "0"][..],
            &["server"],
            &["x", "./etcd"],
            &[],
        ] {
            let (program, rest) = called(arguments);
            assert_eq!((program, rest.len()), (CalledAs::Own, arguments.len()));
        }
    }
}
