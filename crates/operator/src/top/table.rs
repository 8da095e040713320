//! Tables of the view: columns that fit the width, and the visible rows alone.

use std::{borrow::Cow, ops::Range};

use ratatui_core::{buffer::Buffer, layout::Rect};

use super::draw::{Styled, Theme, cut};

/// A column with its width.
#[derive(Clone, Debug)]
pub(super) struct TableColumn<C> {
    /// What it shows.
    pub(super) content: C,
    title: Cow<'static, str>,
    width: usize,
    right: bool,
}

/// A column as it could be.
#[derive(Clone, Debug)]
pub(super) struct Wanted<C> {
    /// What it shows.
    pub(super) content: C,
    /// Its title.
    pub(super) title: Cow<'static, str>,
    /// The least width.
    pub(super) least: usize,
    /// The largest width that helps.
    pub(super) most: usize,
    /// Whether it is aligned to the right.
    pub(super) right: bool,
    /// Columns of rank 0 are always there; of the others, those of the lowest rank come first.
    pub(super) rank: u8,
}

/// Chooses the columns that fit, in their order, and gives them equal parts of the width that is left.
pub(super) fn fitted<C: Copy>(wanted: &[Wanted<C>], width: u16) -> Vec<TableColumn<C>> {
    let width = usize::from(width);
    let mut ranks: Vec<u8> = wanted.iter().map(|column| column.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let needed = |rank: u8| -> usize {
        wanted.iter().filter(|column| column.rank <= rank).map(|column| column.least + 1).sum()
    };
    let rank = ranks.into_iter().filter(|rank| *rank == 0 || needed(*rank) <= width + 1).max().unwrap_or(0);
    let mut left = (width + 1).saturating_sub(needed(rank));
    let chosen: Vec<&Wanted<C>> = wanted.iter().filter(|column| column.rank <= rank).collect();
    let mut widths: Vec<usize> = chosen.iter().map(|column| column.least).collect();
    while left > 0 {
        let before = left;
        for (width, _) in widths.iter_mut().zip(&chosen).filter(|(width, column)| **width < column.most) {
            let more = left.min(1);
            *width += more;
            left -= more;
        }
        if left == before {
            break;
        }
    }
    let columns = chosen.into_iter().zip(widths).map(|(column, width)| TableColumn {
        content: column.content,
        title: column.title.clone(),
        width,
        right: column.right,
    });
    columns.collect()
}

/// Which rows of a list of `length` are visible in `height` rows, so that the selected one is among them.
pub(super) fn visible(length: usize, selected: usize, height: usize) -> Range<usize> {
    let start = selected.saturating_sub(height / 2).min(length.saturating_sub(height));
    start..length.min(start + height)
}

/// A table to draw.
pub(super) struct Table<'a, C> {
    /// The columns.
    pub(super) columns: &'a [TableColumn<C>],
    /// How many rows there are.
    pub(super) length: usize,
    /// The selected one, if the table has the focus.
    pub(super) selected: Option<usize>,
    /// The row around which the others are shown.
    pub(super) place: usize,
    /// The styles.
    pub(super) theme: Theme,
}

impl<C: Copy> Table<'_, C> {
    /// Draws titles and visible rows, and returns the number of rows that `cell` was asked for.
    pub(super) fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        mut cell: impl FnMut(usize, C, usize) -> Styled,
    ) -> usize {
        if area.height == 0 {
            return 0;
        }
        self.cells(buffer, area, area.y, |column| Styled {
            text: column.title.to_string(),
            style: self.theme.faint(),
        });
        let rows = visible(self.length, self.place, usize::from(area.height - 1));
        let count = rows.len();
        for (y, row) in (area.y + 1..).zip(rows) {
            self.cells(buffer, area, y, |column| cell(row, column.content, column.width));
            if self.selected == Some(row) {
                buffer.set_style(Rect { y, height: 1, ..area }, self.theme.selected());
            }
        }
        count
    }

    fn cells(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        y: u16,
        mut cell: impl FnMut(&TableColumn<C>) -> Styled,
    ) {
        let mut x = area.x;
        for column in self.columns {
            let Styled { text, style } = cell(column);
            let text = cut(&text, column.width);
            let text = match column.right {
                true => format!("{text:>width$}", width = column.width),
                false => text,
            };
            let left = usize::from(area.right().saturating_sub(x));
            buffer.set_stringn(x, y, text, left.min(column.width), style);
            x = x.saturating_add(u16::try_from(column.width + 1).unwrap_or(u16::MAX)).min(area.right());
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which columns and rows are shown.
    use super::*;

    fn wanted(title: &'static str, least: usize, most: usize, rank: u8) -> Wanted<()> {
        Wanted { content: (), title: title.into(), least, most, right: false, rank }
    }

    #[test]
    fn columns_fit_the_width() {
        let columns = [wanted("a", 4, 10, 0), wanted("b", 3, 3, 2), wanted("c", 2, 20, 1)];
        let shown = |width| -> Vec<(String, usize)> {
            let fitted = fitted(&columns, width).into_iter();
            fitted.map(|column| (column.title.to_string(), column.width)).collect()
        };
        for (width, expected) in [
            (3, &[("a", 4)][..]),
            (7, &[("a", 4), ("c", 2)]),
            (11, &[("a", 4), ("b", 3), ("c", 2)]),
            (20, &[("a", 9), ("b", 3), ("c", 6)]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(title, width)| ((*title).to_owned(), *width)).collect();
            assert_eq!(shown(width), expected);
        }
    }

    #[test]
    fn the_selected_row_is_visible() {
        for (length, selected, height, expected) in [
            (3, 2, 10, 0..3),
            (100, 0, 10, 0..10),
            (100, 50, 10, 45..55),
            (100, 99, 10, 90..100),
            (0, 0, 5, 0..0),
        ] {
            assert_eq!(visible(length, selected, height), expected);
        }
    }
}
