//! `list`: the catalog, and what this machine can run.

use crate::catalogue::KERNELS;
use crate::json::{list, object};
use crate::kernel::Kernel;
use serde_json::Value;

fn variants(kernel: &Kernel) -> Value {
    list(kernel.variants.iter().map(|variant| {
        let refusal = (variant.refusal)(kernel.parties);
        object([
            ("variant", Value::from(variant.name)),
            ("supported", refusal.is_none().into()),
            ("why", refusal.into()),
        ])
    }))
}

/// The catalog as one JSON object; `supported` is for the smallest possible number of threads.
pub fn json() -> Value {
    let kernels = KERNELS.iter().map(|kernel| {
        object([
            ("kernel", Value::from(kernel.name)),
            ("summary", kernel.summary.into()),
            ("unit", kernel.unit.name().into()),
            ("note", kernel.note.into()),
            ("parties", kernel.parties.into()),
            ("keeps_beat", kernel.keeps_beat().into()),
            ("default_variant", kernel.variants[0].name.into()),
            ("variants", variants(kernel)),
        ])
    });
    object([("schema", Value::from(1_u64)), ("kernels", list(kernels))])
}

/// The catalog as text.
pub fn text() -> String {
    let mut lines = Vec::new();
    for kernel in KERNELS {
        lines.push(format!("{:<16}{} [{}]", kernel.name, kernel.summary, kernel.unit.name()));
        lines.push(format!("{:16}{}", "", kernel.note));
        for variant in kernel.variants {
            match (variant.refusal)(kernel.parties) {
                Some(why) => {
                    lines.push(format!("{:16}{}: unsupported, {why}", "", variant.name));
                }
                None if kernel.variants.len() > 1 => {
                    lines.push(format!("{:16}{}", "", variant.name));
                }
                None => {}
            }
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
