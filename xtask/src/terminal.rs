//! `cargo xtask ci terminal`: `fleetwright top` and `demo` in a real terminal, which is tmux's.
//!
//! Each case starts a program in a shell, presses keys, changes the size, ends it with a key or a signal, and checks that the shell has its
//! terminal back: the main screen with what stood there, and the modes of before.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

mod large;

use crate::shell;

/// How long a text may take to appear. The binary is not optimised: 10,000 nodes take it half a minute of CPU time until their first frame.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the screen is read.
const POLL: Duration = Duration::from_millis(100);
/// What stands on the main screen before the program starts.
const MARK: &str = "before-the-program";

/// Runs the cases.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(
        Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success()),
        "tmux is missing: install its package (`apt-get install tmux`)"
    );
    shell::run(&mut shell::cargo(&["build", "--locked", "--bin", "fleetwright"]))?;
    let target = shell::workspace()?.target_directory.into_std_path_buf();
    let binary = target.join("debug/fleetwright");
    let folder = target.join("terminal");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    keys_and_sizes(&binary, &folder)?;
    ten_thousand_nodes(&binary, &folder)?;
    for signal in ["TERM", "INT", "HUP"] {
        a_signal(&binary, &folder, signal).with_context(|| format!("SIG{signal}"))?;
    }
    a_lost_terminal(&binary, &folder)?;
    demo(&binary, &folder)?;
    replay(&binary, &folder)
}

/// The command line of `top` on the dump of the tests.
fn top(binary: &Path) -> String {
    let scenarios = shell::root().join("tests/scenarios");
    let (dump, decisions) = (scenarios.join("top/fleet.yaml"), scenarios.join("decisions/list.json"));
    let (binary, dump) = (binary.display(), dump.display());
    format!("{binary} top --at 2026-01-01T12:00:00Z -f {dump} --decisions {}", decisions.display())
}

fn keys_and_sizes(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let pane = Pane::start("keys", folder, (120, 40))?;
    pane.run(&top(binary))?;
    pane.wait_for("Nodes (6) by name")?;
    ensure!(pane.format("#{alternate_on}")? == "1", "the view is not on the alternate screen");
    for (keys, expected) in [
        (&["s"][..], "Nodes (6) by price"),
        (&["/", "spot", "Enter"], "Nodes (3 of 6) by price, with \"spot\""),
        (&["Escape"], "Nodes (6) by price"),
        (&["p"], "NodePool default"),
        (&["Escape", "2", "Enter"], "explain pod shop/gpu-1"),
        (&["Escape", "6", "j", "Enter"], "decision 684ee1807a8ec3-5"),
        (&["Escape", "?"], "another pane"),
        (&["Escape", "1"], "Nodes (6) by price"),
    ] {
        pane.press(keys)?;
        pane.wait_for(expected)?;
    }
    for (columns, rows) in [(80, 24), (300, 80), (40, 10), (120, 40)] {
        pane.resize(columns, rows)?;
        pane.wait_for("fleetwright top")?;
        pane.wait_until(|screen| screen.trim().lines().count() <= usize::from(rows))?;
    }
    pane.press(&["q"])?;
    pane.is_restored("status=0")
}

/// The view of a large cluster, from the smallest to the largest size that it is made for.
fn ten_thousand_nodes(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let dump = folder.join("large.json");
    fs::write(&dump, large::dump()).with_context(|| dump.display().to_string())?;
    let pane = Pane::start("large", folder, (80, 24))?;
    pane.run(&format!("{} top --at 2026-01-01T12:00:00Z -f {}", binary.display(), dump.display()))?;
    pane.wait_for("Nodes (10000) by name")?;
    for (keys, expected) in [
        (&["G"][..], "node-09999"),
        (&["s"], "Nodes (10000) by price"),
        (&["g", "/", "n", "o", "d", "e", "-", "0", "4", "2", "Enter"], "Nodes (100 of 10000) by price"),
        (&["Escape"], "Nodes (10000) by price"),
    ] {
        pane.press(keys)?;
        pane.wait_for(expected)?;
    }
    for (columns, rows) in [(300, 80), (80, 24), (300, 80)] {
        pane.resize(columns, rows)?;
        // Rows of nodes fill two thirds of what header and footer leave.
        let least = usize::from(rows - 5) * 2 / 3 - 4;
        pane.wait_until(|screen| {
            let nodes = screen.lines().filter(|line| line.trim_start().starts_with("node-")).count();
            nodes >= least && screen.lines().all(|line| line.chars().count() <= usize::from(columns))
        })?;
    }
    pane.press(&["q"])?;
    pane.is_restored("status=0")
}

fn a_signal(binary: &Path, folder: &Path, signal: &str) -> anyhow::Result<()> {
    let pane = Pane::start(signal, folder, (100, 30))?;
    let pid = folder.join(format!("{signal}.pid"));
    pane.run(&format!("sh -c 'echo $$ > {}; exec {}'", pid.display(), top(binary)))?;
    pane.wait_for("Nodes (6)")?;
    let number = fs::read_to_string(&pid).with_context(|| pid.display().to_string())?;
    shell::capture(Command::new("kill").arg(format!("-{signal}")).arg(number.trim()))?;
    pane.is_restored("status=0")
}

/// A program whose terminal is gone ends, instead of reading from nothing for ever.
fn a_lost_terminal(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let pane = Pane::start("lost", folder, (100, 30))?;
    let pid = folder.join("lost.pid");
    pane.run(&format!("sh -c 'echo $$ > {}; exec {}'", pid.display(), top(binary)))?;
    pane.wait_for("Nodes (6)")?;
    let number = fs::read_to_string(&pid).with_context(|| pid.display().to_string())?;
    drop(pane);
    let process = Path::new("/proc").join(number.trim());
    let mut waited = Duration::ZERO;
    while process.exists() {
        ensure!(waited < PATIENCE, "process {} runs without a terminal", number.trim());
        pause();
        waited += POLL;
    }
    Ok(())
}

/// The demo has the same view, and prints its report afterwards. Meanwhile `top` reads the demo's API server as any other.
fn demo(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let pane = Pane::start("demo", folder, (120, 40))?;
    let kubeconfig = folder.join("demo.kubeconfig");
    pane.run(&format!("{} demo --seed 7 --kubeconfig {}", binary.display(), kubeconfig.display()))?;
    pane.wait_for("fleetwright top  demo")?;
    pane.wait_for("Nodes (1")?;
    let live = ["top", "--once", "--size", "120x40", "--catalog", "realistic", "--kubeconfig"];
    let frame = shell::capture(Command::new(binary).args(live).arg(&kubeconfig))?;
    ensure!(
        frame.contains("cluster") && frame.contains(" spot "),
        "no node in the frame of the live cluster:\n{frame}"
    );
    pane.press(&["q"])?;
    pane.wait_for("NodeClaims created")?;
    pane.is_restored("status=0")
}

/// A replay has the same view, stays at its end, and prints its report afterwards.
fn replay(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let scenarios = shell::root().join("tests/scenarios/replay/workloads");
    let (trace, pools) = (scenarios.join("kubereplay.json"), scenarios.join("nodepool.yaml"));
    let pane = Pane::start("replay", folder, (120, 40))?;
    let files = format!("{} -f {}", trace.display(), pools.display());
    pane.run(&format!("{} replay {files} --top --speed 100 --until 5m", binary.display()))?;
    pane.wait_for("fleetwright top  replay of")?;
    pane.press(&["5"])?;
    pane.wait_for("the replay has ended")?;
    pane.press(&["6"])?;
    pane.wait_for("succeeded")?;
    pane.press(&["q"])?;
    pane.wait_for("of virtual time")?;
    pane.is_restored("status=0")
}

/// A shell in a tmux server of its own, which ends with this value.
struct Pane {
    socket: String,
    modes: [PathBuf; 2],
}

impl Pane {
    fn start(name: &str, folder: &Path, (columns, rows): (u16, u16)) -> anyhow::Result<Self> {
        let modes = ["before", "after"].map(|when| folder.join(format!("{name}.{when}")));
        let pane = Self { socket: format!("fleetwright-{}-{name}", std::process::id()), modes };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let shell = ["new-session", "-d", "-x", &columns, "-y", &rows, "env", "PS1=$ ", "sh"];
        pane.tmux(&[&["-f", "/dev/null"], &shell[..]].concat())?;
        pane.tmux(&["set-option", "-g", "window-size", "manual"])?;
        pane.type_line(&format!("stty -g > {}; echo {MARK}", pane.modes[0].display()))?;
        pane.wait_for(&format!("\n{MARK}"))?;
        Ok(pane)
    }

    fn tmux(&self, args: &[&str]) -> anyhow::Result<String> {
        shell::capture(Command::new("tmux").args(["-L", &self.socket]).args(args))
    }

    fn press(&self, keys: &[&str]) -> anyhow::Result<()> {
        for key in keys {
            self.tmux(&["send-keys", key])?;
            // Escape and a letter at once would be Alt with that letter.
            pause();
        }
        Ok(())
    }

    fn type_line(&self, text: &str) -> anyhow::Result<()> {
        self.tmux(&["send-keys", "-l", text])?;
        self.tmux(&["send-keys", "Enter"])?;
        Ok(())
    }

    /// Runs a command; its exit status and the modes of the terminal follow it.
    fn run(&self, command: &str) -> anyhow::Result<()> {
        self.type_line(&format!(
            "{command}; echo status=$?; stty -g > {}; echo restored",
            self.modes[1].display()
        ))
    }

    fn resize(&self, columns: u16, rows: u16) -> anyhow::Result<()> {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()])?;
        Ok(())
    }

    fn format(&self, what: &str) -> anyhow::Result<String> {
        Ok(self.tmux(&["display-message", "-p", what])?.trim().to_owned())
    }

    fn wait_for(&self, text: &str) -> anyhow::Result<()> {
        self.wait_until(|screen| screen.contains(text)).with_context(|| format!("waiting for {text:?}"))
    }

    fn wait_until(&self, holds: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut waited = Duration::ZERO;
        loop {
            // A newline in front, so that the start of a line can be asked for.
            let screen = format!("\n{}", self.tmux(&["capture-pane", "-p"])?);
            if holds(&screen) {
                return Ok(());
            }
            if waited > PATIENCE {
                bail!("not on the screen after {PATIENCE:?}:\n{screen}");
            }
            pause();
            waited += POLL;
        }
    }

    /// Whether the program has ended with `status`, and the terminal is as it was.
    fn is_restored(&self, status: &str) -> anyhow::Result<()> {
        self.wait_for(&format!("\n{status}"))?;
        self.wait_for("\nrestored")?;
        let history = format!("\n{}", self.tmux(&["capture-pane", "-p", "-S", "-"])?);
        ensure!(history.contains(&format!("\n{MARK}")), "the main screen has lost its text:\n{history}");
        ensure!(self.format("#{alternate_on}")? == "0", "the alternate screen is still on");
        ensure!(self.format("#{cursor_flag}")? == "1", "the cursor is hidden");
        let [before, after] = self
            .modes
            .clone()
            .map(|file| fs::read_to_string(&file).with_context(|| file.display().to_string()));
        let (before, after) = (before?, after?);
        ensure!(before == after, "the modes of the terminal differ: {before} before, {after} after");
        Ok(())
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        // Without a server there is nothing to end.
        let _ = self.tmux(&["kill-server"]);
    }
}

#[expect(clippy::disallowed_methods, reason = "polls a real terminal")]
fn pause() {
    std::thread::sleep(POLL);
}
