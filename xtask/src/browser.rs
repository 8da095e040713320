//! `cargo xtask ci browser`: the page of the fleet in a real headless Chromium.
//!
//! - The page of a running demo: figures, decisions, keys, sizes, colors, and that nothing violates its Content Security Policy.
//! - The file of `fleetwright report` on a dump.
//! - The same file with hostile text in every name, and with 10,000 nodes, of which times are measured.
//!
//! Screenshots are left in `target/browser`. `cargo xtask picture` takes the one of the README from the demo.

mod cdp;
mod fixtures;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use self::cdp::{Browser, Tab};
use crate::shell;

/// The widths of screenshots, with their heights: a telephone and a wide screen.
const SIZES: [(u32, u32); 2] = [(400, 860), (1600, 1000)];
/// What the 10,000 nodes may take at most, in milliseconds, on a busy computer: from the start of the script to the first frame, and from
/// one event to the next frame.
const FIRST_FRAME_MS: f64 = 4000.0;
const FRAME_MS: f64 = 500.0;
/// Elements of a page at most, whatever the number of nodes.
const MAX_ELEMENTS: u64 = 4000;
/// The sections whose table has a last column that does not end where the table does.
const UNFILLED: &str = r"[...document.querySelectorAll('.scroll:not([hidden])')].filter((scroll) => {
  const heads = [...scroll.querySelectorAll('th')].filter((head) => head.offsetWidth > 0);
  return Math.abs(heads.at(-1).getBoundingClientRect().right - scroll.getBoundingClientRect().right) > 2;
}).map((scroll) => scroll.closest('section').id)";
/// The picture of the README, in bytes at most.
const MAX_PICTURE: usize = 150_000;

/// Runs all cases.
pub(crate) fn check() -> anyhow::Result<()> {
    let (binary, folder) = prepare()?;
    let report = folder.join("report.html");
    write_report(&binary, &report)?;
    let mut browser = Browser::start(&folder)?;
    a_report(&report, &folder, &mut browser).context("a report")?;
    hostile(&report, &folder, &mut browser).context("hostile text")?;
    large(&report, &folder, &mut browser).context("10,000 nodes")?;
    live(&binary, &folder, &mut browser).context("the page of the demo")?;
    anstream::println!("screenshots: {}", folder.display());
    Ok(())
}

/// Takes the picture of the README.
pub(crate) fn picture() -> anyhow::Result<()> {
    let (binary, folder) = prepare()?;
    let mut browser = Browser::start(&folder)?;
    let demo = Demo::start(&binary, &folder)?;
    let mut tab = browser.open(&demo.url)?;
    tab.size(1360, 860)?;
    demo.wait_for_the_peak(&mut tab)?;
    tab.wait(&format!("{} >= 10 && {} === 0", rows("nodes"), rows("pending")))?;
    let picture = tab.screenshot()?;
    ensure!(picture.len() <= MAX_PICTURE, "the picture has {} bytes", picture.len());
    let file = shell::root().join("docs/pictures/ui.png");
    fs::write(&file, picture).with_context(|| file.display().to_string())
}

/// The binary, and the folder for what is written.
fn prepare() -> anyhow::Result<(PathBuf, PathBuf)> {
    shell::run(&mut shell::cargo(&["build", "--locked", "--bin", "fleetwright"]))?;
    let target = shell::workspace()?.target_directory.into_std_path_buf();
    let folder = target.join("browser");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok((target.join("debug/fleetwright"), folder))
}

fn write_report(binary: &Path, file: &Path) -> anyhow::Result<()> {
    let dump = shell::root().join("tests/scenarios/top/fleet.yaml");
    let mut command = Command::new(binary);
    command
        .args(["report", "--at", "2026-01-01T12:00:00Z", "--label", "app", "-f"])
        .arg(dump)
        .arg("-o")
        .arg(file);
    shell::run(&mut command)
}

/// The demo with its page, which ends with this value.
struct Demo {
    process: Child,
    url: String,
}

impl Demo {
    fn start(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        // An unoptimised controller keeps up with this speed on a busy computer.
        command.args([
            "demo",
            "--seed",
            "7",
            "--speed",
            "3",
            "--serve",
            "--ui",
            "127.0.0.1:0",
            "--kubeconfig",
        ]);
        let mut process = command
            .arg(folder.join("demo.kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the demo")?;
        let output = process.stdout.take().context("no output of the demo")?;
        let mut lines = BufReader::new(output).lines();
        let url = loop {
            let line = lines.next().context("the demo ended")??;
            if line.trim().starts_with("http://") {
                break line.trim().to_owned();
            }
        };
        // The demo must not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { process, url })
    }

    /// Waits until the load has made nodes, and decisions and the cost over time are shown.
    fn wait_for_the_peak(&self, tab: &mut Tab<'_>) -> anyhow::Result<()> {
        tab.wait(&format!("{} >= 3 && {} >= 3", rows("nodes"), rows("decisions")))?;
        tab.wait("document.querySelector('.chart svg') !== null")
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The number that the title of a section has.
fn rows(section: &str) -> String {
    format!("Number((document.querySelector('#{section} .count')?.textContent ?? '0').replaceAll(',', ''))")
}

/// The page of the demo, in every size and color, with keys alone.
fn live(binary: &Path, folder: &Path, browser: &mut Browser) -> anyhow::Result<()> {
    let demo = Demo::start(binary, folder)?;
    let mut tab = browser.open(&demo.url)?;
    demo.wait_for_the_peak(&mut tab)?;
    looks(&mut tab, folder, "live")?;
    tab.size(SIZES[1].0, SIZES[1].1)?;
    keys(&mut tab)?;
    accessible(&mut tab)?;
    pods(&mut tab, folder)?;
    let missing = tab.evaluate("fetch('ui/fleet.json', {method: 'POST'}).then((answer) => answer.status)")?;
    ensure!(missing == 405, "a POST is answered with {missing}");
    kept(&mut tab)?;
    tab.is_clean()
}

/// Screenshots in all sizes and both color schemes; nothing is wider than the window.
fn looks(tab: &mut Tab<'_>, folder: &Path, name: &str) -> anyhow::Result<()> {
    for (width, height) in SIZES {
        tab.size(width, height)?;
        for scheme in ["light", "dark"] {
            tab.prefer(scheme)?;
            let file = folder.join(format!("{name}-{width}-{scheme}.png"));
            fs::write(&file, tab.screenshot()?).with_context(|| file.display().to_string())?;
        }
        let wide = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")?;
        ensure!(wide.as_f64().unwrap_or(1.0) <= 0.0, "{name} at {width} px is {wide} px too wide");
        let unfilled = tab.evaluate(UNFILLED)?;
        ensure!(
            unfilled.as_array().is_some_and(Vec::is_empty),
            "{name} at {width} px: columns do not fill {unfilled}"
        );
    }
    tab.prefer("light")
}

/// The rows of the nodes with keys alone: down, explain, back; sort with the header.
fn keys(tab: &mut Tab<'_>) -> anyhow::Result<()> {
    tab.evaluate("document.querySelector('#nodes input').focus()")?;
    let focus = "document.activeElement.closest('tr')?.ariaRowIndex ?? document.activeElement.tagName";
    let mut walked = Vec::new();
    // Through the headers to the first row.
    for _ in 0..20 {
        tab.press("Tab")?;
        let at = tab.evaluate(focus)?;
        walked.push(at.clone());
        if at == "2" {
            break;
        }
    }
    ensure!(walked.last().is_some_and(|at| at == "2"), "Tab does not reach the first row: {walked:?}");
    ensure!(walked.len() > 5, "the headers are not in the order of focus: {walked:?}");
    for (key, expected) in [("ArrowDown", "3"), ("ArrowDown", "4"), ("ArrowUp", "3"), ("Home", "2")] {
        tab.press(key)?;
        let at = tab.evaluate(focus)?;
        ensure!(at == expected, "{key} leads to row {at}, not {expected}");
    }
    let name = tab.evaluate("document.activeElement.cells[0].textContent")?;
    tab.press("Enter")?;
    tab.wait("document.querySelector('dialog').open")?;
    let title = tab.evaluate("document.querySelector('#details-title').textContent")?;
    ensure!(
        title.as_str().is_some_and(|title| title == format!("Node {}", name.as_str().unwrap_or_default())),
        "Enter on {name} explains {title}"
    );
    let inside = tab.evaluate("document.querySelector('dialog').contains(document.activeElement)")?;
    ensure!(inside == true, "the focus is not in the dialog");
    tab.press("Escape")?;
    tab.wait("!document.querySelector('dialog').open")?;
    let back = tab.evaluate("document.activeElement.cells?.[0].textContent")?;
    ensure!(back == name, "after Escape the focus is on {back}, not {name}");
    let sort = "document.querySelector('#nodes th[aria-sort]').textContent + document.querySelector('#nodes th[aria-sort]').ariaSort";
    tab.evaluate("[...document.querySelectorAll('#nodes th button')].find((head) => head.textContent === 'CPU').focus()")?;
    for expected in ["CPUascending", "CPUdescending"] {
        tab.press("Enter")?;
        let sorted = tab.evaluate(sort)?;
        ensure!(sorted == expected, "the header sorts {sorted}, not {expected}");
    }
    Ok(())
}

/// The node with the most pods lists them all once it is selected.
fn pods(tab: &mut Tab<'_>, folder: &Path) -> anyhow::Result<()> {
    let sort =
        "[...document.querySelectorAll('#nodes th button')].find((head) => head.textContent === 'Pods')";
    tab.evaluate(&format!("{sort}.click(); {sort}.click()"))?;
    tab.evaluate("document.querySelector('#nodes tbody tr[tabindex=\"0\"]').click()")?;
    let list = "[...document.querySelectorAll('dialog h3')].find((head) => head.textContent === 'Pods')?.nextElementSibling";
    tab.wait(&format!("{list}?.tagName === 'UL'"))?;
    let told = "[...document.querySelectorAll('dialog dt')].find((term) => term.textContent === 'Pods').nextElementSibling";
    let found = tab.evaluate(&format!("[{list}.children.length, Number({told}.textContent)]"))?;
    // Pods come and go between the two answers.
    let [listed, counted] = [0, 1].map(|at| found[at].as_i64().unwrap_or(-1));
    ensure!(listed > 0 && (listed - counted).abs() <= 5, "{listed} pods are listed of {counted}");
    fs::write(folder.join("live-pods.png"), tab.screenshot()?)?;
    tab.press("Escape")?;
    tab.wait("!document.querySelector('dialog').open")
}

/// A node that a refusal names tells why, and budgets that are used up; all of them are, in what the page reads.
fn kept(tab: &mut Tab<'_>) -> anyhow::Result<()> {
    let refused = "(async () => {
        const read = async (path) => (await fetch(path)).json();
        const [decisions, { fleet }] = await Promise.all([read('ui/decisions'), read('ui/fleet.json')]);
        const names = new Set(fleet.nodes.map((node) => node.name));
        const record = decisions.decisions.find((one) => one.kind === 'refusal' && one.choice.of === 'Node' && one.choice.names.some((name) => names.has(name)));
        if (!record) return false;
        window.refused = { node: record.choice.names.find((name) => names.has(name)), reason: record.reasons[0].reason };
        return true;
    })()";
    tab.wait(refused)?;
    let used_up = "(() => {
        const read = window.fetch;
        window.fetch = async (path) => {
            const answer = await read(path);
            if (!String(path).includes('fleet.json')) return answer;
            const data = await answer.json();
            for (const pool of data.fleet.nodePools) for (const budget of pool.budgets) budget.disrupting = budget.allowed;
            return new Response(JSON.stringify(data));
        };
        const filter = document.querySelector('#nodes input');
        filter.value = window.refused.node;
        filter.dispatchEvent(new Event('input'));
    })()";
    tab.evaluate(used_up)?;
    let told = "(() => {
        document.querySelector('#nodes tbody tr[tabindex]')?.click();
        const head = [...document.querySelectorAll('dialog h3')].find((head) => head.textContent === 'Disruption is blocked by');
        const text = head?.nextElementSibling.textContent ?? '';
        return text.includes(`${window.refused.reason} · refused`) && /the budgets of NodePool .* allow \\d+ for Underutilized, \\d+ in use/.test(text);
    })()";
    tab.wait(told)?;
    tab.press("Escape")?;
    tab.wait("!document.querySelector('dialog').open")
}

/// What assistive technology reads: every table, button, field and dialog has a name.
fn accessible(tab: &mut Tab<'_>) -> anyhow::Result<()> {
    let tree = tab.accessibility()?;
    let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
    let mut tables = 0;
    for node in tree.iter().filter(|node| node["ignored"] != true) {
        let role = role(node);
        tables += usize::from(role == "table" || role == "grid");
        let needs_name = ["table", "grid", "button", "searchbox", "dialog", "link", "region", "image"];
        let name = node["name"]["value"].as_str().unwrap_or_default();
        ensure!(!needs_name.contains(&&*role) || !name.is_empty(), "a {role} has no name: {node}");
    }
    ensure!(tables >= 3, "{tables} tables are in the tree");
    Ok(())
}

/// The file of `report`.
fn a_report(file: &Path, folder: &Path, browser: &mut Browser) -> anyhow::Result<()> {
    let mut tab = browser.open(&format!("file://{}", file.display()))?;
    tab.wait(&format!("{} === 6", rows("nodes")))?;
    for section in
        ["saving", "blocks", "plan", "by-nodepool", "by-namespace", "by-label-0", "pending", "notes"]
    {
        let found = tab.evaluate(&format!("document.querySelector('#{section}') !== null"))?;
        ensure!(found == true, "no section {section}");
    }
    let funnel = tab.evaluate("document.querySelectorAll('#pending .funnel dt').length")?;
    ensure!(funnel.as_u64().is_some_and(|steps| steps > 1), "{funnel} steps of funnels");
    looks(&mut tab, folder, "report")?;
    tab.is_clean()
}

/// No text of objects runs, whatever it is; it is shown as it is.
fn hostile(report: &Path, folder: &Path, browser: &mut Browser) -> anyhow::Result<()> {
    let file = folder.join("hostile.html");
    fs::write(&file, fixtures::hostile(&fs::read_to_string(report)?)?)?;
    let mut tab = browser.open(&format!("file://{}", file.display()))?;
    tab.wait(&format!("{} === 6", rows("nodes")))?;
    let elements = "document.querySelectorAll('img, iframe, object, embed, main script, dialog script, svg[onload]').length";
    // Every kind of row is explained, too.
    let opened = tab.evaluate(
        "[...document.querySelectorAll('tr[tabindex]')].map((row) => { row.click(); const found = \
         document.querySelector('dialog').textContent; document.querySelector('dialog').close(); return found; })",
    )?;
    let opened: Vec<&str> = opened.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    ensure!(
        opened.len() > 10 && opened.iter().all(|text| !text.is_empty()),
        "{} rows are explained",
        opened.len()
    );
    let (owned, made) = (tab.evaluate("window.owned ?? null")?, tab.evaluate(elements)?);
    ensure!(owned.is_null(), "text of an object ran: {owned}");
    ensure!(made == 0, "text of an object made {made} elements");
    let shown = tab.evaluate("document.body.textContent")?;
    for text in fixtures::HOSTILE {
        ensure!(shown.as_str().is_some_and(|shown| shown.contains(text)), "{text} is not shown as it is");
    }
    looks(&mut tab, folder, "hostile")?;
    tab.is_clean()?;
    // The policy is in force: also a script that got in would not run.
    tab.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.owned = 1'}))",
    )
    .ok();
    ensure!(tab.evaluate("window.owned ?? null")?.is_null(), "the policy lets a script in");
    Ok(())
}

/// The file with 10,000 nodes: the time of the first frame, of scrolling, sorting and filtering, and the number of elements.
fn large(report: &Path, folder: &Path, browser: &mut Browser) -> anyhow::Result<()> {
    let file = folder.join("large.html");
    fs::write(&file, fixtures::large(&fs::read_to_string(report)?)?)?;
    let mut tab = browser.open(&format!("file://{}", file.display()))?;
    tab.wait(&format!("{} === 10000", rows("nodes")))?;
    let first = tab.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()",
    )?;
    let elements = tab.evaluate("document.querySelectorAll('*').length")?;
    let frames = tab.evaluate(fixtures::FRAMES)?;
    let size = fs::metadata(&file)?.len();
    anstream::println!(
        "10,000 nodes ({size} bytes): first frame {first} ms, {elements} elements, longest frames {frames}"
    );
    ensure!(first.as_f64().is_some_and(|ms| ms <= FIRST_FRAME_MS), "the first frame takes {first} ms");
    ensure!(elements.as_u64().is_some_and(|all| all <= MAX_ELEMENTS), "{elements} elements");
    for (what, ms) in frames.as_object().context("no frames")? {
        ensure!(ms.as_f64().is_some_and(|ms| ms <= FRAME_MS), "{what} takes {ms} ms");
    }
    tab.evaluate("document.querySelector('#nodes tbody tr[tabindex=\"0\"]').focus()")?;
    tab.press("End")?;
    let last = tab.evaluate("document.activeElement.ariaRowIndex")?;
    ensure!(last == "10001", "End leads to row {last}");
    looks(&mut tab, folder, "large")?;
    tab.is_clean()
}
