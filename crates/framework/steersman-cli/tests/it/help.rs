//! Tests the text of `--help`, and the table of flags in the guide.

use clap::{Arg, CommandFactory as _, Parser as _};
use steersman_cli::Args;
use steersman_cli::settings::{SETTINGS, Setting};

/// Compares a text with a file. If `STEERSMAN_BLESS` is set, writes the file first.
fn compare(
    path: &str,
    expected: &str,
    found: impl Fn(&str) -> String,
    replace: impl Fn(&str) -> String,
) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("STEERSMAN_BLESS").is_some() {
        std::fs::write(&path, replace(&text)).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        found(&text),
        expected,
        "write {path} anew with STEERSMAN_BLESS=1"
    );
}

#[test]
fn the_help_lists_every_flag_with_its_default_and_its_variable() {
    let help = Args::command().term_width(0).render_help().to_string();
    compare("tests/it/help.txt", &help, str::to_owned, |_| help.clone());
}

#[test]
fn the_table_of_the_guide_lists_every_setting() {
    let command = Args::command();
    let row = |setting: &Setting| {
        let flag = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(setting.key));
        let help = flag.and_then(Arg::get_help).unwrap().to_string();
        let help = help.split(" [").next().unwrap().to_owned();
        let variables: Vec<String> = setting
            .variables()
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let default = setting
            .default
            .map_or(String::new(), |default| format!("`{default}`"));
        let in_file = match setting.key {
            "config" => String::new(),
            "controller" => "`controllers`".to_owned(),
            key => format!("`{key}`"),
        };
        format!(
            "| `--{}` | {} | {in_file} | {default} | {help} |\n",
            setting.key,
            variables.join(", ")
        )
    };
    let rows: String = SETTINGS.iter().map(row).collect();
    let table =
        format!("| Flag | Variable | Key | Default | |\n| --- | --- | --- | --- | --- |\n{rows}");
    let found = |text: &str| {
        let start = text.find("| Flag |").unwrap();
        let end = text[start..].find("\n\n").unwrap();
        text[start..start + end + 1].to_owned()
    };
    compare(
        "../steersman/guide/configuration.md",
        &table,
        found,
        |text| match text.contains("\nTABLE\n") {
            true => text.replace("TABLE\n", &table),
            false => text.replace(&found(text), &table),
        },
    );
}

/// The page's flags that only `website-operator` has. Its own tests use them.
const OWN: [&str; 2] = ["--install", "--webhook-bind-address"];

/// The flags and the file of the guide's Deployment are accepted.
#[test]
fn the_deployment_of_the_guide_has_flags_and_settings_that_exist() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../steersman/guide/production.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let flags = page
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"));
    let flags: Vec<String> = flags
        .map(|flag| format!("--{flag}"))
        .filter(|flag| !OWN.iter().any(|own| flag.starts_with(own)))
        .collect();
    assert!(flags.len() > 1, "{flags:?}");
    let (_, rest) = page.split_once("  settings.yaml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let settings: Vec<&str> = lines.map(str::trim_end).map(|line| &line[4..]).collect();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("settings.yaml");
    std::fs::write(&file, settings.join("\n")).unwrap();
    let file = format!("--config={}", file.display());
    let flags = flags
        .iter()
        .map(|flag| match flag.starts_with("--config=") {
            true => &file,
            false => flag,
        });
    let words = ["program".to_owned()].into_iter().chain(flags.cloned());
    let args = Args::try_parse_from(words).unwrap();
    let config = args.config_with(|_| None).unwrap();
    assert_eq!(
        config.controllers().names().collect::<Vec<_>>(),
        ["website"]
    );
}
