//! The documentation of the command line is correct: each command on a page can be parsed, and the page of settings has
//! all of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::error::ErrorKind;

use super::*;
use crate::{
    AwsAudit, AwsIam, AwsPrices, CloudConnector as _, Ec2Catalogue, FakeCloud, Operator,
    settings::table::GATES,
};

/// The page of the settings, and the lines between which the tables are.
const SETTINGS_PAGE: &str = "docs/book/settings.md";
const BEGIN: &str =
    "<!-- tables: written by `UPDATE_DOCS=1 cargo test -p fleetwright-operator documented` -->\n";
const END: &str = "<!-- end of the tables -->\n";
/// How the binary is called in documents.
const CALLS: [&str; 2] = ["fleetwright ", "cargo run --release -- "];

/// The binary of this repository.
fn operator() -> Operator {
    Operator::new("fleetwright", "0")
        .cloud("fake", FakeCloud)
        .catalogue(Ec2Catalogue::default())
        .definitions("aws", Vec::new)
        .tool(AwsAudit)
        .tool(AwsIam)
        .tool(AwsPrices)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages that show commands.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !name.starts_with('.') && name != "target" {
            pages(&path, found);
        } else if name.ends_with(".md") && !["CHANGELOG.md", "roadmap.md"].contains(&&*name) {
            found.push(path);
        }
    }
}

/// Characters that a shell takes apart, and what stands for them between single quotes until words are split.
const QUOTED: [(char, char); 5] =
    [('|', '\u{e000}'), ('>', '\u{e001}'), ('&', '\u{e002}'), (';', '\u{e003}'), (' ', '\u{e004}')];

/// The arguments of each call of the binary in `text`, which is a line of code.
fn calls(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut is_quoted = false;
    let hidden = text.chars().map(|letter| {
        is_quoted ^= letter == '\'';
        let stand_in = QUOTED.iter().find(|(plain, _)| is_quoted && *plain == letter);
        stand_in.map_or(letter, |(_, stand_in)| *stand_in)
    });
    let text = &hidden.collect::<String>();
    let shown = |word: &str| -> String {
        let plain = |letter: char| {
            QUOTED.iter().find(|(_, known)| *known == letter).map_or(letter, |(plain, _)| *plain)
        };
        word.trim_matches(['"', '\'']).chars().map(plain).collect()
    };
    for part in text.split('|') {
        let mut words = part.trim();
        // Variables of the environment in front.
        while let Some((name, rest)) = words.split_once(' ').filter(|(name, _)| name.contains('=')) {
            let is_variable = name
                .split('=')
                .next()
                .is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            if !is_variable {
                break;
            }
            words = rest.trim_start();
        }
        let called = words.to_owned() + " ";
        if let Some(rest) = CALLS.iter().find_map(|call| called.strip_prefix(call)) {
            let rest = rest.split(" #").next().unwrap_or_default();
            let rest = rest.split(['>', '&', ';']).next().unwrap_or_default();
            found.push(rest.split_whitespace().map(shown).collect());
        }
    }
    found
}

/// The calls in the fenced code of a page, and in code within its text.
fn shown(page: &str) -> Vec<Vec<String>> {
    let (mut found, mut fenced, mut line) = (Vec::new(), false, String::new());
    for text in page.lines() {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            line.push_str(text.trim_end_matches('\\'));
            if !text.ends_with('\\') {
                found.extend(calls(&std::mem::take(&mut line)));
            }
        } else {
            found.extend(text.split('`').skip(1).step_by(2).flat_map(calls));
        }
    }
    found
}

#[test]
fn every_documented_command_can_be_parsed() {
    let operator = operator();
    let interface = operator.interface();
    let (mut found, mut checked) = (Vec::new(), 0);
    pages(&root(), &mut found);
    for path in found {
        for args in shown(&fs::read_to_string(&path).unwrap()) {
            checked += 1;
            let words = ["fleetwright"].into_iter().map(str::to_owned).chain(args.clone());
            let Err(error) = parse(words.map(OsString::from), &interface) else { continue };
            // A page may name a command without its arguments.
            let is_fine = [
                ErrorKind::DisplayHelp,
                ErrorKind::DisplayVersion,
                ErrorKind::MissingRequiredArgument,
                ErrorKind::MissingSubcommand,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ];
            assert!(
                is_fine.contains(&error.kind()),
                "{}: fleetwright {}\n{error}",
                path.display(),
                args.join(" ")
            );
        }
    }
    assert!(checked > 20, "only {checked} commands were found");
}

#[test]
fn commands_are_found_where_pages_show_them() {
    let page = "Run `fleetwright plan -f x` or:\n```\nA=1 fleetwright explain \\\n  node n   # why\nkubectl get x | fleetwright plan -f - > y\ncargo run --release -- demo\nfleetwright\n```\n";
    let expected: [&[&str]; 5] =
        [&["plan", "-f", "x"], &["explain", "node", "n"], &["plan", "-f", "-"], &["demo"], &[]];
    assert_eq!(shown(page), expected);
}

fn takes(kind: SettingKind) -> String {
    match kind {
        SettingKind::Text => "text".to_owned(),
        SettingKind::Integer => "whole number".to_owned(),
        SettingKind::Fraction => "number from 0 to below 1".to_owned(),
        SettingKind::Price => "price per hour".to_owned(),
        SettingKind::Bool => "boolean".to_owned(),
        SettingKind::Gates => "gates".to_owned(),
        SettingKind::Duration => "duration".to_owned(),
        SettingKind::OneOf(words) => words.join(", "),
        SettingKind::SchedulerConfig => "JSON or YAML".to_owned(),
    }
}

fn tables() -> String {
    // A release image has no fake cloud.
    let of_the_lab = FakeCloud.settings();
    let mut out =
        String::from("\n## All settings\n\n| Variable | Takes | Default | Effect |\n|---|---|---|---|\n");
    let is_of_the_lab = |setting: &Setting| of_the_lab.iter().any(|known| known.env == setting.env);
    for setting in operator().settings().iter().filter(|setting| !is_of_the_lab(setting)) {
        let default =
            if setting.default.is_empty() { String::new() } else { format!("`{}`", setting.default) };
        writeln!(
            out,
            "| `{}` | {} | {default} | {} |",
            setting.env,
            takes(setting.kind),
            setting.help.replace('|', "\\|")
        )
        .unwrap();
    }
    out.push_str("\n## Feature gates\n\n| Gate | Default |\n|---|---|\n");
    for (gate, default) in GATES {
        writeln!(out, "| `{gate}` | `{default}` |").unwrap();
    }
    out + "\n"
}

/// `UPDATE_DOCS=1` rewrites the tables.
#[test]
#[expect(clippy::disallowed_methods, reason = "the switch that writes the tables again")]
fn the_page_of_settings_has_all_of_them() {
    let path = root().join(SETTINGS_PAGE);
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("the place of the tables");
    let (documented, tail) = rest.split_once(END).expect("the end of the tables");
    if documented != tables() && env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{}{END}{tail}", tables())).unwrap();
        return;
    }
    assert_eq!(documented, tables(), "UPDATE_DOCS=1 writes them");
}
