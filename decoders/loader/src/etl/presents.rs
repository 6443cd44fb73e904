//! Presents of DXGI, Direct3D 9 and, for other programs, of the graphics kernel, as frames.

use schedlens_etl::Guid;
use schedlens_etl::payload::providers::{D3D9, DXGI};
use schedlens_etl::records::Record;

use super::rows::Presented;
use super::session::Session;
use super::state::presents::Chain;

/// `DXGI_PRESENT_TEST`: displays nothing.
const DXGI_PRESENT_TEST: u32 = 1;
/// Maximum number of swap chains.
const MOST_CHAINS: usize = 1 << 16;

impl Session<'_> {
    /// An event of one of the three providers.
    pub(super) fn present(&mut self, provider: Guid, id: u16, record: &Record<'_>, ts: i64) {
        let (Some(pid), Some(tid)) = (record.pid, record.tid) else { return };
        let (start, stop) = match (provider, id) {
            (DXGI, 42 | 55) | (D3D9, 1) => (true, false),
            (DXGI, 43 | 56) | (D3D9, 2) => (false, true),
            (DXGI | D3D9, _) => (false, false),
            // The graphics kernel reports presents of the other two providers a second time.
            (_, 184) => (!self.survey.presenters.contains(&pid), false),
            _ => (false, false),
        };
        if stop {
            if let Some(chain) = self.presents.inside.remove(&tid)
                && let Some(chain) = self.presents.chains.get_mut(&chain)
            {
                chain.returned_ns = Some(ts);
            }
            return;
        }
        if !start {
            return;
        }
        let Some((_, fields)) = self.survey.event(record) else { return };
        let (chain, dialect) = match provider {
            DXGI => (fields.number("pIDXGISwapChain"), "dxgi"),
            D3D9 => (fields.number("pSwapchain"), "d3d9"),
            _ => (fields.number("hWindow"), "dxgkrnl"),
        };
        let Some(chain) = chain else {
            self.short_payloads += 1;
            return;
        };
        if provider == DXGI && fields.id("Flags").is_some_and(|f| f & DXGI_PRESENT_TEST != 0) {
            return;
        }
        self.presented((pid, chain), tid, dialect, ts);
    }

    fn presented(&mut self, key: (u32, u64), tid: u32, dialect: &'static str, ts: i64) {
        let presents = &mut self.presents;
        if presents.chains.len() >= MOST_CHAINS && !presents.chains.contains_key(&key) {
            return;
        }
        let chain = Chain { start_ns: ts, returned_ns: None };
        let before = presents.chains.insert(key, chain);
        if presents.inside.len() < MOST_CHAINS {
            presents.inside.insert(tid, key);
        }
        let Some(before) = before else { return };
        let number = presents.frames.entry(key.0).or_insert(0);
        let frame = *number;
        *number += 1;
        let process = self.lives.processes.with_pid(key.0);
        let thread = (tid != 0).then(|| self.lives.now(tid, 0, ts));
        let known = self.lives.processes.all[process as usize].name.clone();
        let name = known.or_else(|| self.survey.late_names.get(&key.0).cloned());
        let row = Presented {
            frame,
            upid: self.lives.utid(process),
            utid: thread.map(|thread| self.lives.utid(thread)),
            process: name,
            start_ns: before.start_ns,
            dur_ns: ts - before.start_ns,
            cpu_busy_ns: before.returned_ns.map(|returned| ts - returned),
            dialect,
        };
        self.current.rows.presented.push(row);
    }
}
