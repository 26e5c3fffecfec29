//! Rows for people: no borders, upper-case headers, as wide as the terminal and no wider.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::escape;

/// Builds the text of a table. Without a width, as into a pipe, each row is exactly one line.
pub fn render(headers: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    match width {
        Some(width) => table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.set_header(headers.iter().map(|header| header.to_uppercase()).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row.iter().map(|cell| escape::line(cell).into_owned()).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_in_a_pipe_is_one_line() {
        let rows = vec![vec!["web".to_owned(), "a long text ".repeat(30)], vec!["b\u{1b}[0m".to_owned(), "x\ny".to_owned()]];
        let text = render(&["name", "status"], &rows, None);
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("NAME") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_terminal_is_not_overrun() {
        let rows = vec![vec!["web".to_owned(), "a long text ".repeat(30)]];
        let text = render(&["name", "status"], &rows, Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}
