//! The rules as stories and tables: each test names the requirement lines that it holds the code to.

pub(super) mod model;

mod arrivals;
mod clocks;
mod commits;
mod forks;
mod moves;
mod notes;
mod observations;
mod outside;
mod pins;
mod prompts;
mod table;
mod talk;
mod texts;
mod worked_example;
