//! The output of the tools: one document as a table, wide table, JSON, a line of JSON, YAML, CSV or Markdown.
//!
//! A [`Page`] is what people read: tables and lines. JSON and YAML are the document itself, exact and complete; pages round money,
//! quantities and times.

use std::{borrow::Cow, fmt::Write as _, io::Write as _};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
use serde::Serialize;
use serde_json::Value;

/// The narrowest table: below it a terminal wraps lines itself.
const MIN_WIDTH: u16 = 40;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// A table with every row and column.
    Wide,
    /// The whole document, exact.
    Json,
    /// The same as YAML.
    Yaml,
    /// The same as one line of JSON, for histories and logs.
    Jsonl,
    /// The rows of the tables.
    Csv,
    /// Tables for a comment in a pull request.
    Markdown,
}

/// What people read.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<Block>);

/// An answer of a tool: for programs and for people, with its assumptions and the gaps of its catalogues.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) document: Value,
    pub(crate) page: Page,
    pub(crate) notes: Vec<String>,
    pub(crate) gaps: Vec<String>,
}

#[derive(Debug)]
enum Block {
    Sheet(Sheet),
    Lines(String),
}

/// A table.
#[derive(Debug)]
pub(crate) struct Sheet {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: Cow<'static, str>,
    right: bool,
}

/// A column of text.
pub(crate) fn text(title: impl Into<Cow<'static, str>>) -> Column {
    Column { title: title.into(), right: false }
}

/// A column of figures.
pub(crate) fn figure(title: impl Into<Cow<'static, str>>) -> Column {
    Column { title: title.into(), right: true }
}

impl Sheet {
    /// A table without rows.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// A cell for each column.
    fn cells<'a>(&'a self, row: &'a [String]) -> impl Iterator<Item = String> + 'a {
        (0..self.columns.len()).map(|column| row.get(column).cloned().unwrap_or_default())
    }

    fn table(&self, wide: bool, width: Option<u16>) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        grid.set_header(self.columns.iter().map(|column| &*column.title).collect::<Vec<_>>());
        for row in &self.rows {
            grid.add_row(self.cells(row).collect::<Vec<_>>());
        }
        for (number, column) in self.columns.iter().enumerate() {
            if let Some(of_grid) = grid.column_mut(number).filter(|_| column.right) {
                of_grid.set_cell_alignment(CellAlignment::Right);
            }
        }
        if let Some(width) = width.filter(|_| !wide) {
            grid.set_width(width.max(MIN_WIDTH)).set_content_arrangement(ContentArrangement::Dynamic);
        }
        grid.trim_fmt()
    }

    fn csv(&self) -> String {
        let quoted = |cell: &str| {
            if cell.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        };
        let titles = self.columns.iter().map(|column| column.title.clone()).collect::<Vec<_>>().join(",");
        let rows = self
            .rows
            .iter()
            .map(|row| self.cells(row).map(|cell| quoted(&cell)).collect::<Vec<_>>().join(","));
        std::iter::once(titles).chain(rows).collect::<Vec<_>>().join("\n")
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let safe = |cell: String| {
            cell.replace('\\', "\\\\").replace('|', "\\|").replace('\n', "<br>").replace('<', "&lt;")
        };
        let rule = |column: &Column| if column.right { "---:".to_owned() } else { "---".to_owned() };
        let titles = line(self.columns.iter().map(|column| column.title.to_string()).collect());
        let rules = line(self.columns.iter().map(rule).collect());
        let rows = self.rows.iter().map(|row| line(self.cells(row).map(safe).collect()));
        [titles, rules].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}

impl Page {
    /// Adds a table, if it has rows.
    pub(crate) fn sheet(&mut self, sheet: Sheet) -> &mut Self {
        if !sheet.rows.is_empty() {
            self.0.push(Block::Sheet(sheet));
        }
        self
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl Into<String>) -> &mut Self {
        match self.0.last_mut() {
            Some(Block::Lines(lines)) => {
                lines.push('\n');
                lines.push_str(&line.into());
            }
            _ => self.0.push(Block::Lines(line.into())),
        }
        self
    }

    /// Adds what another page has.
    pub(crate) fn append(&mut self, other: Self) -> &mut Self {
        self.0.extend(other.0);
        self
    }

    /// The page in a format for people or spreadsheets; `width` is that of the terminal.
    pub(crate) fn render(&self, format: Format, width: Option<u16>) -> String {
        let mut out = String::new();
        for block in &self.0 {
            let text = match (block, format) {
                (Block::Sheet(sheet), Format::Csv) => sheet.csv(),
                (Block::Lines(_), Format::Csv) => continue,
                (Block::Sheet(sheet), Format::Markdown) => sheet.markdown(),
                (Block::Sheet(sheet), _) => sheet.table(format == Format::Wide, width),
                // Markdown joins lines that follow each other.
                (Block::Lines(lines), Format::Markdown) => lines.replace('\n', "\n\n"),
                (Block::Lines(lines), _) => lines.clone(),
            };
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = writeln!(out, "{}", plain_lines(&text));
        }
        out
    }
}

/// Prints a document: as it is for programs, as `page` for people.
///
/// # Errors
/// If standard output cannot be written to.
pub(crate) fn print<T: Serialize>(
    format: Format,
    document: &T,
    page: impl FnOnce(bool) -> Page,
) -> anyhow::Result<()> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(document)? + "\n",
        Format::Jsonl => serde_json::to_string(document)? + "\n",
        Format::Yaml => serde_saphyr::to_string(&serde_json::to_value(document)?)?,
        _ => page(format == Format::Wide).render(format, terminal_width()),
    };
    Ok(anstream::stdout().lock().write_all(text.as_bytes())?)
}

/// A text on one line. Names and messages are data: no character of them controls the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// The same for a text of several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// The width of the terminal, if standard output is one.
pub(crate) fn terminal_width() -> Option<u16> {
    use std::io::IsTerminal as _;
    let is_terminal = std::io::stdout().is_terminal();
    terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| width.0)
}

#[cfg(test)]
mod tests {
    //! One page in each format.
    use super::*;

    fn page() -> Page {
        let mut sheet = Sheet::new(&[text("NAME"), figure("$/H"), text("WHY")]);
        sheet.row(["a|b".to_owned(), "1.5".to_owned(), "says \"no\", twice".to_owned()]);
        sheet.row(["<c>".to_owned(), "10".to_owned(), String::new()]);
        let mut page = Page::default();
        page.sheet(sheet).line("2 rows").line("in all");
        page.sheet(Sheet::new(&[text("EMPTY")]));
        page
    }

    #[test]
    fn formats() {
        for (format, expected) in [
            (
                Format::Table,
                " NAME  $/H  WHY\n a|b   1.5  says \"no\", twice\n <c>    10\n\n2 rows\nin all\n",
            ),
            (Format::Wide, " NAME  $/H  WHY\n a|b   1.5  says \"no\", twice\n <c>    10\n\n2 rows\nin all\n"),
            (Format::Csv, "NAME,$/H,WHY\na|b,1.5,\"says \"\"no\"\", twice\"\n<c>,10,\n"),
            (
                Format::Markdown,
                "| NAME | $/H | WHY |\n| --- | ---: | --- |\n| a\\|b | 1.5 | says \"no\", twice |\n| &lt;c> | 10 |  |\n\n2 rows\n\nin all\n",
            ),
        ] {
            assert_eq!(page().render(format, None), expected, "{format:?}");
        }
    }

    #[test]
    fn names_do_not_control_the_terminal() {
        let mut sheet = Sheet::new(&[text("NAME")]);
        sheet.row(["a\u{1b}[2Jb".to_owned()]);
        let mut page = Page::default();
        page.sheet(sheet).line("c\rd").line("e\tf");
        for format in [Format::Table, Format::Wide, Format::Csv, Format::Markdown] {
            let shown = page.render(format, None);
            assert!(shown.contains("a\u{fffd}[2Jb"), "{shown:?}");
            assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
        }
        assert_eq!(plain("a\nb"), "a\u{fffd}b");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let mut sheet = Sheet::new(&[text("POD"), text("MESSAGE")]);
        sheet.row(["default/web".to_owned(), "too little of it ".repeat(20)]);
        let mut page = Page::default();
        page.sheet(sheet);
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest(&page.render(Format::Table, Some(80))) <= 80);
        assert!(widest(&page.render(Format::Table, None)) > 300);
    }
}
