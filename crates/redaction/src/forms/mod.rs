//! The forms that one text is looked for in. Most texts are letters and digits, which most escapes leave alone: what is the same is kept
//! once.

mod digits;
mod escapes;
mod shell;

use crate::known::SHORTEST;
use crate::view;

/// From this length on a text that was broken into lines is believed to be itself. A shorter one, such as `foobar`, is found only as it is:
/// it would be seen in any line that ends with `foo` before one that begins with `bar`.
const FOLDS_FROM: usize = 16;

/// Where a text stands in what it was cut from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// It was not cut.
    Alone,
    /// Something follows.
    Before,
    Last,
}

/// Every form, without its line breaks, and whether it may have been broken into lines.
pub fn all(text: &[u8], stands: Stands) -> Vec<(Vec<u8>, bool)> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let mut texts = vec![text.to_vec()];
    let mut written = Vec::new();
    if lines.len() > 1 {
        texts.extend([lines.join(&b'\n'), lines.join(&b"\r\n"[..])]);
        texts.sort_unstable();
        texts.dedup();
        // What is printed in place of a line break. Nothing at all is what the view makes of a real one.
        written.extend([" ", "\\n", "\\r\\n", "\\\\n", "\\\\r\\\\n"].map(|between| lines.join(between.as_bytes())));
        let spaced = lines.join(&b' ');
        for escapes in [escapes::json, escapes::xml, escapes::uri, shell::all] {
            escapes(&spaced, &mut written);
        }
    }
    let mut forms = Vec::new();
    let mut add = |form: Vec<u8>, encoded: bool| {
        let form = if lines.len() > 1 { view::without_breaks(&form) } else { form };
        if form.len() >= SHORTEST {
            let folds = encoded || lines.len() > 1 || form.len() >= FOLDS_FROM;
            forms.push((form, folds));
        }
    };
    for text in texts {
        digits::all(&text, stands).into_iter().for_each(|form| add(form, true));
        for escapes in [escapes::json, escapes::xml, escapes::uri, shell::all] {
            escapes(&text, &mut written);
        }
        written.push(text);
        written.drain(..).for_each(|form| add(form, false));
    }
    // Of two that are the same, the one that may be broken stands last.
    forms.sort_unstable();
    forms.dedup_by(|later, first| {
        let same = later.0 == first.0;
        first.1 |= same && later.1;
        same
    });
    forms
}
