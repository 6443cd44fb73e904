//! Files and compiled methods appear and disappear as time passes.

use std::sync::Arc;

use schedlens_etl::facts::code::Code;

use crate::stacks::{Method, Spaces};

/// How far the changes of a recording have been applied.
#[derive(Debug, Default)]
pub(super) struct CodeChanges {
    image: usize,
    method: usize,
}

impl CodeChanges {
    /// Applies what happened up to a time in ns, in order.
    pub(super) fn apply(&mut self, code: &Code, until_ns: i64, spaces: &mut Spaces) {
        loop {
            let image = code.images.changes.get(self.image).filter(|next| next.ts <= until_ns);
            let method = code.methods.changes.get(self.method).filter(|next| next.ts <= until_ns);
            match (image, method) {
                // A file is loaded before methods are compiled into its memory.
                (Some(image), method) if method.is_none_or(|method| image.ts <= method.ts) => {
                    let file = image.image.and_then(|number| code.images.all.get(number as usize));
                    spaces.load(image.pid, image.base, file.cloned());
                    self.image += 1;
                }
                (_, Some(method)) => {
                    let code_at = method.start..method.start.saturating_add(method.size.into());
                    let name =
                        method.name.and_then(|number| code.methods.names.get(number as usize));
                    let made =
                        name.map(|name| Method { name: Arc::clone(name), lines: Vec::new() });
                    spaces.compile(method.pid.cast_signed(), code_at, made.map(Arc::new));
                    self.method += 1;
                }
                _ => break,
            }
        }
    }
}
