use super::text::{describe_outputs, without_escapes};
use super::*;

#[test]
fn outputs_are_told_as_plain_text() {
    for (output, told) in [
        (
            json!({ "output_type": "stream", "name": "stdout", "text": "a\u{1b}[31mb\u{1b}[0m\u{7}\n" }),
            "ab",
        ),
        (json!({ "output_type": "stream", "name": "stderr", "text": "a" }), "(stderr) a"),
        (
            json!({ "output_type": "display_data", "data": { "text/plain": "x", "text/html": "<b>x</b>" } }),
            "x [also text/html]",
        ),
        (
            json!({ "output_type": "display_data", "data": { "text/html": "<style>p{}</style><p>a &lt; b<script>alert('<p>')</script></p>" } }),
            "(HTML, as text) a < b",
        ),
        (
            json!({ "output_type": "display_data", "data": { "image/png": "x".repeat(8000) } }),
            "[image/png, 6 kB]",
        ),
        (
            json!({ "output_type": "display_data", "data": { "image/svg+xml": "<svg/>", "text/plain": "fig" } }),
            "fig [image/svg+xml, 6 bytes]",
        ),
        (
            json!({ "output_type": "display_data", "data": { "application/x-odd": {} } }),
            "[also application/x-odd]",
        ),
        (json!({ "output_type": "hologram" }), "[an output of an unknown kind]"),
        (
            json!({ "output_type": "error", "ename": "E", "evalue": "why", "traceback": ["\u{1b}[0;31mline", "E: why"] }),
            "line\nE: why",
        ),
    ] {
        assert_eq!(describe_outputs(&[output], 1000), told);
    }
    assert_eq!(describe_outputs(&[], 10), "(no output)");
}

#[test]
fn escapes_go_and_words_stay() {
    for (text, plain) in [
        ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}[", ""),
        ("\u{1b}", ""),
        ("a\tb\nc\u{0}\r", "a\tb\nc"),
        ("\u{1b}(Bx", "Bx"),
    ] {
        assert_eq!(without_escapes(text), plain, "{text:?}");
    }
}

#[tokio::test]
async fn the_tools_have_their_names_and_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let options = crate::NotebookOptions::new(folder.path(), None);
    let notebook = SharedNotebook::open(&folder.path().join("a.ipynb"), options).await.unwrap();
    let tools = notebook_tools(&notebook);
    let names: Vec<&str> = tools.names().collect();
    let five = ["get_notebook_state", "create_cell", "update_cell", "run_cell", "delete_cell"];
    assert_eq!(names, five);
    assert!(tools.defs().all(|def| def.reads == (def.name == "get_notebook_state")));
}

#[tokio::test]
async fn a_long_notebook_is_shown_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let options = crate::NotebookOptions::new(folder.path(), None);
    let notebook = SharedNotebook::open(&folder.path().join("a.ipynb"), options).await.unwrap();
    for n in 0..30 {
        let source = format!("cell {n}\n{}", "long ".repeat(2000));
        let edit = Edit::CreateCell { index: None, kind: CellType::Code, source };
        notebook.apply_edit(edit, Actor::Human).await.unwrap();
    }
    let tools = notebook_tools(&notebook);
    let call = |input: Value| softland_agent::ToolCall {
        id: "1".to_owned(),
        name: "get_notebook_state".to_owned(),
        input_raw: input.to_string(),
    };
    let (mut from, mut shown) = (0, 0);
    loop {
        let told =
            tools.run_call(&call(json!({ "from": from })), &Default::default()).await.content;
        assert!(told.len() < ALL + 200);
        shown += told.matches("\ncell ").count();
        assert!(told.contains(&format!("| cell {from}\n")) && told.contains("bytes left out"));
        let Some((_, rest)) = told.split_once("`from`: ") else { break };
        from = rest.split_once(' ').unwrap().0.parse().unwrap();
    }
    assert_eq!(shown, 30);
    let id = notebook.watch().0.cells[7].id.clone();
    let told = tools.run_call(&call(json!({ "id": id })), &Default::default()).await.content;
    assert!(told.starts_with("cell 7: id `") && !told.contains("left out"), "{}", told.len());
}
