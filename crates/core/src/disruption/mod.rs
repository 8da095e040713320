//! A snapshot becomes a [`Command`]: which machines to remove, what to create in their stead, and why the others
//! stay.
