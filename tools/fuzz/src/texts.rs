//! Texts and small binary files next to recordings.

use schedlens_loader::session;
use schedlens_system::cpu_list;
use schedlens_system::processors::Topology;

/// `samples.bin`.
pub fn samples(data: &[u8]) {
    let Ok((batch, torn)) = session::run_samples(data, (1, 1_000)) else { return };
    assert_eq!(data.len(), 8 + 48 * batch.num_rows() + torn, "bytes are neither read nor reported");
}

/// The buffer of `GetLogicalProcessorInformationEx`, and a list of CPUs.
pub fn processors(data: &[u8]) {
    for cpu in cpu_list(&String::from_utf8_lossy(data), 4096).unwrap_or_default() {
        assert!(cpu < 4096, "a CPU above the limit");
    }
    if let Ok(topology) = Topology::read(data) {
        assert_eq!(topology.core_types().len(), topology.cpus.len());
        for cpu in &topology.cpus {
            assert!(cpu.core.is_none_or(|core| core <= cpu.cpu), "the first CPU of a core is not");
        }
    }
}
