//! Events of providers that write their XML manifest into the recording.

use std::collections::HashMap;
use std::sync::Arc;

use super::schema::{Property, Schema, Size};
use super::xml::{Part, Tag, parts};
use crate::guid::Guid;

/// Maximum fields of an event; more means damaged data.
const MOST_FIELDS: usize = 1 << 10;

/// Types of manifests by their `TDH_INTYPE_*`.
const TYPES: [(&str, u16); 21] = [
    ("win:UnicodeString", 1),
    ("win:AnsiString", 2),
    ("win:Int8", 3),
    ("win:UInt8", 4),
    ("win:Int16", 5),
    ("win:UInt16", 6),
    ("win:Int32", 7),
    ("win:UInt32", 8),
    ("win:Int64", 9),
    ("win:UInt64", 10),
    ("win:Float", 11),
    ("win:Double", 12),
    ("win:Boolean", 13),
    ("win:Binary", 14),
    ("win:GUID", 15),
    ("win:Pointer", 16),
    ("win:FILETIME", 17),
    ("win:SYSTEMTIME", 18),
    ("win:SID", 19),
    ("win:HexInt32", 20),
    ("win:HexInt64", 21),
];

/// An `event` element.
struct Event {
    id: u16,
    version: u8,
    task: String,
    opcode: String,
    template: String,
}

impl Event {
    fn of(tag: &Tag<'_>) -> Option<Self> {
        let name = |key| tag.get(key).unwrap_or_default();
        let task = Some(name("task")).filter(|task| !task.is_empty());
        Some(Self {
            id: u16::try_from(tag.number("value")?).ok()?,
            version: u8::try_from(tag.number("version").unwrap_or_default()).ok()?,
            task: task.unwrap_or_else(|| name("symbol")),
            opcode: name("opcode").trim_start_matches("win:").to_owned(),
            template: name("template"),
        })
    }
}

/// A `template` element: its fields up to the first of unknown type.
#[derive(Default)]
struct Template {
    fields: Vec<Property>,
    ended: bool,
}

impl Template {
    fn add(&mut self, tag: &Tag<'_>) {
        let field = if tag.name() == "data" { self.field(tag) } else { None };
        match field {
            Some(field) if !self.ended && self.fields.len() < MOST_FIELDS => {
                self.fields.push(field);
            }
            _ => self.ended = true,
        }
    }

    fn field(&self, tag: &Tag<'_>) -> Option<Property> {
        let kind = tag.get("inType")?;
        let (_, kind) = TYPES.iter().find(|(name, _)| *name == kind)?;
        let name = tag.get("name")?;
        Some(Property::new(name, *kind, self.size(tag, "count")?, self.size(tag, "length")?))
    }

    /// A count or length: a number, the index of the field that contains it, or none.
    fn size(&self, tag: &Tag<'_>, key: &str) -> Option<Size> {
        let Some(text) = tag.get(key) else { return Some(Size::None) };
        if let Some(number) = tag.number(key) {
            return u16::try_from(number).ok().map(Size::Fixed);
        }
        let place = self.fields.iter().position(|field| field.name() == text)?;
        u16::try_from(place).ok().map(Size::Field)
    }
}

/// The schemas of a provider's events, at most `most`; `None` if the text has none.
pub(crate) fn schemas(xml: &str, provider: Guid, most: usize) -> Option<Vec<Schema>> {
    let wanted = provider.to_string();
    let mut ours = false;
    let mut name = String::new();
    let mut events = Vec::new();
    let mut templates: HashMap<String, Template> = HashMap::new();
    let mut template = None;
    for part in parts(xml) {
        let tag = match part {
            Part::Start(tag) => tag,
            Part::End(name) => {
                template = template.filter(|_| name != "template");
                continue;
            }
            Part::Text(_) => continue,
        };
        match tag.name() {
            "provider" => {
                let guid = tag.get("guid").unwrap_or_default();
                ours = guid.trim_matches(['{', '}']).eq_ignore_ascii_case(&wanted);
                if ours {
                    name = tag.get("name").unwrap_or_default();
                }
            }
            _ if !ours => {}
            "event" if events.len() < most => events.extend(Event::of(&tag)),
            "template" => template = tag.get("tid"),
            "data" | "struct" => {
                if let Some(tid) = &template
                    && (templates.len() < most || templates.contains_key(tid))
                {
                    templates.entry(tid.clone()).or_default().add(&tag);
                }
            }
            _ => {}
        }
    }
    let fields: HashMap<String, Arc<[Property]>> =
        templates.into_iter().map(|(tid, template)| (tid, template.fields.into())).collect();
    let schema = |event: Event| {
        let fields = fields.get(&event.template).cloned().unwrap_or_default();
        Schema::new(
            (provider, event.id, event.version),
            [&name, &event.task, &event.opcode],
            fields,
        )
    };
    let schemas: Vec<_> = events.into_iter().map(schema).collect();
    (!schemas.is_empty()).then_some(schemas)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: Guid = Guid::from_text_order(0x01020304_0506_0708_090a_0b0c0d0e0f10);

    const XML: &str = r#"<instrumentationManifest>
<provider name="Else" guid="{00000000-0000-0000-0000-000000000000}">
 <events><event value="9" template="T"/></events>
</provider>
<provider name="A &lt;B&gt;" guid="{01020304-0506-0708-090A-0b0c0d0e0f10}">
 <events>
  <event value="1" version="2" task="Job" opcode="win:Start" template="JobArgs"/>
  <event value="0x2" symbol="Plain"/>
  <event value="3" task="Odd" template="OddArgs"/>
  <event value="70000" task="Far"/>
 </events>
 <templates>
  <template tid="JobArgs">
   <data name="name" inType="win:UnicodeString"/>
   <data name="n" inType="win:UInt16"/>
   <data name="parts" inType="win:Int32" count="n"/>
   <data name="bytes" inType="win:Binary" length="n"/>
   <data name="on" inType="win:Boolean"/>
  </template>
  <template tid="OddArgs">
   <data name="a" inType="win:UInt8"/>
   <data name="b" inType="win:NoSuch"/>
   <data name="c" inType="win:UInt8"/>
  </template>
 </templates>
</provider></instrumentationManifest>"#;

    #[test]
    fn events_are_read_by_their_manifest() {
        let found = schemas(XML, PROVIDER, 100).expect("schemas");
        let ids: Vec<_> = found.iter().map(|s| (s.id, s.version, s.title())).collect();
        let ids: Vec<_> = ids.iter().map(|(id, v, title)| (*id, *v, title.as_str())).collect();
        assert_eq!(ids, [(1, 2, "Job/Start"), (2, 0, "Plain"), (3, 0, "Odd")]);
        assert!(found.iter().all(|schema| schema.provider_name == "A <B>"));
        let mut payload: Vec<u8> = "x\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        payload.extend([2, 0, 5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7, 8, 1, 0, 0, 0]);
        assert_eq!(
            found[0].fields(&payload, 8).json().to_string(),
            r#"{"bytes":"0708","n":2,"name":"x","on":true,"parts":[5,-1]}"#
        );
        assert_eq!(found[2].fields(&[4, 5, 6], 8).json().to_string(), r#"{"a":4}"#);
    }

    #[test]
    fn other_texts_give_no_manifest() {
        let other = Guid::from_text_order(1);
        assert!(schemas(XML, other, 100).is_none());
        assert!(schemas("<provider", PROVIDER, 100).is_none());
        assert_eq!(schemas(XML, PROVIDER, 1).map(|found| found.len()), Some(1));
        for end in 0..XML.len() {
            schemas(&XML[..end], PROVIDER, 100);
        }
    }
}
