//! Reports with other data: the JSON of a real one is changed and put back, as the binary writes it.

use anyhow::Context as _;
use serde_json::{Value, json};

/// What would run, or end an element, where it is taken for markup.
pub(super) const HOSTILE: [&str; 4] = [
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=2>",
    "\"><svg onload=window.owned=3>",
    "{{constructor.constructor('window.owned=4')()}}",
];
/// Nodes of the large fixture.
const NODES: usize = 10_000;

/// The longest time from an event to the frame after the next, in milliseconds, of each of these.
pub(super) const FRAMES: &str = r"(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const timed = async (act) => { const begun = performance.now(); act(); await frame(); return performance.now() - begun; };
  const scroll = document.querySelector('#nodes .scroll');
  scroll.scrollIntoView();
  await frame();
  const longest = { scroll: 0, sort: 0, filter: 0 };
  const height = scroll.scrollHeight;
  for (let step = 0; step <= 40; step += 1) longest.scroll = Math.max(longest.scroll, await timed(() => { scroll.scrollTop = height * step / 40; }));
  scroll.scrollTop = 0;
  for (const head of document.querySelectorAll('#nodes th button')) longest.sort = Math.max(longest.sort, await timed(() => head.click()));
  const input = document.querySelector('#nodes input');
  for (const text of ['n', 'no', 'nod', 'node-99', '']) {
    longest.filter = Math.max(longest.filter, await timed(() => { input.value = text; input.dispatchEvent(new Event('input')); }));
  }
  document.querySelector('#nodes th button').click();
  await frame();
  for (const key of Object.keys(longest)) longest[key] = Math.round(longest[key]);
  return longest;
})()";

const BEFORE: &str = "<script type=\"application/json\" id=\"data\">";
const AFTER: &str = "</script>";

/// A report with its data changed.
fn changed(report: &str, change: impl FnOnce(&mut Value)) -> anyhow::Result<String> {
    let (before, rest) = report.split_once(BEFORE).context("the report has no data")?;
    let (data, after) = rest.split_once(AFTER).context("the data does not end")?;
    let mut data: Value = serde_json::from_str(data)?;
    change(&mut data);
    let json = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    Ok(format!("{before}{BEFORE}{json}{AFTER}{after}"))
}

/// Hostile text in every string that is no number, time or state.
pub(super) fn hostile(report: &str) -> anyhow::Result<String> {
    const FIELDS: [&str; 21] = [
        "source",
        "name",
        "nodeClaim",
        "nodePool",
        "instanceType",
        "zone",
        "capacityType",
        "message",
        "pod",
        "reason",
        "owner",
        "resource",
        "command",
        "type",
        "constraint",
        "why",
        "state",
        "label",
        "nodes",
        "replacements",
        "notes",
    ];
    fn spread(value: &mut Value, is_text: bool, next: &mut usize) {
        match value {
            Value::String(text) if is_text => {
                // Names stay different from one another, and resources stay what they are in a part of the name.
                *text = format!("{text} {} {next}", HOSTILE[*next % HOSTILE.len()]);
                *next += 1;
            }
            Value::Array(rows) => rows.iter_mut().for_each(|row| spread(row, is_text, next)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    spread(field, FIELDS.contains(&name.as_str()), next);
                }
            }
            _ => {}
        }
    }
    changed(report, |data| spread(data, false, &mut 0))
}

/// The nodes of the report many times, with other names and shares.
pub(super) fn large(report: &str) -> anyhow::Result<String> {
    changed(report, |data| {
        let nodes = data["fleet"]["nodes"].as_array().cloned().unwrap_or_default();
        let many = (0..NODES).map(|number| {
            let mut node = nodes[number % nodes.len()].clone();
            node["name"] = json!(format!("node-{number:05}.compute.internal"));
            node["zone"] = json!(format!("zone-{}", ["a", "b", "c"][number % 3]));
            for resource in node["resources"].as_array_mut().into_iter().flatten() {
                let all = resource["allocatable"].as_i64().unwrap_or(0);
                let share = i64::try_from(number * 7919 % 1009).unwrap_or(0);
                resource["used"] = json!(all / 1009 * share);
            }
            node
        });
        data["fleet"]["nodes"] = many.collect();
        data["fleet"]["totals"]["nodes"] = json!(NODES);
    })
}
