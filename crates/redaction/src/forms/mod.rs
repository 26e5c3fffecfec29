//! The forms that one text is looked for in. Most texts are letters and digits, which most escapes leave alone: what is the same is kept
//! once.

mod digits;
mod escapes;
mod shell;

use std::collections::BTreeMap;

use crate::known::SHORTEST;
use crate::view;

/// From this length on a text that was broken into lines is believed to be itself. A shorter one, such as `foobar`, is found only as it is:
/// it would be seen in any line that ends with `foo` before one that begins with `bar`.
const FOLDS_FROM: usize = 16;

/// Every form, without its line breaks, and whether it may have been broken into lines.
pub fn all(text: &[u8]) -> BTreeMap<Vec<u8>, bool> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let mut texts = vec![text.to_vec()];
    let mut written = Vec::new();
    if lines.len() > 1 {
        texts.extend([lines.join(&b'\n'), lines.join(&b"\r\n"[..])]);
        // What is printed in place of a line break. Nothing at all is what the view makes of a real one.
        written.extend([" ", "\\n", "\\r\\n", "\\\\n", "\\\\r\\\\n"].map(|between| lines.join(between.as_bytes())));
        let spaced = lines.join(&b' ');
        for escapes in [escapes::json, escapes::xml, escapes::uri, shell::all] {
            escapes(&spaced, &mut written);
        }
    }
    let mut forms = BTreeMap::new();
    let mut add = |form: Vec<u8>, encoded: bool| {
        let form = view::without_breaks(&form);
        if form.len() >= SHORTEST {
            let folds = encoded || lines.len() > 1 || form.len() >= FOLDS_FROM;
            *forms.entry(form).or_insert(false) |= folds;
        }
    };
    for text in texts {
        digits::all(&text).into_iter().for_each(|form| add(form, true));
        for escapes in [escapes::json, escapes::xml, escapes::uri, shell::all] {
            escapes(&text, &mut written);
        }
        written.push(text);
        written.drain(..).for_each(|form| add(form, false));
    }
    forms
}
