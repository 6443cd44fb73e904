//! The container, on logs built in code: order, loss, damage.

pub(crate) mod built;
mod damage;
mod loss;
mod order;
mod records;
