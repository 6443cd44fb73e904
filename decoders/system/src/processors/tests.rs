use super::records::{
    RELATION_CACHE, RELATION_GROUP, RELATION_NUMA_NODE, RELATION_PROCESSOR_CORE,
    RELATION_PROCESSOR_PACKAGE,
};
use super::*;

/// A buffer as the system writes it, record by record.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    fn record(mut self, kind: u32, body: &[u8]) -> Buffer {
        self.0.extend(kind.to_le_bytes());
        self.0.extend((8 + body.len() as u32).to_le_bytes());
        self.0.extend(body);
        self
    }

    fn parts(parts: &[(u16, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (group, mask) in parts {
            bytes.extend(mask.to_le_bytes());
            bytes.extend(group.to_le_bytes());
            bytes.extend([0; 6]);
        }
        bytes
    }

    fn core(self, class: u8, parts: &[(u16, u64)]) -> Buffer {
        let mut body = vec![u8::from(parts.len() > 1), class];
        body.extend([0; 20]);
        body.extend((parts.len() as u16).to_le_bytes());
        body.extend(Buffer::parts(parts));
        self.record(RELATION_PROCESSOR_CORE, &body)
    }

    fn cache(self, level: u8, kind: u32, bytes: u32, part: (u16, u64)) -> Buffer {
        let mut body = vec![level, 8, 64, 0];
        body.extend(bytes.to_le_bytes());
        body.extend(kind.to_le_bytes());
        body.extend([0; 18]);
        body.extend(1_u16.to_le_bytes());
        body.extend(Buffer::parts(&[part]));
        self.record(RELATION_CACHE, &body)
    }

    /// `counted`: false as on systems before Windows 10 20H2, whose count is 0.
    fn node(self, number: u32, counted: bool, part: (u16, u64)) -> Buffer {
        let mut body = number.to_le_bytes().to_vec();
        body.extend([0; 18]);
        body.extend(u16::from(counted).to_le_bytes());
        body.extend(Buffer::parts(&[part]));
        self.record(RELATION_NUMA_NODE, &body)
    }

    fn package(self, parts: &[(u16, u64)]) -> Buffer {
        let mut body = vec![0; 22];
        body.extend((parts.len() as u16).to_le_bytes());
        body.extend(Buffer::parts(parts));
        self.record(RELATION_PROCESSOR_PACKAGE, &body)
    }

    fn groups(self, masks: &[u64]) -> Buffer {
        let count = masks.len() as u16;
        let mut body = [count.to_le_bytes(), count.to_le_bytes()].concat();
        body.extend([0; 20]);
        for mask in masks {
            body.extend([64, mask.count_ones() as u8]);
            body.extend([0; 38]);
            body.extend(mask.to_le_bytes());
        }
        self.record(RELATION_GROUP, &body)
    }
}

/// Two P cores with siblings (0-1, 2-3), four E cores of one L2 (4-7), two LP-E cores without L3.
fn hybrid() -> Vec<u8> {
    Buffer::default()
        .core(2, &[(0, 0b11)])
        .core(2, &[(0, 0b1100)])
        .core(1, &[(0, 1 << 4)])
        .core(1, &[(0, 1 << 5)])
        .core(1, &[(0, 1 << 6)])
        .core(1, &[(0, 1 << 7)])
        .core(0, &[(0, 1 << 8)])
        .core(0, &[(0, 1 << 9)])
        .cache(3, 0, 24 << 20, (0, 0xff))
        .cache(1, 2, 48 << 10, (0, 0b11))
        .cache(1, 1, 32 << 10, (0, 0b11))
        .cache(2, 0, 2 << 20, (0, 0b11))
        .cache(2, 0, 2 << 20, (0, 0b1100))
        .cache(2, 0, 4 << 20, (0, 0xf0))
        .cache(2, 0, 2 << 20, (0, 0x300))
        .package(&[(0, 0x3ff)])
        .node(0, false, (0, 0x3ff))
        .groups(&[0x3ff])
        .0
}

fn column<T>(topology: &Topology, pick: impl Fn(&Cpu) -> T) -> Vec<T> {
    topology.cpus.iter().map(pick).collect()
}

#[test]
fn a_hybrid_part_gives_core_types_siblings_and_caches() {
    let found = Topology::read(&hybrid()).expect("every record is complete");
    let types: Vec<String> =
        found.core_types().into_iter().map(Option::unwrap_or_default).collect();
    assert_eq!(types, ["P", "P", "P", "P", "E", "E", "E", "E", "LP-E", "LP-E"]);
    assert_eq!(column(&found, |cpu| cpu.core), [0, 0, 2, 2, 4, 5, 6, 7, 8, 9].map(Some));
    assert_eq!(column(&found, |cpu| cpu.smt_index), [0, 1, 0, 1, 0, 0, 0, 0, 0, 0].map(Some));
    assert_eq!(column(&found, |cpu| cpu.l2), [0, 0, 2, 2, 4, 4, 4, 4, 8, 8].map(Some));
    assert_eq!(column(&found, |cpu| cpu.llc), [0, 0, 0, 0, 0, 0, 0, 0, 8, 8].map(Some));
    assert_eq!(column(&found, |cpu| cpu.numa_node), [Some(0); 10]);
    assert_eq!(column(&found, |cpu| cpu.l1d_bytes)[..3], [Some(49152), Some(49152), None]);
}

#[test]
fn cpus_of_a_second_group_follow_those_of_the_first() {
    // Two packages of 36 CPUs: the groups are not full, but the numbers have no gap.
    let half = (1_u64 << 36) - 1;
    let bytes = Buffer::default()
        .groups(&[half, half])
        .core(0, &[(0, 0b11)])
        .core(0, &[(1, 0b11)])
        .package(&[(0, half)])
        .package(&[(1, half)])
        .node(0, true, (0, half))
        .node(1, true, (1, half))
        .0;
    let found = Topology::read(&bytes).expect("every record is complete");
    assert_eq!(found.cpus.len(), 72);
    let last = &found.cpus[71];
    assert_eq!((last.group, last.number_in_group, last.package), (1, 35, Some(1)));
    assert_eq!(
        (last.numa_node, last.core, found.core_types().pop().flatten()),
        (Some(1), None, None)
    );
    assert_eq!((found.cpus[37].core, found.cpus[37].smt_index), (Some(36), Some(1)));
    assert_eq!(found.core_types()[37].as_deref(), Some("U"));
    let numbering = found.numbering();
    assert_eq!(
        (numbering.cpu(1, 35), numbering.cpu(1, 36), numbering.cpu(2, 0)),
        (Some(71), None, None)
    );
    assert_eq!((numbering.place(71), numbering.place(72)), (Some((1, 35)), None));
}

#[test]
fn an_inactive_cpu_has_no_number() {
    let bytes = Buffer::default().groups(&[0b1011]).core(0, &[(0, 0b1100)]).0;
    let found = Topology::read(&bytes).expect("every record is complete");
    assert_eq!(column(&found, |cpu| cpu.number_in_group), [0, 1, 3]);
    assert_eq!(column(&found, |cpu| cpu.core), [None, None, Some(2)]);
}

#[test]
fn without_a_record_of_groups_those_of_the_cores_count() {
    let found = Topology::read(&Buffer::default().core(0, &[(1, 1)]).core(0, &[(0, 0b11)]).0)
        .expect("every record is complete");
    assert_eq!(column(&found, |cpu| (cpu.group, cpu.number_in_group)), [(0, 0), (0, 1), (1, 0)]);
}

#[test]
fn records_that_contradict_their_size_are_named() {
    let whole = hybrid();
    for left in 1..whole.len() {
        // A buffer truncated between two records is a smaller buffer; its first record is a core.
        if let Err(error) = Topology::read(&whole[..left]) {
            let named = matches!(error, TopologyError::Size { .. } | TopologyError::Short { .. });
            assert!(named, "{left}: {error}");
        }
    }
    assert_eq!(Topology::read(&[]), Err(TopologyError::NoCores));
    let mut endless = whole.clone();
    endless[4..8].fill(0);
    let wrong = TopologyError::Size { at: 0, size: 0, left: whole.len() };
    assert_eq!(Topology::read(&endless), Err(wrong));
    let mut many = Buffer::default().groups(&[1]).0;
    many[10] = 2;
    let wrong = TopologyError::Short { at: 0, needed: 128, size: 80 };
    assert_eq!(Topology::read(&many), Err(wrong));
    let groups = Buffer::default().core(0, &[(0, 1)]).groups(&[1; 33]).0;
    assert_eq!(Topology::read(&groups), Err(TopologyError::Groups(33)));
}

#[test]
fn no_byte_makes_the_reader_fail() {
    let whole = hybrid();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Ok(found) = Topology::read(&bytes) {
                let numbers: Vec<usize> = (0..found.cpus.len()).collect();
                assert_eq!(column(&found, |cpu| cpu.cpu), numbers);
                assert_eq!(found.core_types().len(), found.cpus.len());
            }
        }
    }
}
