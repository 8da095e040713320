//! `help`, `version`, `completion`, `man`, suggestions, the name as a plugin of kubectl, colors, and readers that leave.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    goldens::tools,
    process::{Ended, command, from_root, named, run, run_words},
};

#[test]
fn help_of_a_tool_is_its_help() {
    for tool in tools() {
        let (asked, flag) = (run(&["help", &tool]), run(&[&tool, "--help"]));
        assert_eq!((asked.status, &*asked.err), (0, ""), "{tool}");
        assert!(asked.out.contains(&format!("Usage: fleetwright {tool}")), "{}", asked.out);
        assert_eq!(asked.out, flag.out, "{tool}");
    }
    assert_eq!(run(&["help"]).out, run(&["--help"]).out);
    let inner = run_words("help explain pod");
    assert!(inner.status == 0 && inner.out.contains("Usage: fleetwright explain pod"), "{}", inner.out);
    assert_eq!(run_words("help no-such-tool").status, 2);
}

#[test]
fn the_version_is_that_of_the_build() {
    let told = run_words("version -o json");
    let version: Value = serde_json::from_str(&told.out).unwrap();
    let keys: Vec<&String> = version.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["clouds", "commit", "features", "karpenter", "name", "version"]);
    assert_eq!(
        (&version["name"], &version["version"]),
        (&json!("fleetwright"), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(version["karpenter"], "1.14");
    let features = [
        ("lab", cfg!(feature = "lab")),
        ("ec2", cfg!(feature = "ec2")),
        ("aws", cfg!(feature = "aws")),
        ("otel", cfg!(feature = "otel")),
    ];
    let features: Vec<&str> = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    assert_eq!(version["features"], json!(features));
    assert!(version["clouds"].as_array().unwrap().contains(&json!("fake")), "{version}");
    let (number, commit) = (env!("CARGO_PKG_VERSION"), version["commit"].as_str().unwrap());
    let table = run(&["version"]);
    assert!(table.out.starts_with(&format!("fleetwright {number} ({commit})\n")), "{}", table.out);
    assert_eq!(run_words("--version").out, format!("fleetwright {number}\n"));
    let yaml = run_words("version -o yaml").out;
    assert!(yaml.contains("karpenter: \"1.14\"\n"), "{yaml}");
}

/// What bash would offer for a command line, whose last word is unfinished.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (at, last) = (words.len() - 1, words[words.len() - 1]);
    let program = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={at}; _fleetwright fleetwright '{last}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words[at.saturating_sub(1)],
    );
    let output = Command::new("bash").args(["--norc", "-c", &program]).output().unwrap();
    let Ended { out, err, status } = Ended::of(&output);
    assert_eq!((status, &*err), (0, ""));
    out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_tools_options_and_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("fleetwright.bash");
    fs::write(&script, run_words("completion bash").out).unwrap();
    let offered = completed(&script, &["fleetwright", ""]);
    for tool in tools() {
        assert!(offered.contains(&tool), "{tool} is not in {offered:?}");
    }
    assert_eq!(completed(&script, &["fleetwright", "expl"]), ["explain"]);
    assert_eq!(completed(&script, &["fleetwright", "plan", "--what"]), ["--what-if"]);
    assert_eq!(completed(&script, &["fleetwright", "plan", "-o", "mark"]), ["markdown"]);
    assert_eq!(completed(&script, &["fleetwright", "explain", "node"]), ["node", "nodepool"]);
}

#[test]
fn zsh_and_fish_get_a_script_of_their_own_with_every_tool() {
    let (zsh, fish) = (run_words("completion zsh").out, run_words("completion fish").out);
    assert!(zsh.starts_with("#compdef fleetwright\n"));
    assert!(zsh.contains("'*--what-if=["), "the options of plan");
    assert!(fish.contains("complete -c fleetwright"));
    assert!(fish.contains("__fish_fleetwright_using_subcommand plan\" -l what-if"));
    for tool in tools() {
        assert!(zsh.contains(&format!("({tool})\n")), "zsh: {tool}");
        assert!(
            fish.contains(&format!("__fish_fleetwright_needs_command\" -f -a \"{tool}\"")),
            "fish: {tool}"
        );
    }
    let unknown = run_words("completion tcsh");
    assert!(unknown.status == 2 && unknown.err.contains("bash, elvish, fish"), "{}", unknown.err);
}

#[test]
fn manual_pages_are_written_for_each_tool() {
    let page = run_words("man").out;
    assert!(page.contains(".TH fleetwright 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("man1");
    let written = run(&["man", "--folder", at.to_str().unwrap()]);
    assert_eq!((written.status, &*written.err), (0, ""));
    for tool in tools() {
        let page = fs::read_to_string(at.join(format!("fleetwright-{tool}.1"))).expect(&tool);
        assert!(page.contains(&format!(".TH fleetwright-{tool} 1")), "{page}");
    }
    let plan = fs::read_to_string(at.join("fleetwright-plan.1")).unwrap();
    assert!(plan.contains("\\-\\-what\\-if"), "{plan}");
    assert!(at.join("fleetwright-explain-pod.1").is_file());
}

#[test]
fn mistyped_tools_flags_and_values_are_named_with_what_was_meant() {
    for (words, expected) in [
        ("plann", "unknown tool \"plann\" (did you mean \"plan\"?); `fleetwright help` lists the tools"),
        ("zzzz", "unknown tool \"zzzz\"; `fleetwright help` lists the tools"),
        ("plan --what-iff x", "a similar argument exists: '--what-if'"),
        ("plan -o jsn", "a similar value exists: 'json'"),
        ("explain podd x", "a similar subcommand exists: 'pod'"),
        ("--metric-port 1", "a similar argument exists: '--metrics-port'"),
        ("-metric-port 1", "a similar argument exists: '--metrics-port'"),
    ] {
        let told = run_words(words);
        assert_eq!((told.status, &*told.out), (2, ""), "{words}");
        assert!(told.err.contains(expected), "{words}: {}", told.err);
    }
}

#[test]
fn as_a_plugin_of_kubectl_it_is_no_controller() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-fleetwright");
    symlink(env!("CARGO_BIN_EXE_fleetwright"), &plugin).unwrap();
    let as_plugin = |args: &[&str]| Ended::of(&named(&plugin, args).output().unwrap());
    let bare = as_plugin(&[]);
    assert_eq!((bare.status, &*bare.err), (0, ""));
    assert_eq!(bare.out, run(&["--help"]).out);
    let plan = ["plan", "-f", "cluster.yaml", "--budget", "20it", "-o", "csv"];
    assert_eq!(as_plugin(&plan).out, run(&plan).out);
    assert_eq!(as_plugin(&["plan"]).status, 1, "without -f it looks for a cluster");
    // The same without the name is the controller, which needs a cluster.
    let controller = run(&[]);
    assert_eq!((controller.status, &*controller.out), (1, ""), "{}", controller.err);
}

/// Runs it in a terminal of its own, which is that of `script`.
fn in_terminal(args: &str, variables: &[(&str, &str)]) -> String {
    let shell = format!("{} {args}", env!("CARGO_BIN_EXE_fleetwright"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &shell, "/dev/null"]).env("TERM", "xterm-256color");
    script.env_remove("NO_COLOR").envs(variables.iter().copied()).stdin(Stdio::null());
    let output = script.current_dir(from_root("tests/cli")).output().expect("script, of util-linux");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn colors_are_for_terminals_and_can_be_switched_off() {
    let escape = '\u{1b}';
    for args in ["--help", "plan --nonsense", "nonsense"] {
        let plain = run_words(args);
        assert!(!(plain.out + &plain.err).contains(escape), "{args}: a pipe");
        assert!(in_terminal(args, &[]).contains(escape), "{args}: a terminal");
        assert!(!in_terminal(args, &[("NO_COLOR", "1")]).contains(escape), "{args}: NO_COLOR");
        let never = format!("--color never {args}");
        assert!(!in_terminal(&never, &[]).contains(escape), "{never}");
        let never = format!("{args} --color never");
        assert!(!in_terminal(&never, &[]).contains(escape), "{never}");
    }
    for words in ["--color always --help", "plan --help --color=always"] {
        assert!(run_words(words).out.contains(escape), "{words}");
    }
    let plan = run_words("plan -f cluster.yaml -o csv --budget 20it");
    assert_eq!(run_words("--color never plan -f cluster.yaml -o csv --budget 20it").out, plan.out);
    for words in ["plan -f cluster.yaml --color sometimes", "--color sometimes plan"] {
        assert_eq!(run_words(words).status, 2, "{words}");
    }
}

#[test]
fn a_reader_that_leaves_ends_a_tool_without_a_word() {
    for words in
        ["catalog export --catalog kwok", "completion bash", "man", "crds --cloud aws", "plan --help"]
    {
        let args: Vec<&str> = words.split_whitespace().collect();
        let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // More is written than the pipe holds, or the reader is gone before.
        let mut pipe = child.stdout.take().unwrap();
        if words.contains("catalog") {
            pipe.read_exact(&mut [0; 1]).unwrap();
        }
        drop(pipe);
        let ended = Ended::of(&child.wait_with_output().unwrap());
        assert_eq!((ended.status, &*ended.err), (0, ""), "{words}");
    }
}

#[test]
fn a_catalogue_is_read_again_by_the_tools() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.json");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["catalog", "export", "--catalog", "kwok", "-f", file]).status, 0);
    let types: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(types.as_array().unwrap().len(), 144);
    let plan = ["plan", "-f", "cluster.yaml", "--budget", "20it", "-o", "csv"];
    let from_file = run(&[&plan[..], &["--instance-types", file]].concat());
    assert_eq!(from_file.out, run(&plan).out);
}
