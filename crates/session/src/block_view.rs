//! The rules' view of a block of a response, whatever its protocol.

use softland_core::Call;

/// The rules' view of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockView<'a> {
    Text(&'a str),
    /// Thinking. There is no `text` where it is encrypted; `signed` is true if it may go back.
    Thinking {
        text: Option<&'a str>,
        signed: bool,
    },
    /// A call, and true if its input is whole.
    Call(Call<'a>, bool),
    /// The result of a tool that the provider runs.
    Result,
    Other,
}
