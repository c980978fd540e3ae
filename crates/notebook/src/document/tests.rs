use proptest::prelude::*;

use super::*;

/// As Jupyter writes it, with members that nobody knows.
const NOTEBOOK: &str = r#"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {"unknown": [1.0, 1e5,   null]},
   "source": [
    "Title\n",
    "text"
   ],
   "surprise":  {"deep": "\u00e9"}
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "code",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "a\n",
      "b\n"
     ]
    }
   ],
   "source": "print('a')\nprint('b')"
  }
 ],
 "metadata": {
  "kernelspec": {"display_name": "Python 3", "language": "python", "name": "py"},
  "other": true
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

fn read(text: &str) -> (Document, Vec<FileCell>) {
    Document::from_text(text.to_owned()).unwrap()
}

#[test]
fn a_notebook_is_read() {
    let (document, cells) = read(NOTEBOOK);
    assert_eq!(document.kernel_name(), Some("py"));
    assert!(document.has_names());
    assert_eq!(cells[0].source, "Title\ntext");
    assert_eq!((cells[1].count, cells[1].kind), (Some(3), CellType::Code));
    assert_eq!(cells[1].outputs[0]["text"], "a\nb\n");
}

#[test]
fn only_what_is_edited_is_written_anew() {
    let (document, _) = read(NOTEBOOK);
    let updated = document.update_cell("intro", "new\n\"line\"").unwrap();
    let lines = "[\n    \"Title\\n\",\n    \"text\"\n   ]";
    let wanted = NOTEBOOK.replace(lines, "[\n    \"new\\n\",\n    \"\\\"line\\\"\"\n   ]");
    assert_eq!(updated.text(), wanted);
    // A source that was one text stays one.
    let updated = document.update_cell("code", "x\ny").unwrap();
    let old = r#""print('a')\nprint('b')""#;
    assert_eq!(updated.text(), NOTEBOOK.replace(old, "\"x\\ny\""));
    let cleared = document.set_outputs("code", &[], None).unwrap();
    let again = cleared.set_outputs(
        "code",
        &[json!({ "name": "stdout", "output_type": "stream", "text": "a\nb\n" })],
        Some(3),
    );
    assert_eq!(again.unwrap().text(), NOTEBOOK);
}

#[test]
fn cells_come_go_and_move_and_the_others_keep_their_bytes() {
    let (document, _) = read(NOTEBOOK);
    let created = document.create_cell(1, "new", CellType::Code, "1\n2").unwrap();
    let cell = "{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"new\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"1\\n\",\n    \"2\"\n   ]\n  },\n  ";
    let at = NOTEBOOK.find("{\n   \"cell_type\": \"code\"").unwrap();
    assert_eq!(created.text(), format!("{}{cell}{}", &NOTEBOOK[..at], &NOTEBOOK[at..]));
    assert_eq!(created.delete_cell("new").unwrap().text(), NOTEBOOK);
    let moved = document.move_cell("code", 0).unwrap();
    assert_eq!(moved.move_cell("code", 1).unwrap().text(), NOTEBOOK);
    let last = document.create_cell(2, "new", CellType::Raw, "").unwrap();
    assert_eq!(last.delete_cell("new").unwrap().text(), NOTEBOOK);
    let none = document.delete_cell("intro").unwrap().delete_cell("code").unwrap();
    assert!(none.text().starts_with("{\n \"cells\": [],\n"));
    let one = none.create_cell(0, "new", CellType::Markdown, "x").unwrap();
    assert!(one.text().starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\","));
    nbformat::parse_notebook(one.text()).unwrap();
}

#[test]
fn the_layout_of_the_file_is_kept() {
    let compact = r#"{"cells":[{"cell_type":"raw","id":"a","metadata":{},"source":[]}],"metadata":{},"nbformat":4,"nbformat_minor":5}"#;
    let (document, _) = read(compact);
    let text = document.create_cell(1, "b", CellType::Raw, "x").unwrap();
    assert!(
        text.text().contains(r#"},{"cell_type":"raw","id":"b","metadata":{},"source":["x"]}]"#)
    );
    let windows = NOTEBOOK.replace('\n', "\r\n");
    let (document, _) = read(&windows);
    let text = document.create_cell(0, "b", CellType::Raw, "x\ny").unwrap();
    assert!(text.text().contains("[\r\n    \"x\\n\",\r\n    \"y\"\r\n   ]"));
    assert!(!text.text().replace("\r\n", "").contains('\n'));
    let tabs =
        "{\n\t\"cells\": [],\n\t\"metadata\": {},\n\t\"nbformat\": 4,\n\t\"nbformat_minor\": 5\n}";
    let text = read(tabs).0.create_cell(0, "b", CellType::Raw, "").unwrap();
    assert!(text.text().starts_with("{\n\t\"cells\": [\n\t\t{\n\t\t\t\"cell_type\": \"raw\",\n"));
}

#[test]
fn files_without_names_get_none() {
    let old = NOTEBOOK.replace("\"nbformat_minor\": 5", "\"nbformat_minor\": 4");
    let old = old.replace("   \"id\": \"intro\",\n", "").replace("   \"id\": \"code\",\n", "");
    let (document, cells) = read(&old);
    let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["cell-1", "cell-2"]);
    let created = document.create_cell(0, "mine", CellType::Code, "x").unwrap();
    assert!(!created.text().contains("\"id\"") && created.text().contains("\"nbformat_minor\": 4"));
    let deleted = created.delete_cell("cell-2").unwrap().delete_cell("mine").unwrap();
    assert!(deleted.text().contains("Title") && !deleted.text().contains("print"));
}

#[test]
fn cells_without_a_name_or_with_anothers_are_told_apart() {
    let twice = NOTEBOOK.replace("\"id\": \"code\"", "\"id\": \"intro\"");
    let (document, cells) = read(&twice);
    assert_eq!((cells[0].id.as_str(), cells[1].id.as_str()), ("intro", "cell-2"));
    assert_eq!(document.text(), twice);
    let missing = NOTEBOOK.replace("   \"id\": \"code\",\n", "");
    assert_eq!(read(&missing).1[1].id, "cell-2");
}

#[test]
fn what_is_no_notebook_is_refused_and_why() {
    for (text, why) in [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\u{feff}{}", "byte-order mark"),
        ("{\"a\": [\n1, NaN]}", "JSON has no number NaN (line 2, column 4): write null"),
        ("{\"a\": [1, -Infinity]}", "JSON has no number -Infinity (line 1"),
        ("{\"a\":Infinity}", "JSON has no number Infinity (line 1"),
        ("{\"a\": NULL}", "expected"),
        ("[]", "no `nbformat`"),
        ("{\"nbformat\": 4}", "no `nbformat`"),
        (r#"{"worksheets": [], "metadata": {}, "nbformat": 3, "nbformat_minor": 0}"#, "old format"),
        (r#"{"cells": [], "metadata": {}, "nbformat": 5, "nbformat_minor": 0}"#, "format 5"),
        (r#"{"metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#, "no list of `cells`"),
        (
            r#"{"cells": [{}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#,
            "cell 1 is wrong",
        ),
        (
            r#"{"cells": [], "metadata": 3, "nbformat": 4, "nbformat_minor": 5}"#,
            "metadata are wrong",
        ),
    ] {
        let refused = Document::from_text(text.to_owned()).unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
    // A later minor version, and outputs that are not known, are no reason.
    let later = NOTEBOOK.replace("\"nbformat_minor\": 5", "\"nbformat_minor\": 9");
    read(&later.replace("\"stream\"", "\"hologram\""));
}

#[test]
fn a_new_notebook_is_one() {
    let text = Document::empty_text("python3");
    nbformat::parse_notebook(&text).unwrap();
    assert_eq!(read(&text).0.kernel_name(), Some("python3"));
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize, CellType, String),
    Update(usize, String),
    Give(usize, Vec<Value>, Option<u64>),
    Delete(usize),
    Reorder(usize, usize),
}

fn kind() -> impl Strategy<Value = CellType> {
    prop_oneof![Just(CellType::Code), Just(CellType::Markdown), Just(CellType::Raw)]
}

fn output() -> impl Strategy<Value = Value> {
    let text = || "(?s).{0,20}";
    prop_oneof![
        text().prop_map(|text| json!({ "output_type": "stream", "name": "stdout", "text": text })),
        (text(), text()).prop_map(|(text, html)| json!({
            "output_type": "display_data",
            "data": { "text/plain": text, "text/html": html, "application/json": { "a": [text] } },
            "metadata": {},
        })),
        text().prop_map(|text| json!({
            "output_type": "error", "ename": "E", "evalue": text, "traceback": [text],
        })),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let source = || "(?s).{0,30}";
    prop_oneof![
        (0..9usize, kind(), source()).prop_map(|(at, kind, text)| Step::Create(at, kind, text)),
        (0..9usize, source()).prop_map(|(at, text)| Step::Update(at, text)),
        (0..9usize, prop::collection::vec(output(), 0..4), prop::option::of(0..99u64))
            .prop_map(|(at, outputs, count)| Step::Give(at, outputs, count)),
        (0..9usize).prop_map(Step::Delete),
        (0..9usize, 0..9usize).prop_map(|(from, to)| Step::Reorder(from, to)),
    ]
}

/// A notebook of any layout, with strange members.
fn notebook() -> impl Strategy<Value = String> {
    let cell = (kind(), "(?s).{0,20}", any::<bool>(), prop::collection::vec(output(), 0..3));
    let cells = prop::collection::vec(cell, 0..5);
    (cells, 0..6u64, prop_oneof![Just(""), Just(" "), Just("    "), Just("\t")], any::<bool>())
        .prop_map(|(cells, minor, unit, pretty)| {
            let cells = cells.into_iter().enumerate().map(|(n, (kind, source, lines, outputs))| {
                let source = if lines { style::split_lines(&source) } else { source.into() };
                let mut cell = json!({
                    "cell_type": kind.as_str(), "metadata": { "z": [n] }, "source": source, "odd": null,
                });
                if kind == CellType::Code {
                    cell["outputs"] = outputs.into();
                    cell["execution_count"] = Value::Null;
                }
                if minor >= 5 {
                    cell["id"] = format!("id-{n}").into();
                }
                cell
            });
            let value = json!({
                "cells": cells.collect::<Vec<_>>(), "metadata": { "x": 1 }, "more": [{}],
                "nbformat": 4, "nbformat_minor": minor,
            });
            if !pretty {
                return value.to_string();
            }
            let mut text = String::new();
            JsonLayout::indented(unit).write_value(&mut text, &value, 0);
            text
        })
}

/// Applies a step to a list of cells.
fn model(cells: &mut Vec<FileCell>, step: &Step, id: &str) -> Option<usize> {
    let at = |at: usize| at.checked_rem(cells.len());
    match step {
        Step::Create(at, kind, source) => {
            let at = at % (cells.len() + 1);
            let (outputs, count) = (Vec::new(), None);
            let (id, source) = (id.to_owned(), source.clone());
            cells.insert(at, FileCell { id, kind: *kind, source, outputs, count });
            Some(at)
        }
        Step::Update(n, source) => {
            let at = at(*n)?;
            cells[at].source.clone_from(source);
            Some(at)
        }
        Step::Give(n, outputs, count) => {
            let at = at(*n).filter(|at| cells[*at].kind == CellType::Code)?;
            (cells[at].outputs, cells[at].count) = (outputs.clone(), *count);
            Some(at)
        }
        Step::Delete(n) => {
            let at = at(*n)?;
            cells.remove(at);
            Some(at)
        }
        Step::Reorder(from, to) => {
            let (from, to) = (at(*from)?, at(*to)?);
            let cell = cells.remove(from);
            cells.insert(to, cell);
            Some(from)
        }
    }
}

fn bytes(document: &Document) -> Vec<(String, String)> {
    let slots = document.ids.iter().zip(&document.index.cells);
    slots.map(|(id, slot)| (id.clone(), slot.span.slice_of(&document.text).to_owned())).collect()
}

proptest! {
    #[test]
    fn any_edits_of_any_notebook(text in notebook(), steps in prop::collection::vec(step(), 1..12)) {
        let (mut document, mut cells) = read(&text);
        for (n, step) in steps.iter().enumerate() {
            let (before, new) = (cells.clone(), format!("new-{n}"));
            let Some(at) = model(&mut cells, step, &new) else { continue };
            let id = before.get(at).map_or("", |cell| cell.id.as_str());
            let edited = match step {
                Step::Create(_, kind, source) => document.create_cell(at, &new, *kind, source),
                Step::Update(_, source) => document.update_cell(id, source),
                Step::Give(_, outputs, count) => document.set_outputs(id, outputs, *count),
                Step::Delete(_) => document.delete_cell(id),
                Step::Reorder(_, to) => document.move_cell(id, to % before.len()),
            };
            let edited = edited.unwrap();
            nbformat::parse_notebook(edited.text()).unwrap();
            let (_, mut read) = read(edited.text());
            if !edited.has_names() {
                read.iter_mut().zip(&cells).for_each(|(read, cell)| read.id.clone_from(&cell.id));
            }
            prop_assert_eq!(&read, &cells);
            let touched = match step {
                Step::Update(..) | Step::Give(..) => id,
                Step::Create(..) | Step::Delete(_) | Step::Reorder(..) => "",
            };
            let kept = bytes(&edited);
            for cell in bytes(&document) {
                let found = kept.iter().find(|(other, _)| *other == cell.0);
                prop_assert!(cell.0 == touched || found.is_none_or(|kept| *kept == cell));
            }
            let end = |document: &Document| document.text[document.index.list.end..].to_owned();
            prop_assert_eq!(end(&edited), end(&document));
            document = edited;
        }
    }
}
