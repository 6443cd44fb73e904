//! The tags of an XML text, limited to what manifests need: names and attributes, no text in
//! between.

/// Maximum attribute length; event schemas repeat the names.
const LONGEST: usize = 1 << 10;

/// A tag; `name` has no prefix, and a leading `/` if it ends an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    pub(crate) name: &'a str,
    attributes: &'a str,
}

impl<'a> Tag<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.strip_suffix('/').unwrap_or(text);
        let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        let (name, attributes) = text.split_at(end);
        let name = match name.split_once(':') {
            Some((_, local)) if !name.starts_with('/') => local,
            _ => name,
        };
        Self { name, attributes }
    }

    /// An attribute as written, without quotes.
    fn raw(&self, wanted: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        loop {
            let (name, after) = rest.split_once('=')?;
            let after = after.trim_ascii_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, behind) = after.get(1..)?.split_once(quote)?;
            if name.trim_ascii() == wanted {
                return Some(value);
            }
            rest = behind;
        }
    }

    /// An attribute, truncated to the maximum length.
    pub(crate) fn get(&self, wanted: &str) -> Option<String> {
        let raw = self.raw(wanted)?;
        let mut ends = (0..=raw.len().min(LONGEST)).rev();
        let end = ends.find(|end| raw.is_char_boundary(*end))?;
        raw.get(..end).map(resolve)
    }

    /// A numeric attribute, decimal or with `0x`.
    pub(crate) fn number(&self, wanted: &str) -> Option<u32> {
        let text = self.raw(wanted)?.trim_ascii();
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

/// Replaces character references.
fn resolve(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let found = after.split_once(';').and_then(|(name, behind)| Some((named(name)?, behind)));
        match found {
            Some((c, behind)) => {
                out.push(c);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn named(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    })
}

/// All tags of a text in order; comments and instructions are skipped.
pub(crate) fn tags(xml: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('<')?;
            let other = [("!--", "-->"), ("?", "?>"), ("!", ">")];
            if let Some((_, end)) = other.iter().find(|(begin, _)| after.starts_with(begin)) {
                rest = after.split_once(end)?.1;
                continue;
            }
            let end = end_of_tag(after)?;
            rest = after.get(end + 1..)?;
            return Some(Tag::of(after.get(..end)?));
        }
    })
}

/// The end of a tag: `>` may occur in an attribute.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_their_attributes_are_found() {
        let xml = "<?xml version='1.0'?><!-- <no> --><e:provider  name=\"a > b &amp; &#x41;&bad;\"\n\
                   guid = 'g'/>text</e:provider><data count=\"0x10\" length='n'>";
        let found: Vec<_> = tags(xml).collect();
        let names: Vec<_> = found.iter().map(|tag| tag.name).collect();
        assert_eq!(names, ["provider", "/e:provider", "data"]);
        assert_eq!(found[0].get("name").as_deref(), Some("a > b & A&bad;"));
        assert_eq!(found[0].get("guid").as_deref(), Some("g"));
        assert_eq!(found[0].get("id"), None);
        assert_eq!((found[2].number("count"), found[2].number("length")), (Some(16), None));
    }

    #[test]
    fn what_is_cut_off_ends_the_tags() {
        for xml in ["", "<", "<a", "<a b='>", "<!-- a", "<a b=\"c", "<?", "x < y"] {
            assert_eq!(tags(xml).count(), 0, "{xml}");
        }
        for xml in ["<a b>", "<a b=>", "<a b=c>", "<a b=\u{e4}>", "<a =''>", "< >", "<>"] {
            assert_eq!(tags(xml).next().map(|tag| tag.get("b")), Some(None), "{xml}");
        }
    }
}
