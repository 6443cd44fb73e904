//! The container, on logs built in code: order, loss, damage.

mod built;
mod damage;
mod loss;
mod order;
mod records;
