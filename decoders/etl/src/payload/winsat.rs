//! The machine as measured by WinSAT: XML that merging adds to a recording.

use std::collections::HashMap;
use std::str::FromStr;

use super::xml::{Part, parts};

/// A cache from `LogicalProcessorInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) mask: u64,
    pub(crate) level: u32,
    /// Data or Unified, Instruction, Trace.
    pub(crate) kind: String,
}

/// What the XML contains about processors; masks are of group 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors {
    pub(crate) name: Option<String>,
    pub(crate) cores: Vec<u64>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) nodes: Vec<(u32, u64)>,
    pub(crate) packages: Vec<u64>,
}

/// A `Relation...` element: the texts of the elements in it.
#[derive(Default)]
struct Relation {
    kind: String,
    fields: HashMap<String, String>,
}

impl Relation {
    fn number<T: FromStr>(&self, field: &str) -> Option<T> {
        self.fields.get(field)?.parse().ok()
    }

    fn mask(&self) -> Option<u64> {
        let digits = self.fields.get("Mask")?.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).ok().filter(|mask| *mask != 0)
    }
}

impl Processors {
    /// Reads the XML of the system configuration; missing parts are omitted.
    pub(crate) fn read(xml: &str) -> Self {
        let mut found = Self::default();
        let mut text = String::new();
        let mut relation: Option<Relation> = None;
        for part in parts(xml) {
            match part {
                Part::Text(more) => text.push_str(&more),
                Part::Start(tag) => {
                    text.clear();
                    if tag.name().starts_with("Relation") {
                        relation =
                            Some(Relation { kind: tag.name().into(), ..Relation::default() });
                    }
                }
                Part::End(name) => match &mut relation {
                    Some(whole) if whole.kind == name => {
                        found.add(whole);
                        relation = None;
                    }
                    Some(whole) => {
                        whole.fields.insert(name, text.trim().to_owned());
                    }
                    None if name == "ProcessorName" && found.name.is_none() => {
                        found.name = Some(text.trim().to_owned()).filter(|name| !name.is_empty());
                    }
                    None => {}
                },
            }
        }
        found
    }

    fn add(&mut self, relation: &Relation) {
        let Some(mask) = relation.mask() else { return };
        match relation.kind.as_str() {
            "RelationProcessorCore" => self.cores.push(mask),
            "RelationProcessorPackage" => self.packages.push(mask),
            "RelationNumaNode" => {
                self.nodes.extend(relation.number("NodeNum").map(|node| (node, mask)));
            }
            "RelationCache" => {
                let parts = relation.number("Level").zip(relation.fields.get("Type"));
                let cache = parts.map(|(level, kind)| Cache { mask, level, kind: kind.clone() });
                self.caches.extend(cache);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_cores_caches_and_nodes_are_read() {
        let xml = "<System><Processor><ProcessorName> Some CPU </ProcessorName>\
                   <LogicalProcessorInfo>\
                   <RelationProcessorCore><Mask>3</Mask><Flags>01</Flags></RelationProcessorCore>\
                   <RelationCache><Mask>f</Mask><Level>3</Level><Type>Unified</Type>\
                   </RelationCache>\
                   <RelationProcessorCore><Mask>4</Mask><Flags>00</Flags></RelationProcessorCore>\
                   <RelationNumaNode><Mask>f</Mask><NodeNum>1</NodeNum></RelationNumaNode>\
                   <RelationProcessorPackage><Mask>zz</Mask></RelationProcessorPackage>\
                   </LogicalProcessorInfo></Processor></System>";
        let found = Processors::read(xml);
        assert_eq!(found.name.as_deref(), Some("Some CPU"));
        assert_eq!(found.cores, [3, 4]);
        assert_eq!(found.caches, [Cache { mask: 15, level: 3, kind: "Unified".into() }]);
        assert_eq!(found.nodes, [(1, 15)]);
        assert!(found.packages.is_empty());
    }

    #[test]
    fn other_text_gives_nothing() {
        for xml in ["", "<", "<LogicalProcessorInfo>", "<ProcessorName>x", "<a></a>"] {
            assert_eq!(Processors::read(xml), Processors::default(), "{xml}");
        }
    }
}
