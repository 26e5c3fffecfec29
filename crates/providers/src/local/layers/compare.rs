//! What differs between the workspaces of two views.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stead_app::{DifferencePage, PlaceError, View, Wanted};
use stead_domain::changes::EntryType;
use stead_domain::checkpoint_diff::Difference;
use tokio::task::spawn_blocking;

use super::{Asked, PARTS, Shelf};
use crate::local::stack::{self, Compared, Stack, compare_text};

/// So much text is told at a time, and then what is left is for the next page.
const MOST_TEXT: usize = 4 << 20;

pub async fn differences(shelf: Arc<Shelf>, before: View, after: View, which: Wanted) -> Result<DifferencePage, PlaceError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let _asked = Asked(Arc::clone(&stopped));
    let work = move || {
        let failed = |error: std::io::Error| PlaceError::Failed(error.to_string());
        let (before, after) = (workspace(&shelf, &before).map_err(failed)?, workspace(&shelf, &after).map_err(failed)?);
        Ok(find(&before, &after, &which, &stopped)?)
    };
    spawn_blocking(work).await.map_err(|error| PlaceError::Failed(error.to_string()))?
}

fn workspace(shelf: &Shelf, view: &View) -> super::Result<Stack> {
    let mut layers = Vec::new();
    for (at, layer) in view.layers.iter().enumerate() {
        match shelf.find(*layer) {
            Ok(path) => layers.push(path.join(PARTS[0])),
            // Nothing was written to it yet.
            Err(error) if view.live && at == 0 && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Stack::new(layers))
}

fn find(before: &Stack, after: &Stack, which: &Wanted, stopped: &AtomicBool) -> stack::Result<DifferencePage> {
    if let Some(path) = &which.only {
        let items = match compare_text(before, after, path, stopped)? {
            Compared::Different(difference) => vec![*difference],
            Compared::Missing | Compared::Same => Vec::new(),
        };
        return Ok(DifferencePage { items, ..DifferencePage::default() });
    }
    let page = stack::page(before, after, which.after.as_ref(), which.limit, stopped)?;
    let mut found = DifferencePage { items: Vec::new(), next: page.next, unreadable: page.unreadable };
    let mut told = 0;
    for (path, file) in page.items {
        let mut difference = Difference { file, content: None, unified: None };
        if which.text && difference.file.r#type == EntryType::File {
            if let Compared::Different(whole) = compare_text(before, after, &path, stopped)? {
                difference = *whole;
            }
            told += difference.unified.as_ref().map_or(0, String::len);
        }
        found.items.push(difference);
        if told > MOST_TEXT {
            found.next = Some(path);
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stead_domain::changes::RelativePath;

    use super::*;

    #[test]
    fn names_and_lines_that_differ_are_told_page_by_page() {
        let directory = tempfile::TempDir::new().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        for (path, text) in [("old/a", "1\n2\n"), ("old/b", "same\n"), ("new/a", "1\n3\n"), ("new/c", "\0")] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (before, after) = (Stack::new([&old]), Stack::new([&new, &old]));
        let stopped = AtomicBool::new(false);
        let wanted = Wanted { only: None, after: None, limit: 1, text: true };
        let first = find(&before, &after, &wanted, &stopped).unwrap();
        assert!(first.items[0].unified.as_ref().unwrap().contains("-2\n+3\n"), "{first:?}");
        let wanted = Wanted { after: first.next, ..wanted };
        let second = find(&before, &after, &wanted, &stopped).unwrap();
        assert_eq!((second.items[0].file.path.as_str(), second.items[0].unified.clone(), second.next), ("c", None, None));
        let only = RelativePath::parse("path", b"b").unwrap();
        let same = Wanted { only: Some(only), after: None, limit: 1, text: true };
        assert!(find(&before, &after, &same, &stopped).unwrap().items.is_empty());
    }
}
