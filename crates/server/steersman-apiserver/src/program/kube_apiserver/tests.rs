//! Tests of the page of the book that lists every flag.

use std::fmt::Write as _;

use super::options;
use crate::program::command_line::{FlagEffect, FlagTable};
use crate::program::etcd;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guide/kube-apiserver-flags.md");

const INTRODUCTION: &str = "\
# Every flag of kube-apiserver

Called `kube-apiserver`, the program `steersman-apiserver` takes each flag of kube-apiserver 1.36.
A flag is *obeyed*, or *ignored* with a warning on standard error, or *refused*: the program then ends with an error that names the flag and the reason.
Refused are flags that would change answers in a way that this server cannot, and of some flags all values but one or two.
An unknown flag is refused, too.

A value follows an equals sign or a space, after one dash or two; underscores in names count as dashes.
A switch without a value is `true`.
[The page about test environments](envtest.md) describes how the program is used, and what differs from a real server.
";

const ETCD: &str = "
## The flags of etcd

Called `etcd`, the program takes these flags of etcd 3.6, and refuses others.
";

fn effect(effect: FlagEffect) -> String {
    match effect {
        FlagEffect::Only(values) => format!("only `{}`", values.replace('|', "`, `")),
        other => other.describe(),
    }
}

fn table(flags: &FlagTable) -> String {
    let mut text = "\n| Flag | Effect | |\n| --- | --- | --- |\n".to_owned();
    for row in flags.rows() {
        let effect = effect(row.effect);
        writeln!(text, "| `--{}` | {effect} | {} |", row.name, row.note).unwrap();
    }
    text
}

/// With the environment variable `STEERSMAN_UPDATE=1` this test writes the page of the book that lists the flags.
#[test]
fn the_page_lists_every_flag() {
    let (server, etcd) = (options::flags(), etcd::flags());
    let page = format!("{INTRODUCTION}{}{ETCD}{}", table(&server), table(&etcd));
    if std::env::var_os("STEERSMAN_UPDATE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "{PAGE} differs: STEERSMAN_UPDATE=1 writes it again"
    );
}
