//! The machine as measured by WinSAT: XML that merging adds to a recording.

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

/// The text in the first element of that name, and the text after the element.
fn element<'a>(xml: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = xml;
    loop {
        let at = rest.find('<')?;
        rest = rest.get(at + 1..)?;
        let Some(after) = rest.strip_prefix(name) else { continue };
        let Some(after) = after.strip_prefix('>') else { continue };
        let (text, behind) = after.split_once(&format!("</{name}>"))?;
        return Some((text, behind));
    }
}

/// All elements of that name.
fn elements<'a>(xml: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (text, behind) = element(rest, name)?;
        rest = behind;
        Some(text)
    })
}

fn text<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    element(xml, name).map(|(text, _)| text.trim())
}

fn mask(xml: &str) -> Option<u64> {
    let digits = text(xml, "Mask")?;
    u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok().filter(|mask| *mask != 0)
}

impl Processors {
    /// Reads the XML of the system configuration; missing parts are omitted.
    pub(crate) fn read(xml: &str) -> Self {
        let name = text(xml, "ProcessorName").filter(|name| !name.is_empty()).map(str::to_owned);
        let Some((info, _)) = element(xml, "LogicalProcessorInfo") else {
            return Self { name, ..Self::default() };
        };
        let cache = |xml: &str| {
            Some(Cache {
                mask: mask(xml)?,
                level: text(xml, "Level")?.parse().ok()?,
                kind: text(xml, "Type")?.to_owned(),
            })
        };
        let node = |xml: &str| Some((text(xml, "NodeNum")?.parse().ok()?, mask(xml)?));
        Self {
            name,
            cores: elements(info, "RelationProcessorCore").filter_map(mask).collect(),
            caches: elements(info, "RelationCache").filter_map(cache).collect(),
            nodes: elements(info, "RelationNumaNode").filter_map(node).collect(),
            packages: elements(info, "RelationProcessorPackage").filter_map(mask).collect(),
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
    fn text_that_is_no_such_xml_tells_nothing() {
        for xml in ["", "<", "<LogicalProcessorInfo>", "<ProcessorName>x", "<a></a>"] {
            assert_eq!(Processors::read(xml), Processors::default(), "{xml}");
        }
    }
}
