//! Room: the program called `kube-apiserver`: the server with kube-apiserver's flags, by default without controllers.

mod admission_plugins;
mod options;
mod token_file;
mod audit_event;
mod audit_log;
mod certificates;
mod etcd_link;
mod storage;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::run;
