//! Windows event trace logs (.etl): what an ETW session writes, merged or not.

pub mod guid;
mod payload;
pub mod record;
