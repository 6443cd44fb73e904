//! The parts of an XML text that recordings need: tags with their attributes, and text.

use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Maximum attribute length; event schemas repeat the names.
const LONGEST: usize = 1 << 10;

/// A part of the text; names have no prefix.
pub(crate) enum Part<'a> {
    /// The start of an element.
    Start(Tag<'a>),
    /// Text between tags, with character references replaced.
    Text(String),
    /// The end of an element.
    End(String),
}

/// The tag that starts an element.
pub(crate) struct Tag<'a>(BytesStart<'a>);

impl Tag<'_> {
    pub(crate) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    fn attribute(&self, wanted: &str) -> Option<Attribute<'_>> {
        let mut attributes = self.0.attributes();
        // Attributes that occur twice are no reason to stop: the first counts.
        let mut sound = attributes.with_checks(false).map_while(Result::ok);
        sound.find(|attribute| attribute.key.into_inner() == wanted)
    }

    /// An attribute with character references replaced, truncated to the maximum length.
    pub(crate) fn get(&self, wanted: &str) -> Option<String> {
        let attribute = self.attribute(wanted)?;
        let resolved = attribute.normalized_value(XmlVersion::Implicit1_0);
        // An unknown reference leaves the value as it is written.
        let value = resolved.unwrap_or(attribute.value);
        let mut ends = (0..=value.len().min(LONGEST)).rev();
        let end = ends.find(|end| value.is_char_boundary(*end))?;
        value.get(..end).map(str::to_owned)
    }

    /// A numeric attribute, decimal or with `0x`.
    pub(crate) fn number(&self, wanted: &str) -> Option<u32> {
        let text = self.get(wanted)?;
        let text = text.trim_ascii();
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

/// The parts of a text in order, up to the first that is damaged.
pub(crate) fn parts(xml: &str) -> impl Iterator<Item = Part<'_>> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    std::iter::from_fn(move || {
        loop {
            return Some(match reader.read_event().ok()? {
                Event::Start(tag) => Part::Start(Tag(tag)),
                Event::End(tag) => Part::End(tag.local_name().into_inner().to_owned()),
                Event::Text(text) => Part::Text(text.xml10_content().into_owned()),
                Event::CData(text) => Part::Text(text.xml10_content().into_owned()),
                Event::GeneralRef(name) => Part::Text(resolved(&name)),
                Event::Eof => return None,
                _ => continue,
            });
        }
    })
}

/// The character of a reference; an unknown one remains as it is written.
fn resolved(name: &str) -> String {
    let written = format!("&{name};");
    quick_xml::escape::unescape(&written).map_or(written.clone(), |text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(xml: &str) -> Vec<Tag<'_>> {
        let tag = |part| if let Part::Start(tag) = part { Some(tag) } else { None };
        parts(xml).filter_map(tag).collect()
    }

    #[test]
    fn tags_and_their_attributes_are_found() {
        let xml = "<?xml version='1.0'?><!-- <no> --><e:provider  name=\"a > b &amp; &#x41;\"\n\
                   guid = 'g' odd='&bad;'/>text</e:provider><data count=\"0x10\" length='n'>";
        let found = tags(xml);
        assert_eq!(found.iter().map(Tag::name).collect::<Vec<_>>(), ["provider", "data"]);
        assert_eq!(found[0].get("name").as_deref(), Some("a > b & A"));
        assert_eq!(found[0].get("guid").as_deref(), Some("g"));
        assert_eq!(found[0].get("odd").as_deref(), Some("&bad;"));
        assert_eq!(found[0].get("id"), None);
        assert_eq!((found[1].number("count"), found[1].number("length")), (Some(16), None));
    }

    #[test]
    fn text_and_ends_are_found() {
        let mut found = Vec::new();
        for part in parts("<a>x &lt; y<![CDATA[<z>]]></a><b/> & </c>") {
            found.push(match part {
                Part::Start(tag) => format!("<{}", tag.name()),
                Part::Text(text) => text,
                Part::End(name) => format!("{name}>"),
            });
        }
        assert_eq!(found.concat(), "<ax < y<z>a><bb> & c>");
    }

    #[test]
    fn truncated_text_ends_the_tags() {
        for xml in ["", "<", "<a", "<a b='>", "<!-- a", "<a b=\"c", "<?", "x < y"] {
            assert!(tags(xml).is_empty(), "{xml}");
        }
        for xml in ["<a b>", "<a b=>", "<a b=c>", "<a b=\u{e4}>", "<a =''>", "< >"] {
            assert_eq!(tags(xml).first().map(|tag| tag.get("b")), Some(None), "{xml}");
        }
    }

    #[test]
    fn long_attributes_are_truncated_at_a_character() {
        let xml = format!("<a b='{}'>", "\u{e4}x".repeat(LONGEST));
        let length = tags(&xml)[0].get("b").map(|value| value.len());
        assert_eq!(length, Some(LONGEST - 1));
    }
}
