//! The container on logs built by code: order, loss, damage.

mod built;
mod damage;
mod loss;
mod order;
mod records;
