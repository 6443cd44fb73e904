//! Events of DXGI and Direct3D 9: a frame is presented.

use super::metadata::{Field, Kind, Schema};
use super::record::Descriptor;
use crate::bytes::Bytes;

const DXGI: &str = "ca11c036-0102-4a2d-a6ad-f03cfed5d3c9";
const DXGI_NAME: &str = "Microsoft-Windows-DXGI";
const D3D9: &str = "783aca0a-790e-4d7f-8451-aa850511c6b9";
const D3D9_NAME: &str = "Microsoft-Windows-D3D9";

const START: [Field; 5] = [
    ("pIDXGISwapChain", Kind::Pointer),
    ("Flags", Kind::U32),
    ("SyncInterval", Kind::U32),
    ("DirtyRects", Kind::U32),
    ("ScrollRects", Kind::U32),
];
const STOP: [Field; 1] = [("Result", Kind::U32)];
const D3D9_START: [Field; 2] = [("pSwapchain", Kind::Pointer), ("Flags", Kind::U32)];

const fn schema(
    (provider, provider_name): (&'static str, &'static str),
    (id, opcode): (u16, u8),
    fields: &'static [Field],
) -> Schema {
    let descriptor =
        Descriptor { id, version: 0, channel: 0, level: 0, opcode, task: 9, keyword: 2 };
    Schema { provider, provider_name, descriptor, name: "Present", fields }
}

const DXGI_START: Schema = schema((DXGI, DXGI_NAME), (42, 1), &START);
const DXGI_STOP: Schema = schema((DXGI, DXGI_NAME), (43, 2), &STOP);
const D3D9_PRESENT: Schema = schema((D3D9, D3D9_NAME), (1, 1), &D3D9_START);
const D3D9_STOP: Schema = schema((D3D9, D3D9_NAME), (2, 2), &STOP);

/// Present, its begin or its end.
pub(super) fn present(
    out: &mut Bytes,
    pointer: usize,
    (d3d9, stop): (bool, bool),
    swap_chain: u64,
    flags: u32,
) -> &'static Schema {
    match (d3d9, stop) {
        (_, true) => out.u32(0),
        (true, false) => out.pointer(pointer, swap_chain).u32(flags),
        (false, false) => out.pointer(pointer, swap_chain).u32(flags).u32(1).u32(0).u32(0),
    };
    match (d3d9, stop) {
        (true, true) => &D3D9_STOP,
        (true, false) => &D3D9_PRESENT,
        (false, true) => &DXGI_STOP,
        (false, false) => &DXGI_START,
    }
}
